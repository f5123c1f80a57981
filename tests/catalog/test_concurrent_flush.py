"""A flush between a scan plan and the read of its inlined rows neither loses nor duplicates rows."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import pytest
from catalog_lake import Lake, duckdb_rows, lake, planned_rows

from lakeconf.catalog.pruning.scan_plan import inlined_rows, plan_scan, plan_with_inlined_rows
from lakeconf.errors import CatalogError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers import PostgresServer


@pytest.fixture(params=["duckdb", "sqlite", "postgres"])
def two(request: pytest.FixtureRequest, tmp_path: Path, postgres_server: PostgresServer) -> Iterator[tuple[Lake, Lake]]:
    """One lake in two DuckDB instances; a DuckDB catalog allows only one, so it uses two connections instead."""
    kind = request.param
    database = postgres_server.create_database() if kind == "postgres" else None
    with lake(kind, tmp_path, server=postgres_server, database=database) as one, contextlib.ExitStack() as stack:
        if kind == "duckdb":
            other = Lake(kind, stack.enter_context(one.connection.cursor()), tmp_path)
        else:
            other = stack.enter_context(lake(kind, tmp_path, server=postgres_server, database=database))
        yield one, other


def test_flush_after_the_plan_is_detected_and_planned_again(two: tuple[Lake, Lake]) -> None:
    reader, writer = two
    writer.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1), (2)", "INSERT INTO lake.t VALUES (3)")
    plan = plan_scan(reader.reader, "t", 2)
    writer.run("CALL ducklake_flush_inlined_data('lake')")
    with pytest.raises(
        CatalogError, match=r"inlined rows of main\.t were moved.*has 2 inlined rows, but the catalog has 0"
    ) as raised:
        inlined_rows(reader.reader, plan)
    assert raised.value.retryable
    plan, rows = plan_with_inlined_rows(reader.reader, "t", 2)
    assert (rows.num_rows, len(plan.files)) == (0, 1)
    assert planned_rows(reader, plan) == duckdb_rows(reader, plan)


def test_inserts_and_deletes_after_the_plan_are_ignored(two: tuple[Lake, Lake]) -> None:
    reader, writer = two
    writer.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1), (2)")
    plan = plan_scan(reader.reader, "t", 2)
    writer.run("INSERT INTO lake.t VALUES (3)", "DELETE FROM lake.t WHERE a = 1", "ALTER TABLE lake.t RENAME a TO b")
    assert inlined_rows(reader.reader, plan)["a"].to_pylist() == [1, 2]


def test_flush_is_detected_if_a_column_is_named_filename(two: tuple[Lake, Lake]) -> None:
    reader, writer = two
    writer.run("CREATE TABLE lake.t (filename INTEGER)", "INSERT INTO lake.t VALUES (1), (2)")
    plan = plan_scan(reader.reader, "t", 2)
    writer.run("CALL ducklake_flush_inlined_data('lake')")
    with pytest.raises(CatalogError, match="has 2 inlined rows, but the catalog has 0"):
        inlined_rows(reader.reader, plan)


@pytest.mark.parametrize("two", ["duckdb", "postgres"], indirect=True)  # SQLite writers block each other for too long
def test_reads_during_concurrent_writes_and_flushes_return_pinned_rows(two: tuple[Lake, Lake]) -> None:
    reader, writer = two
    writer.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (0)")
    finished = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            for number in range(1, 40):
                writer.run(f"INSERT INTO lake.t VALUES ({number})")
                if number % 4 == 0:
                    writer.run("CALL ducklake_flush_inlined_data('lake')")
        except BaseException as error:  # noqa: BLE001 - asserted in the main thread
            failures.append(error)
        finally:
            finished.set()

    thread = threading.Thread(target=write)
    thread.start()
    reads = 0
    while not finished.is_set():
        version = reader.newest
        plan, rows = plan_with_inlined_rows(reader.reader, "t", version)
        in_files = [file for file in plan.files if file.snapshot_filter is None]
        if len(in_files) == len(plan.files):  # without snapshot filters, the row counts in the plan are exact
            assert sum(file.record_count for file in plan.files) + rows.num_rows == version - 1 - flushes(
                reader, version
            )
            reads += 1
    thread.join()
    assert failures == []
    assert reads > 0


def flushes(source: Lake, version: int) -> int:
    """The number of flushes up to this snapshot; they insert no rows."""
    counted = source.metadata(
        f"SELECT count(*) FROM ducklake_snapshot_changes WHERE snapshot_id <= {version} AND changes_made LIKE '%flush%'"
    )
    return int(counted[0][0])
