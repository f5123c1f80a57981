"""Remembered definitions are those that a reader finds that remembers nothing."""

from __future__ import annotations

import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from catalog_lake import METADATA, Lake, lake
from strength import mixed

import lakeconf
from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.tables import TableInfo, load_table
from lakeconf.connection.connection import SharedConnection
from lakeconf.errors import CatalogError, LakeconfError, SnapshotNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers import PostgresServer

# Otherwise a read transaction on SQLite blocks writers.
WAL = {"sqlite": ", META_JOURNAL_MODE 'WAL'"}
NAMES = ("t", "u", "main.t", "s.t")
STATEMENTS = (
    "CREATE TABLE lake.t (a INTEGER, b STRUCT(x INTEGER), c VARCHAR)",
    *("INSERT INTO lake.t VALUES (1, {x: 2}, 'c')", "INSERT INTO lake.t VALUES (2, {x: 3}, 'd')"),
    *("CREATE TABLE lake.u (a INTEGER)", "ALTER TABLE lake.t ALTER a TYPE BIGINT"),
    *("ALTER TABLE lake.t ADD COLUMN d INTEGER DEFAULT 5", "DELETE FROM lake.t WHERE a = 1"),
    *("ALTER TABLE lake.t RENAME d TO e", "ALTER TABLE lake.t RENAME e TO d", "ALTER TABLE lake.t DROP d"),
    *("ALTER TABLE lake.t ALTER c SET NOT NULL", "ALTER TABLE lake.t ALTER c DROP NOT NULL"),
    *("ALTER TABLE lake.t ADD COLUMN b.y INTEGER", "ALTER TABLE lake.t RENAME b.y TO z"),
    *("ALTER TABLE lake.t DROP COLUMN b.z", "ALTER TABLE lake.t SET PARTITIONED BY (a)"),
    *("ALTER TABLE lake.t SET PARTITIONED BY (c)", "ALTER TABLE lake.t RESET PARTITIONED BY"),
    *("ALTER TABLE lake.t RENAME TO v", "ALTER TABLE lake.u RENAME TO t", "DROP TABLE lake.t"),
    *("CREATE VIEW lake.t AS SELECT 1 AS a", "DROP VIEW lake.t", "CREATE SCHEMA lake.s"),
    *("CREATE TABLE lake.s.t (a INTEGER)", "BEGIN; DROP TABLE lake.s.t; CREATE TABLE lake.s.t (a INTEGER); COMMIT"),
    "UPDATE lake.v SET a = 7",
)


