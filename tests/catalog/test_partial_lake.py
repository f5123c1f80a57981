"""DuckDB reads the files of a plan in a partial lake as in the lake itself."""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from catalog_lake import Lake, lake
from hypothesis import given
from random_lakes import LAKES, build, examples

from lakeconf.catalog.partial_lake import attach_partial_lake, name_in_lake, refuse_encrypted
from lakeconf.catalog.pruning.scan_plan import ScanPlan, plan_scan
from lakeconf.connection.connection import connect, load_extension
from lakeconf.errors import TableNotFoundError, UnsupportedError
from lakeconf.sql import identifier

if TYPE_CHECKING:
    from collections.abc import Iterable


def rows(plan: ScanPlan) -> Counter[tuple[object, ...]]:
    """The rows of a plan's files, with their ids, read in a partial lake."""
    with connect() as connection:
        load_extension(connection, "ducklake")
        source = attach_partial_lake(connection, "part", plan)
        return Counter(connection.rows(_query([name_in_lake(column) for column in plan.columns], source)))


def expected(source: Lake, plan: ScanPlan) -> Counter[tuple[object, ...]]:
    """The same rows, read in the lake."""
    table = f"lake.main.{identifier(plan.table.name)} AT (VERSION => {plan.snapshot_id})"
    with source.reader.lake_cursor() as cursor:
        names = [column.name for column in plan.columns]
        return Counter(cursor.rows(f"{_query(names, table)} WHERE filename LIKE '%/%'"))


def _query(names: Iterable[str], source: str) -> str:
    columns = ", ".join(f"CAST({identifier(name)} AS VARCHAR)" for name in names)
    return f"SELECT rowid, snapshot_id, filename, file_row_number, {columns} FROM {source}"


def assert_alike(source: Lake, versions: Iterable[int] | None = None) -> list[ScanPlan]:
    """Compares the table `t` at some snapshots, by default at all; returns the plans."""
    plans = []
    for version in source.versions() if versions is None else versions:
        with contextlib.suppress(TableNotFoundError):
            plans.append(plan_scan(source.reader, "t", version))
            assert rows(plans[-1]) == expected(source, plans[-1])
    return plans


def test_random_lakes_are_read_alike() -> None:
    seen = Counter[str]()
    _compare_random_lakes(seen)
    assert min(seen[kind] for kind in ("plain", "mapped", "delete files")) > 0, seen


@examples(12, prove=300)
@given(**LAKES)
def _compare_random_lakes(
    seen: Counter[str], columns: dict[str, str], operations: list[tuple[object, ...]], inline: bool
) -> None:
    options = "" if inline else ", DATA_INLINING_ROW_LIMIT 0"
    with tempfile.TemporaryDirectory() as name:
        with lake("duckdb", Path(name), options=options) as source:
            build(source, columns, operations)
        # Attach again: a DuckDB instance cannot be used after an internal error.
        with lake("duckdb", Path(name), options=options) as source:
            for plan in assert_alike(source):
                seen["plain"] += bool(plan.files) and not plan.name_mappings
                seen["mapped"] += bool(plan.name_mappings)
                seen["delete files"] += any(file.delete_file for file in plan.files)


def test_deletion_vectors_are_applied(vectors: Lake) -> None:
    vectors.run("CREATE TABLE lake.t AS SELECT range AS id FROM range(1000)", "DELETE FROM lake.t WHERE id % 3 = 0")
    (_, plan) = assert_alike(vectors)
    deletes = plan.files[0].delete_file
    assert deletes is not None
    assert deletes.format == "puffin"


def test_columns_that_look_like_virtual_ones_keep_their_values(usual: Lake) -> None:
    usual.run('CREATE TABLE lake.t AS SELECT 7 AS filename, 8 AS rowid, \'x\' AS "a""b", 9 AS rows FROM range(50)')
    plan = plan_scan(usual.reader, "t", usual.newest)
    with connect() as connection:
        load_extension(connection, "ducklake")
        found = connection.rows(f"FROM {attach_partial_lake(connection, 'part', plan)}")
    assert found == [(7, 8, "x", 9)] * 50


def test_many_files_need_several_statements(usual: Lake) -> None:
    usual.run("CALL lake.set_option('data_inlining_row_limit', 0)", "CREATE TABLE lake.t AS SELECT 1 AS id")
    plan = plan_scan(usual.reader, "t", usual.newest)
    (file,) = plan.files
    files = tuple(replace(file, data_file_id=number, row_id_start=number) for number in range(2001))
    assert sum(rows(replace(plan, files=files)).values()) == 2001


def test_encrypted_files_are_read_with_their_keys(tmp_path: Path) -> None:
    with lake("duckdb", tmp_path, options=", ENCRYPTED, DATA_INLINING_ROW_LIMIT 0") as source:
        load_extension(source.connection, "httpfs")
        source.run("CREATE TABLE lake.t AS SELECT range AS id FROM range(50)", "DELETE FROM lake.t WHERE id = 7")
        (_, plan) = assert_alike(source)
        with pytest.raises(UnsupportedError, match=r"files of main\.t are encrypted"):
            refuse_encrypted(plan)
