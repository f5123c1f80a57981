"""A project with stores on PostgreSQL and S3, and a home directory with DuckDB extensions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest
from server_project import TOML, Project

from lakeconf.connection.connection import _extension_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from servers import PostgresServer, S3Server


@pytest.fixture
def server_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_server: PostgresServer, s3_server: S3Server
) -> Project:
    """The working directory, with the stores `prod` and `analytics` on PostgreSQL and S3; secrets are in variables."""
    secrets = {"LAKE_PG_PASSWORD": postgres_server.password, "LAKE_S3_SECRET": s3_server.keys.secret}
    settings = {**secrets, "LAKE_PG_HOST": postgres_server.host, "LAKE_S3_KEY_ID": s3_server.keys.key_id}
    settings |= {"SQLMESH__DISABLE_ANONYMIZED_ANALYTICS": "true", "RUNTIME__DLTHUB_TELEMETRY": "false"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "project"
    folder.mkdir()
    toml = TOML.format(
        port=postgres_server.port,
        database=postgres_server.create_database(),
        user=postgres_server.user,
        bucket=s3_server.create_bucket(),
        region=s3_server.region,
        endpoint=s3_server.endpoint,
    )
    (folder / "lakeconf.toml").write_text(toml)
    monkeypatch.chdir(folder)
    return Project(folder, secrets)


@pytest.fixture(scope="session")
def home_with_extensions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home directory in which DuckDB's extensions are installed, as after INSTALL from its server."""
    home = tmp_path_factory.mktemp("home")
    with duckdb.connect(config={"extension_directory": str(home / ".duckdb" / "extensions")}) as connection:
        for name in ("ducklake", "sqlite_scanner", "postgres_scanner", "httpfs"):
            connection.execute(f"INSTALL '{_extension_wheel(name)}'")
    return home
