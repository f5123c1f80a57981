"""SQL of every pair of backends in golden files: DuckDB parses them, and runs those that need no server."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
from store_shapes import ALLOWED, METADATA, REFUSED, SECRETS, STORAGE, configuration, has_credentials

from lakeconf.config.config import init
from lakeconf.connection.connection import Connection, load_extension
from lakeconf.errors import ConfigError, StorageError
from lakeconf.sql import bind
from lakeconf.store import for_reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakeconf.store import Store

GOLDEN = Path(__file__).parent / "golden"
SHAPES = [(*pair, inline) for pair in ALLOWED for inline in (False, True) if has_credentials(*pair) or not inline]
RENDERINGS = ("masked", "portable", "bound")
SERVERLESS = [shape for shape in SHAPES if shape[0] in ("duckdb", "sqlite")]


@pytest.fixture(autouse=True)
def secrets_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


def store_of(metadata: str, storage: str, *, inline: bool) -> Store:
    return init(configuration(metadata, storage, inline=inline)).get_store("prod")


def rendered(store: Store, rendering: str) -> list[str]:
    if rendering == "bound":
        return [bind(statement)[0] for statement in store.statements]
    return store.preview_sql(portable=rendering == "portable")


def golden_file(metadata: str, storage: str, *, inline: bool, rendering: str) -> Path:
    return GOLDEN / f"{metadata}-{storage}{'.inline' if inline else ''}.{rendering}.sql"


@pytest.mark.parametrize("rendering", RENDERINGS)
@pytest.mark.parametrize(("metadata", "storage", "inline"), SHAPES)
def test_sql_of_a_pair_matches_its_golden_file(
    metadata: str, storage: str, inline: bool, rendering: str, check_golden: Callable[[Path, str], None]
) -> None:
    """DuckDB parses it into the statements of the store."""
    store = store_of(metadata, storage, inline=inline)
    text = "".join(f"{statement}\n" for statement in rendered(store, rendering))
    check_golden(golden_file(metadata, storage, inline=inline, rendering=rendering), text)
    # Only MotherDuck's extension supports CREATE DATABASE, and it does not load without its server.
    parsed = duckdb.extract_statements(text.replace("CREATE DATABASE IF NOT EXISTS ", "ATTACH 'md:' AS "))
    assert len(parsed) == len(store.statements)
    assert "hunter2" not in text


def test_every_golden_file_belongs_to_a_pair() -> None:
    wanted = {golden_file(*shape[:2], inline=shape[2], rendering=r) for shape in SHAPES for r in RENDERINGS}
    assert {path.name for path in GOLDEN.iterdir()} == {path.name for path in wanted}


@pytest.mark.parametrize("rendering", RENDERINGS)
@pytest.mark.parametrize(("metadata", "storage", "inline"), SERVERLESS)
def test_golden_file_that_needs_no_server_runs(
    metadata: str, storage: str, inline: bool, rendering: str, tmp_path: Path
) -> None:
    sql = golden_file(metadata, storage, inline=inline, rendering=rendering).read_text()
    with duckdb.connect() as con:
        for statement in duckdb.extract_statements(
            sql.replace("'/lake", f"'{tmp_path}").replace(":/lake", f":{tmp_path}")
        ):
            query = statement.query.strip()
            if query.startswith("LOAD"):
                load_extension(Connection(con), query.split()[1].rstrip(";"))
            elif not query.startswith("INSTALL"):
                # Only the DuckDB CLI has the function getenv().
                query = query.replace("getenv('BUCKET_SECRET')", "'s'").replace("getenv('BUCKET_TOKEN')", "'t'")
                con.execute(query, ["?"] * query.count("?") or None)
        assert con.execute("SELECT current_database()").fetchall() == [("prod",)]
        assert con.execute("FROM duckdb_secrets() SELECT count(*) WHERE persistent").fetchall() == [(0,)]


@pytest.mark.prove("duckdb-gcs", "duckdb-r2", "sqlite-s3")
@pytest.mark.slow
@pytest.mark.parametrize(("metadata", "storage", "inline"), SERVERLESS)
def test_store_that_needs_no_server_attaches(metadata: str, storage: str, inline: bool, tmp_path: Path) -> None:
    shape = configuration(metadata, storage, inline=inline)["stores"]["prod"]
    shape["metadata_backend"] = {**shape["metadata_backend"], "uri": str(tmp_path / "catalog")}
    if storage == "local":
        shape["storage_backend"] = {**shape["storage_backend"], "path": str(tmp_path / "data")}
    with init({"stores": {"prod": shape}}).get_store().connect() as con:
        assert con.execute("SELECT current_database()").fetchall() == [("prod",)]
    at, magic = {"sqlite": (0, b"SQLite format 3\x00"), "duckdb": (8, b"DUCK")}[metadata]
    assert (tmp_path / "catalog").read_bytes()[at:].startswith(magic)


@pytest.mark.parametrize(("metadata", "storage"), REFUSED)
def test_unsupported_pair_is_rejected(metadata: str, storage: str) -> None:
    with pytest.raises(ConfigError) as raised:
        init(configuration(metadata, storage)).get_store("prod")
    (problem,) = raised.value.problems
    assert problem.code == "LC051"
    assert metadata in problem.message


def test_every_pair_is_either_allowed_or_rejected() -> None:
    assert set(ALLOWED) | set(REFUSED) == set(itertools.product(METADATA, STORAGE))


@pytest.mark.parametrize(("metadata", "storage", "inline"), SHAPES)
def test_secrets_are_masked_unless_revealed(metadata: str, storage: str, inline: bool) -> None:
    store = store_of(metadata, storage, inline=inline)
    assert "hunter2" not in f"{store!r} {store.statements!r} {store.preview_sql()} {store.preview_sql(portable=True)}"
    shown = "".join(store.preview_sql(show_secrets=True))
    assert all(secret.reveal() in shown for secret in store.secrets)
    assert bool(store.secrets) == inline


@pytest.mark.slow
def test_ca_certificate_is_relative_to_the_file_and_set_before_attach(tmp_path: Path) -> None:
    storage = 'type = "s3"\nbucket = "b"\nsecret_name = "mine"\nca_cert_file = "ca.pem"\n'
    catalog = '[stores.dev.metadata_backend]\ntype = "sqlite"\nuri = "catalog"\n'
    (tmp_path / "lakeconf.toml").write_text(f"{catalog}[stores.dev.storage_backend]\n{storage}")
    store = init(tmp_path).get_store()
    preview = store.preview_sql()
    setting = f"SET GLOBAL ca_cert_file = '{tmp_path / 'ca.pem'}';"
    assert preview.index(setting) < next(number for number, sql in enumerate(preview) if sql.startswith("ATTACH"))
    with pytest.raises(StorageError, match=r"there is no file .*ca\.pem"):
        store.open()


@pytest.mark.parametrize("storage", ["none", "s3"])
def test_motherduck_store_that_is_opened_for_reading_creates_no_database(storage: str) -> None:
    metadata = {"type": "motherduck", "database": "lake"}
    store: dict[str, object] = {"metadata_backend": metadata}
    if storage == "s3":
        store["storage_backend"] = {"type": "s3", "bucket": "bucket", "secret_name": "keys"}
    found = init({"stores": {"prod": store}}).get_store("prod")
    assert any(line.startswith("CREATE DATABASE") for line in found.preview_sql())
    for reading in (for_reading(found), for_reading(found, read_only=False)):
        assert "ATTACH 'md:';" in reading.preview_sql()
        assert not any("CREATE DATABASE" in line for line in reading.preview_sql())
    assert for_reading(found).read_only
