"""Executors return DuckDB's rows with the types of Spark, and changes like DuckDB or the states of the table."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from catalog_lake import Lake, lake
from hypothesis import given
from local_stores import store_of
from random_lakes import LAKES, build, examples
from spark_changes import KEY, keys_by_state

from lakeconf.catalog.changes import changes_sql, plan_changes_with_inlined_rows
from lakeconf.catalog.pruning.scan_plan import plan_with_inlined_rows
from lakeconf.catalog.pruning.where import parse
from lakeconf.catalog.tables import Column, load_table
from lakeconf.datasource.planning import parts_of
from lakeconf.engines.spark.read.parts import Changes, check_mapped, read_part, stream_of
from lakeconf.engines.spark.spark_types import exact_cast, spark_schema
from lakeconf.engines.spark.versions import arrow_schema
from lakeconf.errors import LakeconfError, QueryError, SchemaError, StorageError, TableNotFoundError, UnsupportedError
from lakeconf.sql import identifier
from lakeconf.store import Access

if TYPE_CHECKING:
    from collections.abc import Sequence

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


KEY_TYPES = [("snapshot_id", pa.int64()), ("rowid", pa.int64()), ("change_type", pa.string())]


def changed(
    source: Lake, since: int, until: int, *, kinds: bool = True, columns: Sequence[Column] | None = None
) -> pa.Table:
    """The changes of `t` as executors return them to Spark."""
    plan, inlined = plan_changes_with_inlined_rows(source.reader, "t", since, until)
    wanted = plan.inserted.columns if columns is None else tuple(columns)
    schema = arrow_schema(spark_schema(wanted))
    if kinds:
        schema = pa.schema([*(pa.field(*one) for one in KEY_TYPES), *schema])
    part = Changes(Access.of(store_of(source.folder)), plan, stream_of(inlined), wanted, kinds)
    return pa.Table.from_batches(list(read_part(part, schema)), schema)


def test_changes_of_random_lakes_are_those_of_duckdb() -> None:
    seen = Counter[str]()
    _compare_random_changes(seen)
    assert seen["compared"] > 5, seen
    assert min(seen["insert"], seen["delete"]) > 0, seen


@examples(12, prove=300)
@given(**LAKES, back=st.integers(0, 12))
def _compare_random_changes(
    seen: Counter[str], columns: dict[str, str], operations: list[tuple[object, ...]], inline: bool, back: int
) -> None:
    options = "" if inline else ", DATA_INLINING_ROW_LIMIT 0"
    with tempfile.TemporaryDirectory() as name:
        with lake("duckdb", Path(name), options=options) as source:
            script = build(source, columns, operations)
        # Attach again: a DuckDB instance cannot be used after an internal error.
        with lake("duckdb", Path(name), options=options) as source:
            versions = source.versions()
            since = max(1, versions[-1] - back)
            if set(range(since - 1, versions[-1] + 1)) <= set(versions):
                wrong = _wrong(source, since, versions[-1], seen)
                assert not wrong, f"{wrong}: changes from {since} to {versions[-1]} of\n" + ";\n".join(script)


def _wrong(source: Lake, since: int, until: int, seen: Counter[str]) -> object:
    """The changes that differ, or what else is wrong."""
    try:
        plan, _ = plan_changes_with_inlined_rows(source.reader, "t", since, until)
        found, inserted = (changed(source, since, until, kinds=kinds) for kinds in (True, False))
    except UnsupportedError:
        return None
    with source.reader.lake_cursor() as cursor:
        cursor.register("found", found)
        cursor.register("inserted", inserted)
        names = [identifier(column.name) for column in plan.inserted.columns]
        texts = ", ".join(f"CAST({name} AS VARCHAR)" for name in names)
        keys = Counter(cursor.rows(f"SELECT {', '.join(KEY)} FROM found"))
        if Counter(cursor.rows(f"SELECT {texts} FROM found WHERE change_type = 'insert'")) != Counter(
            cursor.rows(f"SELECT {texts} FROM inserted")
        ):
            return "inserted rows alone are others than those of the feed"
        seen.update(kind for *_, kind in keys)
        seen["compared"] += 1
        try:
            query = changes_sql(source.reader, plan)
        except UnsupportedError:
            return _either(keys, keys_by_state(source, plan))
        casts = (exact_cast(name, column) for name, column in zip(names, plan.inserted.columns, strict=True))
        own = ", ".join(f"CAST({cast} AS VARCHAR)" for cast in casts)
        expected = Counter(cursor.rows(f"SELECT {', '.join(KEY)}, {own} FROM ({query})"))
        return _either(expected, Counter(cursor.rows(f"SELECT {', '.join(KEY)}, {texts} FROM found")))


def _either(one: Counter[Any], other: Counter[Any]) -> Counter[Any]:
    """What only one of the two contains."""
    return (one - other) + (other - one)


@pytest.fixture(params=[0, 10])
def table(request: pytest.FixtureRequest, usual: Lake) -> Lake:
    """A lake with `t`, whose rows are in files or in the catalog."""
    usual.run(f"CALL lake.set_option('data_inlining_row_limit', {request.param})")
    usual.run("CREATE TABLE lake.t (id BIGINT, kind VARCHAR)", "INSERT INTO lake.t VALUES (1, 'a'), (2, 'b')")
    return usual


def kinds(found: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((row["change_type"], row["id"], row["kind"]) for row in found.to_pylist())


def test_columns_of_another_snapshot_get_their_names_defaults_and_types(table: Lake) -> None:
    last = table.newest
    table.run(
        "ALTER TABLE lake.t RENAME COLUMN kind TO label",
        "ALTER TABLE lake.t ADD COLUMN size INTEGER DEFAULT 7",
        "ALTER TABLE lake.t ADD COLUMN note VARCHAR",
    )
    later = load_table(table.reader, "t", table.newest).columns
    rows = changed(table, last, last, kinds=False, columns=later).to_pylist()
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": 1, "label": "a", "size": 7, "note": None},
        {"id": 2, "label": "b", "size": 7, "note": None},
    ]


def test_a_column_that_was_promoted_is_cast(usual: Lake) -> None:
    usual.run("CREATE TABLE lake.t AS SELECT 1::INTEGER AS id", "ALTER TABLE lake.t ALTER id TYPE BIGINT")
    later = load_table(usual.reader, "t", usual.newest).columns
    assert changed(usual, 1, 1, kinds=False, columns=later).to_pylist() == [{"id": 1}]
    check_mapped(later, load_table(usual.reader, "t", 1).columns)


def test_other_changes_of_types_are_refused(usual: Lake) -> None:
    usual.run("CREATE TABLE lake.t (id INTEGER, s STRUCT(x INTEGER))", "ALTER TABLE lake.t ADD COLUMN s.y INTEGER")
    before, after = (load_table(usual.reader, "t", version).columns for version in (1, 2))
    with pytest.raises(SchemaError, match="the fields of the column 's' have changed"):
        check_mapped(after, before)
    usual.run("ALTER TABLE lake.t ALTER id TYPE BIGINT")
    promoted = load_table(usual.reader, "t", usual.newest).columns
    with pytest.raises(SchemaError, match="the column 'id' has changed its type from int64 to int32"):
        check_mapped(after, promoted)


def test_columns_may_have_the_names_of_the_place_of_a_row(usual: Lake) -> None:
    usual.run("CALL lake.set_option('data_inlining_row_limit', 0)")
    usual.run("CREATE TABLE lake.t AS SELECT 1 AS filename, 2 AS file_row_number, range AS id FROM range(9)")
    assert changed(usual, usual.newest, usual.newest).num_rows == 9
    usual.run("DELETE FROM lake.t WHERE id = 4")
    (row,) = changed(usual, usual.newest, usual.newest).to_pylist()
    assert (row["change_type"], row["rowid"], row["filename"], row["id"]) == ("delete", 4, 1, 4)
