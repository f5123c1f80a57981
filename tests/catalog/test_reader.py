"""Transactions of a reader and their cursors; what it remembers is what a reader finds that remembers nothing."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from catalog_lake import METADATA, AttachedLake, duckdb_rows, lake, planned_rows

import lakeconf
from lakeconf.catalog.data_file import load_name_mappings
from lakeconf.catalog.pruning import scan_plan
from lakeconf.catalog.pruning.scan_plan import ScanPlan, plan_scan, plan_with_inlined_rows
from lakeconf.catalog.reader import CatalogReader, Cursor, Cursors, MetadataTransaction, cached
from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.tables import TableInfo, load_table
from lakeconf.connection.connection import Connection, SharedConnection, connect, load_extension
from lakeconf.errors import CatalogChangedError, CatalogError, LakeconfError, SnapshotNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers import PostgresServer


@pytest.mark.parametrize(
    ("version", "advice"), [("0.3", "open a copy"), ("1.1-dev.1", "upgrade"), ("", "check that it is the catalog")]
)
def test_unsupported_catalog_version_is_rejected_with_a_hint(
    file_lake: AttachedLake, version: str, advice: str
) -> None:
    file_lake.run(f"UPDATE {METADATA}.ducklake_metadata SET value = '{version}' WHERE key = 'version'")
    with pytest.raises(CatalogError, match=rf"version {version}.*, but lakeconf supports 1\.0: {advice}"):
        latest(file_lake.reader)


# Otherwise a read transaction on SQLite blocks writers.
WAL = {"sqlite": ", META_JOURNAL_MODE 'WAL'"}
COUNTS = [
    f"SELECT count(*) FROM ducklake_{table}"
    for table in ("snapshot", "snapshot_changes", "table", "data_file", "table_stats", "inlined_data_tables")
]


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
@pytest.mark.parametrize("read", [COUNTS, COUNTS[:1]], ids=["tables_read_before", "tables_not_read_before"])
def test_reader_transaction_sees_one_state_during_concurrent_writes(
    kind: str, read: list[str], tmp_path: Path, postgres_server: PostgresServer
) -> None:
    with lake(kind, tmp_path, server=postgres_server, options=WAL.get(kind, "")) as source:
        source.run("CREATE TABLE lake.t (a INTEGER)")
        with source.reader.transaction() as transaction:
            before = [transaction.rows(count) for count in COUNTS]
        with source.reader.transaction() as transaction:
            for count in read:
                transaction.rows(count)
            source.run("INSERT INTO lake.t SELECT * FROM range(100)", "INSERT INTO lake.t VALUES (1)")
            source.run("CREATE TABLE lake.u (a INTEGER)", "CALL ducklake_flush_inlined_data('lake')")
            assert [transaction.rows(count) for count in COUNTS] == before
        with source.reader.transaction() as transaction:
            assert all(now > then for now, then in zip(map(transaction.rows, COUNTS), before, strict=True))


def statistics(source: AttachedLake) -> list[tuple[Any, ...]]:
    with source.reader.transaction() as transaction:
        return transaction.rows(transaction.own_sql(STATISTICS, TYPES))


STATISTICS = (
    "SELECT data_file_id, null_count, min_value, contains_nan FROM ducklake_file_column_stats WHERE table_id = 1"
)
TYPES = "data_file_id BIGINT, null_count BIGINT, min_value VARCHAR, contains_nan VARCHAR"


def test_selected_rows_are_those_of_the_table(source: AttachedLake) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER, b VARCHAR)", "CREATE TABLE lake.u (a INTEGER)")
    source.run(
        "INSERT INTO lake.t SELECT i, 'ü ''\"' FROM range(20) r(i)", "INSERT INTO lake.u SELECT * FROM range(20)"
    )
    source.run("INSERT INTO lake.t SELECT NULL, NULL FROM range(20)")
    with source.reader.transaction() as transaction:
        expected = transaction.rows(STATISTICS)
    assert [row[:3] for row in statistics(source)] == [row[:3] for row in expected]
    assert len(expected) == 4


@pytest.mark.parametrize("read", [True, False], ids=["read_before", "not_read_before"])
def test_selected_rows_are_of_the_state_of_the_transaction(tmp_path: Path, *, read: bool) -> None:
    with lake("sqlite", tmp_path, options=WAL["sqlite"]) as source:
        source.run("CREATE TABLE lake.t AS SELECT i AS a FROM range(20) r(i)")
        before = statistics(source)
        with source.reader.transaction() as transaction:
            query = transaction.own_sql(STATISTICS, TYPES)
            if read:
                transaction.rows(query)
            source.run("INSERT INTO lake.t SELECT * FROM range(20)")
            assert transaction.rows(query) == before
        assert len(statistics(source)) == 2


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[tuple[AttachedLake, AttachedLake]]:
    """A lake on SQLite that is attached read-only, and the same lake attached by a writer."""
    with lake("sqlite", tmp_path, options=WAL["sqlite"]) as writer:
        writer.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1), (2)")
        with lake("sqlite", tmp_path, options=", READ_ONLY") as reading:
            yield reading, writer


@pytest.mark.parametrize("read", [COUNTS, COUNTS[:1]], ids=["tables_read_before", "tables_not_read_before"])
def test_read_only_reader_of_sqlite_sees_one_state(
    read: list[str], read_only: tuple[AttachedLake, AttachedLake]
) -> None:
    reading, writer = read_only
    reading.run("SET threads = 4")
    with reading.reader.transaction() as transaction:
        before = [transaction.rows(count) for count in COUNTS]
    with reading.reader.transaction() as transaction:
        for count in read:
            transaction.rows(count)
        writer.run("INSERT INTO lake.t SELECT * FROM range(100)", "CREATE TABLE lake.u (a INTEGER)")
        assert [transaction.rows(count) for count in COUNTS] == before


def test_selected_rows_of_a_read_only_catalog(read_only: tuple[AttachedLake, AttachedLake]) -> None:
    reading, writer = read_only
    writer.run("INSERT INTO lake.t SELECT * FROM range(20)")
    assert statistics(reading) == statistics(writer) != []


@pytest.mark.parametrize("in_between", ["CALL ducklake_flush_inlined_data('lake')", "INSERT INTO lake.t VALUES (3)"])
def test_plan_is_repeated_if_the_catalog_changed(
    read_only: tuple[AttachedLake, AttachedLake], in_between: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writer = read_only
    changes = [in_between]

    def load_mappings(*arguments: Any) -> Any:
        """Runs between the queries for data files and for inlined rows."""
        if changes:
            writer.run(changes.pop())
        return load_name_mappings(*arguments)

    monkeypatch.setattr(scan_plan, "load_name_mappings", load_mappings)
    plan, _ = plan_with_inlined_rows(reading.reader, "t", 2)
    assert not changes
    assert planned_rows(reading, plan) == duckdb_rows(reading, plan)
    assert len(planned_rows(reading, plan)) == 2
    assert len(plan.files) == ("flush" in in_between)


def test_reads_of_a_catalog_that_always_changes_end_with_an_error(file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (a INTEGER)")
    plans = []

    def moved(plan: ScanPlan) -> Any:
        plans.append(plan)
        raise CatalogChangedError("always")

    with pytest.raises(CatalogChangedError):
        scan_plan.until_stable(lambda: plan_scan(file_lake.reader, "t", 1), moved)
    assert len(plans) > 1


def test_sqlite_looks_for_a_table_without_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the message of its error, DuckDB loads the tables of all databases."""

    def refuse(_: object, sql: str) -> None:
        raise AssertionError(sql)

    with lake("sqlite", tmp_path) as source, source.reader.transaction() as transaction, monkeypatch.context() as patch:
        patch.setattr(type(transaction.cursor), "execute", refuse)
        assert not transaction.has_table("ducklake_inlined_delete_1")


