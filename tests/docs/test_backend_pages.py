"""docs/backends.md and docs/postgres.md: configurations are valid and grants suffice; the SQL for MotherDuck."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest
from doc_pages import block, blocks
from local_stores import on_postgres
from source_tree import REPOSITORY

import lakeconf
from lakeconf.config.config import validate
from lakeconf.errors import CatalogError, LakeconfError

if TYPE_CHECKING:
    from pathlib import Path

    from servers import PostgresServer

GOLDEN = sorted((REPOSITORY / "tests" / "backends" / "golden").glob("motherduck-*.masked.sql"))


@pytest.mark.parametrize(
    ("page", "number"),
    [(page, number) for page in ("backends.md", "postgres.md") for number in range(len(blocks(page, "toml")))],
)
def test_configurations_of_the_pages_are_valid(
    page: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = blocks(page, "toml")[number]
    for name in re.findall(r"\$\{(\w+)", text):
        monkeypatch.setenv(name, "x")
    (tmp_path / "lakeconf.toml").write_text(text)
    assert validate(tmp_path / "lakeconf.toml") == []


def test_grants_for_a_read_only_role(postgres_server: PostgresServer, tmp_path: Path) -> None:
    database = postgres_server.create_database()
    metadata = {**on_postgres(postgres_server, database), "metadata_schema": "lake"}
    storage = {"type": "local", "path": str(tmp_path)}
    backends = {"metadata_backend": metadata, "storage_backend": storage}
    with lakeconf.init({"stores": {"dev": backends}}).get_store("dev").open() as lake:
        lake.create_table("t", {"id": "BIGINT"}).append(pa.table({"id": [1]}))
    postgres_server.sql("CREATE ROLE reports LOGIN PASSWORD 'of-the-reports'")
    for grant in filter(str.strip, block("backends.md", "sql", "GRANT").split(";")):
        postgres_server.sql(grant, database)
    backends["metadata_backend"] = {**metadata, "user": "reports", "password": "of-the-reports"}
    reports = {"stores": {"dev": {**backends, "attach_options": {"read_only": True}}}}
    with lakeconf.init(reports).get_store("dev").open() as lake:
        assert lake.table("t").scan().collect("pyarrow").rows() == [(1,)]
        with pytest.raises(LakeconfError, match="read-only"):
            lake.table("t").append(pa.table({"id": [2]}))
    # Without read_only the privileges of the role decide, before anything is written.
    files = sorted(tmp_path.rglob("*.parquet"))
    with lakeconf.init({"stores": {"dev": backends}}).get_store("dev").open() as lake:
        with pytest.raises(CatalogError, match=r"the role may not change the catalog's table ducklake_") as refused:
            lake.table("t").append(pa.table({"id": [2]}))
        assert "read_only = true" in str(refused.value)
        assert "of-the-reports" not in str(refused.value)
    assert sorted(tmp_path.rglob("*.parquet")) == files


def test_roles_of_the_page_about_postgres(postgres_server: PostgresServer, tmp_path: Path) -> None:
    database = postgres_server.create_database()
    set_up, timeout = blocks("postgres.md", "sql")
    own = re.sub(
        r"^(CREATE DATABASE|\\connect) .*\n", "", f"{set_up}{timeout}".replace("'…'", "'of-the-page'"), flags=re.M
    )
    postgres_server.sql([line for line in own.splitlines() if line], database)
    config = tomllib.loads(blocks("postgres.md", "toml")[0])
    prod, reports = (config["stores"][name] for name in ("prod", "reports"))
    reached = {
        "host": postgres_server.host,
        "port": postgres_server.port,
        "database": database,
        "secret_parameters": {},
    }
    prod["metadata_backend"] |= reached | {"password": "of-the-page"}
    prod["storage_backend"] = {"type": "local", "path": str(tmp_path)}
    reports["metadata_backend"] |= {"password": "of-the-page"}
    stores = lakeconf.init(config)
    with stores.get_store("prod").open() as lake:
        lake.create_table("t", {"id": "BIGINT"}).append(pa.table({"id": [1]}))
    with stores.get_store("reports").open() as lake:
        assert lake.table("t").head() == [{"id": 1}]
        with pytest.raises(LakeconfError, match="read-only"):
            lake.table("t").append(pa.table({"id": [2]}))


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_duckdb_parses_the_sql_for_motherduck(file: Path) -> None:
    lines = file.read_text().splitlines()
    # DuckDB parses this statement only with the motherduck extension, which does not load without its service.
    own = [line for line in lines if not line.startswith("CREATE DATABASE IF NOT EXISTS ")]
    assert len(lines) - len(own) == 1
    assert len(duckdb.connect().extract_statements("\n".join(own))) == len(own)


def test_motherduck_token_is_in_no_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("motherduck_token", "planted-token")
    config = {"stores": {"md": {"metadata_backend": {"type": "motherduck", "database": "shop_lake"}}}}
    store = lakeconf.init(config).get_store("md")
    assert "planted-token" not in "".join(store.preview_sql(show_secrets=True)) + repr(store)
