"""Stores on one PostgreSQL: separation by schema, existing secrets, masked passwords."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from certificates import make_certificate
from local_stores import on_postgres, store_of

import lakeconf
from lakeconf.connection.connection import Connection, load_extension
from lakeconf.errors import CatalogError, ConnectionFailed, LakeconfError
from lakeconf.inspection.read_only_sql import query

if TYPE_CHECKING:
    from pathlib import Path

    from servers import PostgresServer


def config(server: PostgresServer, tmp_path: Path, **stores: dict[str, Any]) -> lakeconf.Config:
    """A configuration with stores on one database, each with its own keys of the metadata backend."""
    login = on_postgres(server)
    return lakeconf.init(
        {
            "stores": {
                name: {
                    "metadata_backend": login | keys,
                    "storage_backend": {"type": "local", "path": str(tmp_path / name)},
                }
                for name, keys in stores.items()
            }
        }
    )


@pytest.mark.slow
def test_two_stores_in_one_database_are_separate(postgres_server: PostgresServer, tmp_path: Path) -> None:
    both = config(postgres_server, tmp_path, shop={"metadata_schema": "shop"}, test={"metadata_schema": "test"})
    with both.get_store("shop").open() as shop, both.get_store("test").open() as test:
        shop.create_table("t", {"id": "BIGINT"}).append(pa.table({"id": [1]}))
        assert test.refresh() == 0
        assert test.tables() == []
        test.create_table("t", {"id": "BIGINT"}).append(pa.table({"id": [2, 3]}))
        assert shop.table("t").scan().collect("pyarrow").rows() == [(1,)]
        assert len(test.table("t").scan().collect()) == 2
    connection = duckdb.connect()
    for name in ("shop", "test"):
        both.get_store(name).attach(connection)
    assert connection.execute("SELECT (SELECT count(*) FROM shop.t), (SELECT count(*) FROM test.t)").fetchall() == [
        (1, 2)
    ]
    shown = connection.execute("SELECT * FROM duckdb_databases()").fetchall()
    assert postgres_server.password not in str(shown)


def test_existing_secret_is_used_by_name(postgres_server: PostgresServer, tmp_path: Path) -> None:
    database = postgres_server.create_database()
    backends = {
        "metadata_backend": {"type": "postgres", "secret_name": "of_the_team", "metadata_schema": "lake"},
        "storage_backend": {"type": "local", "path": str(tmp_path)},
    }
    store = lakeconf.init({"stores": {"dev": backends}}).get_store("dev")
    with pytest.raises(LakeconfError, match="of_the_team"):
        store.open()
    connection = duckdb.connect()
    load_extension(Connection(connection), "postgres_scanner")
    connection.execute(
        f"CREATE SECRET of_the_team (TYPE postgres, HOST '{postgres_server.host}', PORT {postgres_server.port}, "
        f"DATABASE '{database}', USER '{postgres_server.user}', PASSWORD '{postgres_server.password}')"
    )
    store.attach(connection)
    connection.execute("CREATE TABLE t AS SELECT 42 AS answer")
    assert connection.execute("FROM dev.t").fetchall() == [(42,)]


@pytest.mark.slow
@pytest.mark.prove("policy", "rule", "index", "child", "partition", "referred")
@pytest.mark.parametrize(
    "changed",
    [
        "ALTER TABLE lake.ducklake_data_file RENAME TO kept; "
        "CREATE VIEW lake.ducklake_data_file AS SELECT * FROM lake.kept WHERE current_query() IS NOT NULL",
        "ALTER TABLE lake.ducklake_data_file ENABLE ROW LEVEL SECURITY",
        "CREATE RULE other AS ON INSERT TO lake.ducklake_data_file DO ALSO NOTIFY x",
        "CREATE TRIGGER t BEFORE UPDATE ON lake.ducklake_data_file FOR EACH ROW "
        "EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "ALTER TABLE lake.ducklake_data_file ADD CHECK (path <> 'x')",
        "ALTER TABLE lake.ducklake_data_file ALTER COLUMN path SET DEFAULT lower('X')",
        "CREATE INDEX i ON lake.ducklake_data_file (lower(path))",
        "CREATE TABLE lake.more () INHERITS (lake.ducklake_data_file)",
        "CREATE TABLE lake.more (LIKE lake.ducklake_data_file) PARTITION BY LIST (lower(path)); "
        "ALTER TABLE lake.more ATTACH PARTITION lake.ducklake_data_file DEFAULT",
        "CREATE TABLE lake.more (id BIGINT REFERENCES lake.ducklake_data_file ON DELETE CASCADE)",
        "CREATE DOMAIN lake.own AS VARCHAR CHECK (lower(VALUE) <> 'x'); "
        "ALTER TABLE lake.ducklake_data_file ALTER COLUMN path TYPE lake.own",
    ],
    ids=["view", "policy", "rule", "trigger", "check", "default", "index", "child", "partition", "referred", "domain"],
)
def test_catalog_table_that_can_answer_each_query_differently_is_refused(
    changed: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    """The check of paths would see other paths than DuckLake, which sends credentials to them."""
    store = config(postgres_server, tmp_path, dev={"metadata_schema": "lake"}).get_store("dev")
    with store.open() as lake:
        lake.create_table("t", {"id": "BIGINT"}).append(pa.table({"id": [1]}))
    postgres_server.sql(changed, store.metadata_backend.database)  # type: ignore[attr-defined]
    for use in (store.open, lambda: store.open(read_only=True), lambda: query(store, "FROM t")):
        with pytest.raises(CatalogError, match="the catalog's 'ducklake_data_file' is not a plain table"):
            use()


@pytest.mark.slow
def test_server_that_does_not_answer_is_an_error_after_the_configured_time(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        backend = {
            "type": "postgres",
            "host": "127.0.0.1",
            "port": silent.getsockname()[1],
            "database": "lake",
            "user": "lake",
            "secret_parameters": {"sslmode": "disable", "connect_timeout": 2},
        }
        store = {"metadata_backend": backend, "storage_backend": {"type": "local", "path": str(tmp_path)}}
        with pytest.raises(ConnectionFailed, match="timeout expired"):
            lakeconf.init({"stores": {"dev": store}}).get_store().open()


@pytest.mark.slow
def test_server_is_verified_as_the_store_says(postgres_tls_server: PostgresServer, tmp_path: Path) -> None:
    for mode, authority, refusal in (
        ("verify-full", postgres_tls_server.ca, None),
        ("require", None, None),
        ("verify-ca", make_certificate(tmp_path).ca, "certificate verify failed"),
        ("disable", None, "no encryption"),
    ):
        given = {"sslmode": mode} | ({"sslrootcert": str(authority)} if authority else {})
        store = store_of(tmp_path, {**on_postgres(postgres_tls_server, "postgres"), "secret_parameters": given})
        if refusal is None:
            store.connect().close()
        else:
            with pytest.raises(LakeconfError, match=refusal):
                store.connect()
