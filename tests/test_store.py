from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from lakeconf.backends.metadata.file_catalogs import DuckDBMetadata, SQLiteMetadata
from lakeconf.backends.metadata.postgres import PostgresMetadata
from lakeconf.backends.storage.local import LocalStorage
from lakeconf.backends.storage.object_storage import S3Storage
from lakeconf.connection.connection import Connection, load_extension
from lakeconf.errors import CatalogError, LakeconfError, StorageError
from lakeconf.secret import Secret
from lakeconf.store import Store, for_reading

if TYPE_CHECKING:
    from pathlib import Path


def sqlite_store(folder: Path, name: str = "dev", **options: Any) -> Store:
    backends = SQLiteMetadata(uri=str(folder / f"{name}.sqlite")), LocalStorage(path=str(folder / name))
    return Store(name, *backends, **options)


@pytest.mark.parametrize(("kind", "offset", "magic"), [("sqlite", 0, b"SQLite format 3\x00"), ("duckdb", 8, b"DUCK")])
def test_catalog_file_has_the_format_of_its_type(tmp_path: Path, kind: str, offset: int, magic: bytes) -> None:
    backend = {"sqlite": SQLiteMetadata, "duckdb": DuckDBMetadata}[kind](uri=str(tmp_path / "catalog"))
    Store("dev", backend, LocalStorage(path=str(tmp_path / "data"))).connect().close()
    assert (tmp_path / "catalog").read_bytes()[offset:].startswith(magic)


def test_connect_returns_a_connection_that_uses_the_lake(tmp_path: Path) -> None:
    store = sqlite_store(tmp_path)
    with store.connect() as con:
        con.execute("CREATE TABLE t AS SELECT 42 AS answer")
        assert con.execute("SELECT answer FROM dev.main.t").fetchall() == [(42,)]
        assert con.execute("SELECT DISTINCT persistent FROM duckdb_secrets()").fetchall() == [(False,)]
        with pytest.raises(CatalogError, match="already has a database 'dev'"):
            store.attach(con)
    assert list((tmp_path / "dev").rglob("*.parquet"))


def test_attach_several_stores_to_a_connection_and_keep_its_default_database(tmp_path: Path) -> None:
    with duckdb.connect() as con:
        con.execute("CREATE TABLE own AS SELECT 1 AS a")
        sqlite_store(tmp_path, "raw").attach(con, use=False)
        assert con.execute("FROM own").fetchall() == [(1,)]
        con.execute("CREATE TABLE raw.t AS FROM own")
        sqlite_store(tmp_path, "marts").attach(con)
        assert con.execute("SELECT current_database()").fetchall() == [("marts",)]
        con.execute("CREATE TABLE marts.t AS FROM raw.t")
        assert con.execute("FROM marts.t").fetchall() == [(1,)]


@pytest.mark.slow
def test_attach_replaces_its_own_secrets_but_no_foreign_one(tmp_path: Path) -> None:
    storage = S3Storage(secret_name="shared", bucket="b", key_id="k", secret=Secret("hunter2"))
    store = Store("prod", SQLiteMetadata(uri=str(tmp_path / "c")), storage)
    with duckdb.connect() as con:
        store.attach(con)
        con.execute("USE memory; DETACH prod")
        store.attach(con)
    with duckdb.connect() as con:
        load_extension(Connection(con), "httpfs")
        con.execute("CREATE SECRET shared (TYPE s3, KEY_ID 'theirs', SECRET 'x')")
        with pytest.raises(CatalogError, match="secret 'shared' that lakeconf did not create"):
            store.attach(con)
        assert "theirs" in con.execute("SELECT secret_string FROM duckdb_secrets()").fetchall()[0][0]


def test_read_only_store_does_not_create_or_change_a_lake(tmp_path: Path) -> None:
    reader = sqlite_store(tmp_path, attach_options={"read_only": True})
    with pytest.raises(CatalogError, match="has no lake yet"):
        reader.connect()
    assert list(tmp_path.iterdir()) == []
    sqlite_store(tmp_path).connect().close()
    with reader.connect() as con, pytest.raises(duckdb.Error, match="read-only"):
        con.execute("CREATE TABLE t (a INTEGER)")


def test_invalid_attach_option_is_rejected_and_a_secret_one_masked(tmp_path: Path) -> None:
    for options, message in (
        ({"override_datapath": True}, 'did you mean "override_data_path"'),
        ({"read_only": "yes"}, "must be true or false"),
        ({"snapshot_version": True}, "must be an integer"),
    ):
        with pytest.raises(LakeconfError, match=message):
            sqlite_store(tmp_path, attach_options=options)
    store = sqlite_store(tmp_path, attach_options={"meta_password": "hunter2"})
    assert "hunter2" not in "".join(store.preview_sql()) + repr(store)
    assert "hunter2" in "".join(store.preview_sql(show_secrets=True))


def test_file_or_another_lake_as_data_path_is_rejected(tmp_path: Path) -> None:
    metadata = SQLiteMetadata(uri=str(tmp_path / "c"))
    Store("dev", metadata, LocalStorage(path=str(tmp_path / "a"))).connect().close()
    elsewhere = Store("dev", metadata, LocalStorage(path=str(tmp_path / "b")))
    with pytest.raises(CatalogError, match="does not match existing data path in the catalog") as refused:
        elsewhere.connect()
    assert f"{tmp_path}/a/" in refused.value.message
    assert str(refused.value.hint).startswith("set override_data_path = true in attach_options if you moved or copied")
    (tmp_path / "dev").write_text("")
    with pytest.raises(StorageError, match="is a file"):
        sqlite_store(tmp_path).connect()


def test_errors_repr_and_sql_contain_no_secret(tmp_path: Path) -> None:
    metadata = PostgresMetadata(host="127.0.0.1", port=9, database="d", user="u", password=Secret("hunter2"))
    store = Store("prod", metadata, LocalStorage(path=str(tmp_path)))
    with pytest.raises(LakeconfError) as raised:
        store.connect()
    assert "hunter2" not in f"{raised.value} {raised.value!r} {store!r} {store.statements!r}"
    storage = S3Storage(bucket="b", secret_parameters={"provider": "config", "extra_http_headers": {"a": "hunter2"}})
    store = Store("prod", SQLiteMetadata(uri=str(tmp_path / "c")), storage)
    assert "hunter2" not in f"{store!r} {store.preview_sql()} {store.statements!r}"
    assert [secret.reveal() for secret in store.secrets] == ["hunter2"]


def test_a_copy_of_a_store_keeps_its_other_attributes(tmp_path: Path) -> None:
    limits = {"deadline": "30m", "memory_limit": "4GB"}
    store = sqlite_store(tmp_path, committer="public", maintenance=limits)
    for copy in (for_reading(store), for_reading(store, read_only=False), store.replace(alias="other")):
        assert (copy.committer, copy.maintenance, copy.hidden) == ("public", limits, store.hidden)
        assert copy.alias in (store.alias, "other")
    with pytest.raises(AttributeError):
        store.alias = "other"  # type: ignore[misc]
    assert (store.alias, store.replace(alias="other").alias) == ("dev", "other")