@pytest.fixture(params=["duckdb", "sqlite", "postgres"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    kind = request.param
    server: PostgresServer | None = request.getfixturevalue("postgres_server") if kind == "postgres" else None
    with lake(kind, tmp_path, server=server, options=WAL.get(kind, "")) as attached:
        yield attached


def found(reader: CatalogReader, name: str, version: int) -> TableInfo | str:
    try:
        return load_table(reader, name, version)
    except LakeconfError as error:
        return f"{type(error).__name__} {error}"


def check(source: Lake, versions: list[int]) -> None:
    fresh = CatalogReader(source.connection, "lake")
    for version in versions:
        for name in NAMES:
            vars(fresh).pop("definitions", None)
            assert found(source.reader, name, version) == found(fresh, name, version), (name, version)


def queries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries of metadata transactions from now on."""
    ran: list[str] = []
    rows = MetadataTransaction.rows

    def recorded(self: MetadataTransaction, sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
        ran.append(sql)
        return rows(self, sql, *arguments)

    monkeypatch.setattr(MetadataTransaction, "rows", recorded)
    return ran


def test_remembered_definitions_are_those_of_a_fresh_read_after_every_statement(source: Lake) -> None:
    for statement in STATEMENTS:
        source.run(statement)
        newest = source.newest
        # Newest first, and then again: earlier snapshots see later types, too.
        check(source, [newest, newest, max(newest - 1, 0), newest + 1])
    check(source, source.versions())
    check(source, source.versions()[::-1])


def test_definition_is_read_once_while_only_rows_change(source: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER)")
    load_table(source.reader, "t", source.newest)
    ran = queries(monkeypatch)
    for _ in range(3):
        source.run("INSERT INTO lake.t VALUES (1)")
        load_table(source.reader, "t", source.newest)
    assert len(ran) == 3
    source.run("ALTER TABLE lake.t ADD COLUMN b INTEGER")
    load_table(source.reader, "t", source.newest)
    assert len(ran) > 4


@pytest.mark.parametrize("known_by", ["look-up", "own commit"])
def test_definition_of_an_expired_snapshot_is_read_again(
    source: Lake, known_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot is neither found nor taken for one of another catalog."""
    source.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)")
    version = source.newest
    if known_by == "look-up":
        load_table(source.reader, "t", version)
    else:
        source.reader.definitions.committed(version, "mine")
    source.run("INSERT INTO lake.t VALUES (2)", f"CALL ducklake_expire_snapshots('lake', versions => [{version}])")
    ran = queries(monkeypatch)
    load_table(source.reader, "t", source.newest)
    assert len(ran) > 1
    with pytest.raises(SnapshotNotFoundError, match=f"version {version} has expired"):
        load_table(source.reader, "t", version)
    check(source, [source.newest])


RESTORED = (
    # What the lake did after the backup, and what the restored one did; both with the same ids and schema versions.
    ("ALTER TABLE lake.t ALTER a TYPE BIGINT", "ALTER TABLE lake.t ADD COLUMN b INTEGER"),
    ("ALTER TABLE lake.t RENAME TO u", "ALTER TABLE lake.t SET PARTITIONED BY (a)"),
    ("DROP TABLE lake.t", "INSERT INTO lake.t VALUES (1)"),
    ("INSERT INTO lake.t VALUES (1)", "ALTER TABLE lake.t ALTER a TYPE BIGINT"),
    ("INSERT INTO lake.t VALUES (1)", "INSERT INTO lake.t VALUES (2)"),
)


@pytest.mark.parametrize("reads_before", [True, False])
@pytest.mark.parametrize(("lost", "instead"), RESTORED)
def test_restored_catalog_is_noticed(lost: str, instead: str, tmp_path: Path, *, reads_before: bool) -> None:
    """A reader that stays open while a backup takes the place of the catalog."""
    with lake("duckdb", tmp_path) as before:
        before.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (0)")
    shutil.copy(tmp_path / "catalog.duckdb", tmp_path / "backup")
    with lake("duckdb", tmp_path) as source:
        remembered = source.reader.definitions
        versions = source.versions()
        for version in versions[1:] if reads_before else []:
            found(source.reader, "t", version)
        source.run(lost)
        for version in source.versions():
            found(source.reader, "t", version)
    shutil.copy(tmp_path / "backup", tmp_path / "catalog.duckdb")
    with lake("duckdb", tmp_path) as source:
        vars(source.reader)["definitions"] = remembered
        check(source, source.versions()[::-1])
        source.run(instead)
        vars(source.reader)["definitions"] = remembered
        for name in NAMES:
            for version in source.versions():
                with pytest.raises(CatalogError, match=f"replaced while the lake was open: snapshot {source.newest} "):
                    load_table(source.reader, name, version)


def other_snapshot(source: Lake) -> None:
    """Changes the newest snapshot as if another writer had committed it."""
    newest = source.newest
    for change in (
        "ducklake_snapshot SET snapshot_time = '2020-01-01 00:00:00+00'",
        "ducklake_snapshot_changes SET commit_extra_info = 'of another write'",
    ):
        source.run(f"UPDATE {METADATA}.{change} WHERE snapshot_id = {newest}")


@pytest.mark.parametrize("known_by", ["latest", "look-up", "own commit"])
def test_snapshot_of_another_catalog_is_noticed(source: Lake, known_by: str) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER)")
    source.run("BEGIN", "CALL lake.set_commit_message('me', 'text', extra_info => '{\"token\": \"mine\"}')")
    source.run("INSERT INTO lake.t VALUES (1)", "COMMIT")
    if known_by == "latest":
        assert latest(source.reader).snapshot_id == source.newest
    elif known_by == "look-up":
        load_table(source.reader, "t", source.newest)
    else:
        source.reader.definitions.committed(source.newest, "mine")
    for _ in range(2):
        load_table(source.reader, "t", source.newest)
        assert latest(source.reader).snapshot_id == source.newest
    other_snapshot(source)
    for look in (lambda: load_table(source.reader, "t", source.newest), lambda: latest(source.reader)):
        with pytest.raises(CatalogError, match=f"snapshot {source.newest} is another one now"):
            look()