def test_uncommitted_changes_are_not_visible(file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (a INTEGER)", "BEGIN", "INSERT INTO lake.t VALUES (1)")
    assert plan_scan(file_lake.reader, "t", 1).files == ()
    file_lake.run("COMMIT")
    assert len(plan_scan(file_lake.reader, "t", 2).files) == 1


@pytest.mark.parametrize("given", ["in ATTACH", "to the reader"])
def test_metadata_in_a_custom_schema(tmp_path: Path, given: str) -> None:
    with lake("duckdb", tmp_path, options=", METADATA_SCHEMA 'my \"schema'") as attached:
        attached.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)")
        schema = None if given == "in ATTACH" else 'my "schema'
        reader = CatalogReader(attached.connection, "lake", schema)
        assert plan_scan(reader, "t", 2).inlined_row_count == 1


def test_metadata_schema_from_a_secret_must_be_passed_explicitly(tmp_path: Path) -> None:
    with connect() as connection:
        load_extension(connection, "ducklake")
        options = f"METADATA_PATH '{tmp_path}/c.duckdb', DATA_PATH '{tmp_path}/data', METADATA_SCHEMA 'lk'"
        connection.execute(f"CREATE SECRET s (TYPE ducklake, {options}); ATTACH 'ducklake:s' AS lake")
        with pytest.raises(CatalogError, match="pass metadata_schema"):
            latest(CatalogReader(connection, "lake"))
        assert latest(CatalogReader(connection, "lake", "lk")).snapshot_id == 0
        with pytest.raises(CatalogError, match="does not contain the metadata"):
            latest(CatalogReader(connection, "lake", "elsewhere"))


