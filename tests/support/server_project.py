"""A project whose stores are on servers, and a search for their secrets in the output of a tool."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import lakeconf

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest
    from servers import PostgresServer, S3Server

# Two stores, each with its own catalog and folder. The file contains no credentials and can be committed.
TOML = """\
default_store = "prod"

[stores.prod.metadata_backend]
type = "postgres"
host = "${{LAKE_PG_HOST}}"
port = {port}
database = "{database}"
user = "{user}"
password = "${{LAKE_PG_PASSWORD}}"
metadata_schema = "prod"

[stores.prod.storage_backend]
type = "s3"
bucket = "{bucket}"
prefix = "prod"
region = "{region}"
endpoint = "{endpoint}"
url_style = "path"
use_ssl = false
key_id = "${{LAKE_S3_KEY_ID}}"
secret = "${{LAKE_S3_SECRET}}"

[stores.analytics]
extends = "prod"
metadata_backend = {{ metadata_schema = "analytics" }}
storage_backend = {{ prefix = "analytics" }}
"""


@dataclass(frozen=True)
class Project:
    """A folder with a lakeconf.toml whose default store is `prod`."""

    folder: Path
    secrets: dict[str, str]  # every secret value of its stores, by variable

    def rows(self, query: str, store: str | None = None) -> list[tuple[object, ...]]:
        """The rows that lakeconf reads, on a new connection."""
        with lakeconf.init(self.folder).get_store(store).connect() as connection:
            return connection.execute(query).fetchall()

    def assert_no_secret(self, *others: Path, text: str = "") -> None:
        """Searches for every secret in every file of the project and of other folders, and in a text."""
        written = {path: path.read_bytes() for path in self._files(*others)}
        assert written
        for variable, secret in self.secrets.items():
            assert [path for path, content in written.items() if secret.encode() in content] == [], variable
            assert secret not in text, variable

    def _files(self, *others: Path) -> Iterator[Path]:
        for folder in (self.folder, *others):
            yield from (path for path in folder.rglob("*") if path.is_file())


def make_project(
    folder: Path, patch: pytest.MonkeyPatch, catalog: PostgresServer, storage: S3Server, endpoint: str = ""
) -> Project:
    """Writes the file for a new database and a new bucket, and sets its variables in this process."""
    secrets = {"LAKE_PG_PASSWORD": catalog.password, "LAKE_S3_SECRET": storage.keys.secret}
    for name, value in {**secrets, "LAKE_PG_HOST": catalog.host, "LAKE_S3_KEY_ID": storage.keys.key_id}.items():
        patch.setenv(name, value)
    toml = TOML.format(
        port=catalog.port,
        database=catalog.create_database(),
        user=catalog.user,
        bucket=storage.create_bucket(),
        region=storage.region,
        endpoint=endpoint or storage.endpoint,
    )
    (folder / "lakeconf.toml").write_text(toml)
    return Project(folder, secrets)