def test_another_time_zone_of_the_connection_is_not_another_catalog(source: Lake) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER)")
    for zone in ("UTC", "Asia/Kolkata", "America/New_York", "UTC"):
        source.run(f"SET TimeZone = '{zone}'")
        check(source, [source.newest])
    source.run("INSERT INTO lake.t VALUES (1)")
    check(source, source.versions())


def copy_catalog(source: str | Path, target: str | Path) -> None:
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)


def test_lake_refuses_a_catalog_that_was_restored_and_took_another_way(project: Path) -> None:
    """DuckLake would still read and write the columns of the lost commits, so that files have the wrong types."""
    store = lakeconf.init().get_store()
    with store.open() as opened:
        opened.create_table("t", {"a": "BIGINT"})
    catalog = store.metadata_backend.file()
    assert catalog is not None
    copy_catalog(catalog, project / "backup")
    with store.open() as opened:
        opened.table("t").evolve(add={"z": "VARCHAR"})
        assert list(opened.table("t").schema) == ["a", "z"]
        copy_catalog(project / "backup", catalog)
        with pytest.raises(CatalogError, match=r"replaced while the lake was open: its newest snapshot is \d instead"):
            opened.refresh()
        with store.open() as other:
            other.table("t").evolve(add={"z": "BIGINT"})
        rows = opened.sql("SELECT 1::BIGINT AS a, 'text' AS z")
        table = opened.table("t")
        for call in (opened.refresh, lambda: table.schema, table.scan, lambda: table.append(rows)):
            with pytest.raises(CatalogError, match="replaced while the lake was open"):
                call()
    with store.open() as again:
        assert again.table("t").schema == {"a": "BIGINT", "z": "BIGINT"}


@pytest.mark.parametrize(
    ("has_same_id", "made_by", "write"),
    mixed([True, False], ["another", "this lake"], ["append", "overwrite", "execute", "merge", "delete", "evolve"]),
)
def test_lake_that_read_by_sql_only_writes_nothing_to_another_catalog(
    project: Path, engine: Any, write: str, made_by: str, *, has_same_id: bool
) -> None:
    """The restored catalog lacks the snapshot that the lake knows, or has another one with the same id."""
    store = lakeconf.init().get_store()
    with store.open() as opened:
        opened.create_table("t", {"a": "BIGINT"}).append([{"a": 1}])
    catalog, more = store.metadata_backend.file(), [{"a": 2}]
    assert catalog is not None
    copy_catalog(catalog, project / "backup")
    if made_by == "another":
        with store.open() as other:
            other.table("t").append(more)
    with store.open(engine) as opened:
        if made_by == "this lake":
            opened.table("t").append(more)
        assert len(opened.sql("FROM t").collect("pyarrow")) == 2
        copy_catalog(project / "backup", catalog)
        if has_same_id:
            with store.open() as other:
                other.table("t").append([{"a": 7}])
        table = opened.table("t")
        writes = {
            "append": lambda: table.append(more),
            "overwrite": lambda: table.overwrite(more),
            "execute": lambda: opened.execute("INSERT INTO t VALUES (5)"),
            "merge": lambda: table.merge(more, on="a"),
            "delete": lambda: table.delete("a = 1"),
            "evolve": lambda: table.evolve(add={"b": "BIGINT"}),
        }
        refusal = (CatalogError, "replaced while") if has_same_id else (SnapshotNotFoundError, "does not exist")
        with pytest.raises(refusal[0], match=refusal[1]):
            writes[write]()
    with store.open() as again:
        found = sorted(again.table("t").scan().collect("pyarrow")["a"].to_list())
        assert found == ([1, 7] if has_same_id else [1])


def test_threads_see_definitions_as_other_connections_change_them(tmp_path: Path) -> None:
    with lake("sqlite", tmp_path, options=WAL["sqlite"]) as source:
        source.run("CREATE TABLE lake.t (a0 INTEGER)")
        first, reader = source.newest, CatalogReader(SharedConnection(source.connection, "SELECT 1"), "lake")

        def read() -> None:
            for _ in range(20):
                version = latest(reader).snapshot_id
                names = [column.name for column in load_table(reader, "t", version).columns]
                assert names == [f"a{index}" for index in range(version - first + 1)]

        with ThreadPoolExecutor(3) as threads:
            waiting = [threads.submit(read) for _ in range(2)]
            for number in range(1, 8):
                source.run(f"ALTER TABLE lake.t ADD COLUMN a{number} INTEGER")
            for one in waiting:
                one.result(60)
