"""Executors return DuckDB's rows, with the types of Spark."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from catalog_lake import Lake, lake
from hypothesis import given
from local_stores import store_of
from random_lakes import LAKES, build, examples

from lakeconf.catalog.pruning.scan_plan import plan_with_inlined_rows
from lakeconf.catalog.pruning.where import parse
from lakeconf.datasource.planning import parts_of
from lakeconf.engines.spark.read.parts import read_part
from lakeconf.engines.spark.spark_types import exact_cast, spark_schema
from lakeconf.engines.spark.versions import arrow_schema
from lakeconf.errors import LakeconfError, QueryError, StorageError, TableNotFoundError, UnsupportedError
from lakeconf.sql import identifier
from lakeconf.store import Access

if TYPE_CHECKING:
    from lakeconf.catalog.pruning.scan_plan import ScanPlan


def rows(source: Lake, version: int, columns: list[str] | None = None, where: str | None = None) -> pa.Table:
    """The rows of `t` as executors return them to Spark."""
    plan, inlined = plan_with_inlined_rows(source.reader, "t", version, columns)
    if where is not None:
        plan = replace(plan, predicate=parse(where, plan.table.columns))
    schema = arrow_schema(spark_schema(plan.columns))
    access = Access.of(store_of(source.folder))
    parts = parts_of(access, plan, inlined, plan.columns)
    return pa.Table.from_batches([batch for part in parts for batch in read_part(part, schema)], schema)


def as_text(source: Lake, plan: ScanPlan, sql: str, *, cast: bool) -> Counter[tuple[object, ...]]:
    """Rows as text."""
    values = [exact_cast(identifier(c.name), c) if cast else identifier(c.name) for c in plan.columns]
    with source.reader.lake_cursor() as cursor:
        if not cast:
            cursor.register("returned", rows(source, plan.snapshot_id))
        return Counter(cursor.rows(f"SELECT {', '.join(f'CAST({value} AS VARCHAR)' for value in values)} FROM {sql}"))


def test_random_lakes_are_read_like_duckdb() -> None:
    seen = Counter[str]()
    _compare_random_lakes(seen)
    assert seen["compared"] > 10, seen
    assert seen["refused"] < seen["compared"], seen


@examples(8, prove=300)
@given(**LAKES)
def _compare_random_lakes(
    seen: Counter[str], columns: dict[str, str], operations: list[tuple[object, ...]], inline: bool
) -> None:
    options = "" if inline else ", DATA_INLINING_ROW_LIMIT 0"
    with tempfile.TemporaryDirectory() as name:
        with lake("duckdb", Path(name), options=options) as source:
            script = build(source, columns, operations)
        # Attach again: a DuckDB instance cannot be used after an internal error.
        with lake("duckdb", Path(name), options=options) as source:
            for version in source.versions():
                try:
                    plan, _ = plan_with_inlined_rows(source.reader, "t", version)
                    returned = as_text(source, plan, "returned", cast=False)
                except TableNotFoundError:
                    continue
                except UnsupportedError:
                    seen["refused"] += 1
                    continue
                read = as_text(source, plan, f"lake.t AT (VERSION => {version})", cast=True)
                assert returned == read, f"version {version} of\n" + ";\n".join(script)
                seen["compared"] += 1


def test_a_condition_selects_rows_in_files_and_in_the_catalog(usual: Lake) -> None:
    usual.run("CREATE TABLE lake.t AS SELECT range AS id, 'x' AS kind FROM range(50)")
    usual.run("INSERT INTO lake.t VALUES (100, 'y'), (101, NULL)")
    assert rows(usual, usual.newest, where="id >= 49").to_pylist() == [
        {"id": 49, "kind": "x"},
        {"id": 100, "kind": "y"},
        {"id": 101, "kind": None},
    ]


def test_a_truncated_or_missing_file_is_an_error(usual: Lake) -> None:
    usual.run("CREATE TABLE lake.t AS SELECT range AS id FROM range(50)")
    (path,) = (usual.folder / "data").rglob("*.parquet")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(LakeconfError):
        rows(usual, usual.newest)
    path.unlink()
    with pytest.raises(StorageError):
        rows(usual, usual.newest)


def test_rows_are_returned_while_duckdb_computes_the_next_ones(usual: Lake) -> None:
    bad = "CASE WHEN range = 299999 THEN TIMESTAMP_NS '2026-01-01 00:00:00.000000001' END"
    usual.run(f"CREATE TABLE lake.t AS SELECT range AS id, {bad} AS at FROM range(300000)")
    plan, inlined = plan_with_inlined_rows(usual.reader, "t", usual.newest)
    (part,) = parts_of(Access.of(store_of(usual.folder)), plan, inlined, plan.columns)
    batches = read_part(part, arrow_schema(spark_schema(plan.columns)))
    assert next(batches).num_rows > 0
    with pytest.raises(QueryError, match="more digits than Spark's microseconds"):
        list(batches)