def test_metadata_catalog_has_any_name_but_is_one_of_a_lake(tmp_path: Path) -> None:
    with lake("duckdb", tmp_path, options=", METADATA_CATALOG 'my meta'") as attached:
        assert latest(attached.reader).snapshot_id == 0
    with connect() as connection:
        connection.execute("ATTACH ':memory:' AS lake")
        with pytest.raises(CatalogError, match="no DuckLake is attached as 'lake'"):
            latest(CatalogReader(connection, "lake"))


def test_file_paths_are_absolute_and_use_an_overridden_data_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with lake("duckdb", tmp_path, options=", DATA_INLINING_ROW_LIMIT 0") as attached:
        attached.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)")
    os.rename(tmp_path / "data", tmp_path / "moved")
    with connect() as connection:
        load_extension(connection, "ducklake")
        options = "DATA_PATH 'moved', OVERRIDE_DATA_PATH true"
        connection.execute(f"ATTACH 'ducklake:{tmp_path}/catalog.duckdb' AS lake ({options})")
        (file,) = plan_scan(CatalogReader(connection, "lake"), "t", 2).files
        assert file.path.startswith(f"{tmp_path}/moved/main/t/")
        assert connection.rows(f"SELECT * FROM read_parquet('{file.path}')") == [(1,)]


SECONDS = 20


@dataclass(frozen=True)
class Meeting:
    """An object whose property waits until the property of another object is computed as well."""

    barrier: threading.Barrier

    @cached
    def place(self) -> object:
        """Where they meet."""
        self.barrier.wait(SECONDS)
        return object()


def test_object_that_waits_does_not_block_other_objects() -> None:
    """`functools.cached_property` of Python 3.11 fails this test."""
    barrier = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        places = list(pool.map(lambda meeting: meeting.place, (Meeting(barrier), Meeting(barrier))))
    assert places[0] is not places[1]


@pytest.fixture
def connection() -> Iterator[Connection]:
    with connect() as made:
        yield made


def use(cursors: Cursors, *, is_clean: bool = True) -> Cursor:
    with cursors.taken() as cursor:
        cursor.connection.execute("SELECT 1")
        cursor.is_clean = is_clean
    return cursor


def is_closed(cursor: Cursor) -> bool:
    try:
        cursor.connection.execute("SELECT 1")
    except LakeconfError:
        return True
    return False


def test_cursor_of_an_open_or_failed_transaction_is_closed(connection: Connection) -> None:
    cursors = Cursors(connection)
    ended = [use(cursors, is_clean=False)]
    for error in (LakeconfError, KeyboardInterrupt):
        with pytest.raises(error), cursors.taken() as failed:  # noqa: PT012
            ended.append(failed)
            failed.is_clean = True
            raise error("it failed")
    assert all(map(is_closed, ended))
    assert use(cursors) not in ended
    with cursors.taken() as one, cursors.taken() as other:
        one.connection.execute("BEGIN")
        other.connection.execute("BEGIN")  # it would fail on the same cursor


def test_closing_the_connection_closes_the_cursors() -> None:
    """An idle cursor would keep the catalog's file open."""
    with connect() as made:
        cursor = use(Cursors(made))
    assert is_closed(cursor)


def test_statement_that_failed_runs_again(connection: Connection) -> None:
    with Cursors(connection).taken() as cursor:
        cursor.set_up("database", "USE memory")
        with pytest.raises(LakeconfError):
            cursor.set_up("database", "USE missing")
        connection.execute("ATTACH ':memory:' AS missing")
        cursor.set_up("database", "USE missing")
        assert cursor.connection.database == "missing"


