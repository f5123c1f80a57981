"""Transactions of a reader and their cursors, and properties that are computed once."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from catalog_lake import METADATA, Lake, duckdb_rows, lake, planned_rows

from lakeconf.catalog.data_file import load_name_mappings
from lakeconf.catalog.pruning import scan_plan
from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.catalog.reader import CatalogReader, Cursor, Cursors, cached, repeated
from lakeconf.catalog.snapshot import latest
from lakeconf.connection.connection import Connection, connect, load_extension
from lakeconf.errors import CatalogChangedError, CatalogError, LakeconfError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers import PostgresServer


@pytest.mark.parametrize(
    ("version", "advice"), [("0.3", "open a copy"), ("1.1-dev.1", "upgrade"), ("", "check that it is the catalog")]
)
def test_unsupported_catalog_version_is_rejected_with_a_hint(local: Lake, version: str, advice: str) -> None:
    local.run(f"UPDATE {METADATA}.ducklake_metadata SET value = '{version}' WHERE key = 'version'")
    with pytest.raises(CatalogError, match=rf"version {version}.*, but lakeconf supports 1\.0: {advice}"):
        latest(local.reader)


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


def statistics(source: Lake) -> list[tuple[Any, ...]]:
    with source.reader.transaction() as transaction:
        return transaction.rows(transaction.selected("ducklake_file_column_stats", STATISTICS, "table_id = 1"))


STATISTICS = {
    **dict.fromkeys(("data_file_id", "null_count"), "BIGINT"),
    **dict.fromkeys(("min_value", "contains_nan"), "VARCHAR"),
}


def test_selected_rows_are_those_of_the_table(source: Lake) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER, b VARCHAR)", "CREATE TABLE lake.u (a INTEGER)")
    source.run(
        "INSERT INTO lake.t SELECT i, 'ü ''\"' FROM range(20) r(i)", "INSERT INTO lake.u SELECT * FROM range(20)"
    )
    source.run("INSERT INTO lake.t SELECT NULL, NULL FROM range(20)")
    columns = ", ".join(STATISTICS)
    with source.reader.transaction() as transaction:
        expected = transaction.rows(f"SELECT {columns} FROM ducklake_file_column_stats WHERE table_id = 1")
    assert [row[:3] for row in statistics(source)] == [row[:3] for row in expected]
    assert len(expected) == 4


@pytest.mark.parametrize("read", [True, False], ids=["read_before", "not_read_before"])
def test_selected_rows_are_of_the_state_of_the_transaction(tmp_path: Path, *, read: bool) -> None:
    with lake("sqlite", tmp_path, options=WAL["sqlite"]) as source:
        source.run("CREATE TABLE lake.t AS SELECT i AS a FROM range(20) r(i)")
        before = statistics(source)
        with source.reader.transaction() as transaction:
            query = transaction.selected("ducklake_file_column_stats", STATISTICS, "table_id = 1")
            if read:
                transaction.rows(query)
            source.run("INSERT INTO lake.t SELECT * FROM range(20)")
            assert transaction.rows(query) == before
        assert len(statistics(source)) == 2


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[tuple[Lake, Lake]]:
    """A lake on SQLite that is attached read-only, and the same lake attached by a writer."""
    with lake("sqlite", tmp_path, options=WAL["sqlite"]) as writer:
        writer.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1), (2)")
        with lake("sqlite", tmp_path, options=", READ_ONLY") as reading:
            yield reading, writer


def test_read_only_reader_of_sqlite_reports_a_concurrent_commit(read_only: tuple[Lake, Lake]) -> None:
    """DuckDB cannot read one state of it."""
    reading, writer = read_only
    with (
        pytest.raises(CatalogChangedError, match="another process committed to 'lake' while it was read"),
        reading.reader.transaction(),
    ):
        writer.run("INSERT INTO lake.t VALUES (3)")


def test_selected_rows_of_a_read_only_catalog(read_only: tuple[Lake, Lake]) -> None:
    reading, writer = read_only
    writer.run("INSERT INTO lake.t SELECT * FROM range(20)")
    assert statistics(reading) == statistics(writer) != []


@pytest.mark.parametrize("in_between", ["CALL ducklake_flush_inlined_data('lake')", "INSERT INTO lake.t VALUES (3)"])
def test_plan_is_repeated_if_the_catalog_changed(
    read_only: tuple[Lake, Lake], in_between: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writer = read_only
    changes = [in_between]

    def load_mappings(*arguments: Any) -> Any:
        """Runs between the queries for data files and for inlined rows."""
        if changes:
            writer.run(changes.pop())
        return load_name_mappings(*arguments)

    monkeypatch.setattr(scan_plan, "load_name_mappings", load_mappings)
    plan = plan_scan(reading.reader, "t", 2)
    assert not changes
    assert planned_rows(reading, plan) == duckdb_rows(reading, plan)
    assert len(planned_rows(reading, plan)) == 2
    assert len(plan.files) == ("flush" in in_between)


def test_reads_of_a_catalog_that_always_changes_end_with_an_error() -> None:
    reads = []

    @repeated
    def read() -> None:
        reads.append(1)
        raise CatalogChangedError("always")

    with pytest.raises(CatalogChangedError):
        read()
    assert len(reads) > 1


def test_sqlite_looks_for_a_table_without_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the message of its error, DuckDB loads the tables of all databases."""

    def refuse(_: object, sql: str) -> None:
        raise AssertionError(sql)

    with lake("sqlite", tmp_path) as source, source.reader.transaction() as transaction, monkeypatch.context() as patch:
        patch.setattr(type(transaction.cursor), "execute", refuse)
        assert not transaction.has_table("ducklake_inlined_delete_1")


def test_uncommitted_changes_are_not_visible(local: Lake) -> None:
    local.run("CREATE TABLE lake.t (a INTEGER)", "BEGIN", "INSERT INTO lake.t VALUES (1)")
    assert plan_scan(local.reader, "t", 1).files == ()
    local.run("COMMIT")
    assert len(plan_scan(local.reader, "t", 2).files) == 1


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
