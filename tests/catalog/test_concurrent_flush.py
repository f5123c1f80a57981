"""A flush between the plan and the reading of its inlined rows must neither lose nor double a row."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import pytest
from catalog_lake import Lake, duckdb_rows, lake, planned_rows

from lakeconf.catalog.scan import inlined_rows, plan_scan, plan_with_inlined_rows
from lakeconf.errors import CatalogError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers import PostgresServer


@pytest.fixture(params=["duckdb", "sqlite", "postgres"])
def two(request: pytest.FixtureRequest, tmp_path: Path, postgres_server: PostgresServer) -> Iterator[tuple[Lake, Lake]]:
    """One lake, attached to two instances of DuckDB; a DuckDB catalog allows one, so there it is two connections."""
    kind = request.param
    database = postgres_server.create_database() if kind == "postgres" else None
    with lake(kind, tmp_path, server=postgres_server, database=database) as one, contextlib.ExitStack() as stack:
        if kind == "duckdb":
            other = Lake(kind, stack.enter_context(one.connection.cursor()), tmp_path)
        else:
            other = stack.enter_context(lake(kind, tmp_path, server=postgres_server, database=database))
        yield one, other


def test_rows_that_were_flushed_since_the_plan_are_noticed_and_planned_again(two: tuple[Lake, Lake]) -> None:
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


def test_rows_that_were_inserted_or_deleted_since_the_plan_do_not_matter(two: tuple[Lake, Lake]) -> None:
    reader, writer = two
    writer.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1), (2)")
    plan = plan_scan(reader.reader, "t", 2)
    writer.run("INSERT INTO lake.t VALUES (3)", "DELETE FROM lake.t WHERE a = 1", "ALTER TABLE lake.t RENAME a TO b")
    assert inlined_rows(reader.reader, plan)["a"].to_pylist() == [1, 2]


def test_a_column_that_hides_filename_does_not_hide_the_flush(two: tuple[Lake, Lake]) -> None:
    reader, writer = two
    writer.run("CREATE TABLE lake.t (filename INTEGER)", "INSERT INTO lake.t VALUES (1), (2)")
    plan = plan_scan(reader.reader, "t", 2)
    writer.run("CALL ducklake_flush_inlined_data('lake')")
    with pytest.raises(CatalogError, match="has 2 inlined rows, but the catalog has 0"):
        inlined_rows(reader.reader, plan)


@pytest.mark.parametrize("two", ["duckdb", "postgres"], indirect=True)  # writers of SQLite wait for each other too long
def test_reading_while_another_writes_and_flushes_gives_the_pinned_rows_each_time(two: tuple[Lake, Lake]) -> None:
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
        except BaseException as error:  # noqa: BLE001 - shown by the main thread
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
        if len(in_files) == len(plan.files):  # without a filter within a file, counting needs no reading
            assert sum(file.record_count for file in plan.files) + rows.num_rows == version - 1 - flushes(
                reader, version
            )
            reads += 1
    thread.join()
    assert failures == []
    assert reads > 0


def flushes(source: Lake, version: int) -> int:
    """How many snapshots up to this one inserted nothing."""
    counted = source.metadata(
        f"SELECT count(*) FROM ducklake_snapshot_changes WHERE snapshot_id <= {version} AND changes_made LIKE '%flush%'"
    )
    return int(counted[0][0])