# Otherwise a read transaction on SQLite blocks writers.
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
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AttachedLake]:
    kind = request.param
    server: PostgresServer | None = request.getfixturevalue("postgres_server") if kind == "postgres" else None
    with lake(kind, tmp_path, server=server, options=WAL.get(kind, "")) as attached:
        yield attached


def found(reader: CatalogReader, name: str, version: int) -> TableInfo | str:
    try:
        return load_table(reader, name, version)
    except LakeconfError as error:
        return f"{type(error).__name__} {error}"


def check(shared: AttachedLake, versions: list[int]) -> None:
    fresh = CatalogReader(shared.connection, "lake")
    for version in versions:
        for name in NAMES:
            vars(fresh).pop("definitions", None)
            assert found(shared.reader, name, version) == found(fresh, name, version), (name, version)


def queries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries of metadata transactions from now on."""
    ran: list[str] = []
    rows = MetadataTransaction.rows

    def recorded(self: MetadataTransaction, sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
        ran.append(sql)
        return rows(self, sql, *arguments)

    monkeypatch.setattr(MetadataTransaction, "rows", recorded)
    return ran


@pytest.mark.slow
@pytest.mark.prove("sqlite", "duckdb")
def test_remembered_definitions_are_those_of_a_fresh_read_after_every_statement(shared: AttachedLake) -> None:
    for statement in STATEMENTS:
        shared.run(statement)
        newest = shared.newest
        # Newest first, and then again: earlier snapshots see later types, too.
        check(shared, [newest, newest, max(newest - 1, 0), newest + 1])
    check(shared, shared.versions())
    check(shared, shared.versions()[::-1])


def test_definition_is_read_once_while_only_rows_change(shared: AttachedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    shared.run("CREATE TABLE lake.t (a INTEGER)")
    load_table(shared.reader, "t", shared.newest)
    ran = queries(monkeypatch)
    for _ in range(3):
        shared.run("INSERT INTO lake.t VALUES (1)")
        load_table(shared.reader, "t", shared.newest)
    assert len(ran) == 3
    shared.run("ALTER TABLE lake.t ADD COLUMN b INTEGER")
    load_table(shared.reader, "t", shared.newest)
    assert len(ran) > 4


@pytest.mark.parametrize("known_by", ["look-up", "own commit"])
def test_definition_of_an_expired_snapshot_is_read_again(
    shared: AttachedLake, known_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot is neither found nor taken for one of another catalog."""
    shared.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)")
    version = shared.newest
    if known_by == "look-up":
        load_table(shared.reader, "t", version)
    else:
        shared.reader.definitions.committed(version, "mine")
    shared.run("INSERT INTO lake.t VALUES (2)", f"CALL ducklake_expire_snapshots('lake', versions => [{version}])")
    ran = queries(monkeypatch)
    load_table(shared.reader, "t", shared.newest)
    assert len(ran) > 1
    with pytest.raises(SnapshotNotFoundError, match=f"version {version} has expired"):
        load_table(shared.reader, "t", version)
    check(shared, [shared.newest])


RESTORED = (
    # What the lake did after the backup, and what the restored one did; both with the same ids and schema versions.
    ("ALTER TABLE lake.t ALTER a TYPE BIGINT", "ALTER TABLE lake.t ADD COLUMN b INTEGER"),
    ("ALTER TABLE lake.t RENAME TO u", "ALTER TABLE lake.t SET PARTITIONED BY (a)"),
    ("DROP TABLE lake.t", "INSERT INTO lake.t VALUES (1)"),
    ("INSERT INTO lake.t VALUES (1)", "ALTER TABLE lake.t ALTER a TYPE BIGINT"),
    ("INSERT INTO lake.t VALUES (1)", "INSERT INTO lake.t VALUES (2)"),
)


@pytest.mark.slow
@pytest.mark.parametrize("reads_before", [True, False])
@pytest.mark.parametrize(("lost", "instead"), RESTORED)
def test_restored_catalog_is_noticed(lost: str, instead: str, tmp_path: Path, *, reads_before: bool) -> None:
    """A reader that stays open while a backup takes the place of the catalog."""
    with lake("duckdb", tmp_path) as before:
        before.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (0)")
    shutil.copy(tmp_path / "catalog.duckdb", tmp_path / "backup")
    with lake("duckdb", tmp_path) as shared:
        remembered = shared.reader.definitions
        versions = shared.versions()
        for version in versions[1:] if reads_before else []:
            found(shared.reader, "t", version)
        shared.run(lost)
        for version in shared.versions():
            found(shared.reader, "t", version)
    shutil.copy(tmp_path / "backup", tmp_path / "catalog.duckdb")
    with lake("duckdb", tmp_path) as shared:
        vars(shared.reader)["definitions"] = remembered
        check(shared, shared.versions()[::-1])
        shared.run(instead)
        vars(shared.reader)["definitions"] = remembered
        for name in NAMES:
            for version in shared.versions():
                with pytest.raises(CatalogError, match=f"replaced while the lake was open: snapshot {shared.newest} "):
                    load_table(shared.reader, name, version)


def other_snapshot(shared: AttachedLake) -> None:
    """Changes the newest snapshot as if another writer had committed it."""
    newest = shared.newest
    for change in (
        "ducklake_snapshot SET snapshot_time = '2020-01-01 00:00:00+00'",
        "ducklake_snapshot_changes SET commit_extra_info = 'of another write'",
    ):
        shared.run(f"UPDATE {METADATA}.{change} WHERE snapshot_id = {newest}")


@pytest.mark.parametrize("known_by", ["latest", "look-up", "own commit"])
def test_snapshot_of_another_catalog_is_noticed(shared: AttachedLake, known_by: str) -> None:
    shared.run("CREATE TABLE lake.t (a INTEGER)")
    shared.run("BEGIN", "CALL lake.set_commit_message('me', 'text', extra_info => '{\"token\": \"mine\"}')")
    shared.run("INSERT INTO lake.t VALUES (1)", "COMMIT")
    if known_by == "latest":
        assert latest(shared.reader).snapshot_id == shared.newest
    elif known_by == "look-up":
        load_table(shared.reader, "t", shared.newest)
    else:
        shared.reader.definitions.committed(shared.newest, "mine")
    for _ in range(2):
        load_table(shared.reader, "t", shared.newest)
        assert latest(shared.reader).snapshot_id == shared.newest
    other_snapshot(shared)
    for look in (lambda: load_table(shared.reader, "t", shared.newest), lambda: latest(shared.reader)):
        with pytest.raises(CatalogError, match=f"snapshot {shared.newest} is another one now"):
            look()


def test_another_time_zone_of_the_connection_is_not_another_catalog(shared: AttachedLake) -> None:
    shared.run("CREATE TABLE lake.t (a INTEGER)")
    for zone in ("UTC", "Asia/Kolkata", "America/New_York", "UTC"):
        shared.run(f"SET TimeZone = '{zone}'")
        check(shared, [shared.newest])
    shared.run("INSERT INTO lake.t VALUES (1)")
    check(shared, shared.versions())


def copy_catalog(shared: str | Path, target: str | Path) -> None:
    with closing(sqlite3.connect(shared)) as one, closing(sqlite3.connect(target)) as other:
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


@pytest.mark.slow
@pytest.mark.prove("False", "this lake")
@pytest.mark.parametrize(
    ("has_same_id", "made_by", "write"),
    list(
        product(
            [True, False], ["another", "this lake"], ["append", "overwrite", "execute", "merge", "delete", "evolve"]
        )
    ),
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


@pytest.mark.slow
def test_threads_see_definitions_as_other_connections_change_them(tmp_path: Path) -> None:
    with lake("sqlite", tmp_path, options=WAL["sqlite"]) as shared:
        shared.run("CREATE TABLE lake.t (a0 INTEGER)")
        first, reader = shared.newest, CatalogReader(SharedConnection(shared.connection, "SELECT 1"), "lake")

        def read() -> None:
            for _ in range(20):
                version = latest(reader).snapshot_id
                names = [column.name for column in load_table(reader, "t", version).columns]
                assert names == [f"a{index}" for index in range(version - first + 1)]

        with ThreadPoolExecutor(3) as threads:
            waiting = [threads.submit(read) for _ in range(2)]
            for number in range(1, 8):
                shared.run(f"ALTER TABLE lake.t ADD COLUMN a{number} INTEGER")
            for one in waiting:
                one.result(60)
