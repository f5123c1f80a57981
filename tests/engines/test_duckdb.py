"""The DuckDB engine scans tables on the connection of the lake, and stages rows in its memory."""

from __future__ import annotations

import importlib.util
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import duckdb
import narwhals as nw
import polars as pl
import pyarrow as pa
import pytest

from lakeconf.catalog.tables import load_table
from lakeconf.engines.duckdb import DuckDBEngine
from lakeconf.engines.engine import ROW_ID, SparkOperations, StagingRequest
from lakeconf.errors import LakeconfError, SchemaError, SnapshotNotFoundError, TableNotFoundError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_lake import Lake

    from lakeconf import Store
    from lakeconf.connection.connection import Connection

TYPES = {"a": "INTEGER", 'b "q"': "VARCHAR"}
ROWS = [(1, "x"), (2, None), (3, "z")]


def test_relation_with_two_columns_of_the_same_name_is_refused(engine: DuckDBEngine) -> None:
    with pytest.raises(SchemaError, match="the frame has two columns 'id'"):
        engine.schema(engine.adopt(engine.query("SELECT 1 AS id, 2 AS id", {})))


@pytest.fixture
def lake(usual: Lake) -> Lake:
    """The table `s.t` with a file, an inlined row and a deleted row."""
    usual.run(
        "CREATE SCHEMA lake.s",
        'CREATE TABLE lake.s.t (a INTEGER NOT NULL, "b ""q""" VARCHAR)',
        "INSERT INTO lake.s.t SELECT i, 'x' || i FROM range(20) r(i)",
        "INSERT INTO lake.s.t VALUES (100, NULL)",
        "DELETE FROM lake.s.t WHERE a BETWEEN 2 AND 18",
    )
    return usual


@pytest.fixture
def writer(lake: Lake) -> Iterator[Connection]:
    with lake.connection.cursor() as cursor:
        yield cursor


@pytest.fixture
def engine(lake: Lake, writer: Connection) -> DuckDBEngine:
    return DuckDBEngine(lake.reader, writer)


def rows(frame: nw.LazyFrame[Any]) -> list[tuple[Any, ...]]:
    return sorted(frame.to_native().fetchall(), key=repr)


def request_of(lake: Lake, types: dict[str, str] | None = None) -> StagingRequest:
    return StagingRequest(load_table(lake.reader, "s.t", lake.newest), types or TYPES, "0a1b")


def staged_tables(connection: Connection) -> list[str]:
    query = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'memory' ORDER BY ALL"
    return [name for (name,) in connection.rows(query)]


def test_staging_leaves_no_view_behind(lake: Lake, engine: DuckDBEngine) -> None:
    with duckdb.connect() as other:
        for frame in (pa.table({"a": [1], 'b "q"': ["x"]}), other.sql("""SELECT 1 AS a, 'x' AS "b ""q""\"""")):
            engine.release(engine.stage(engine.adopt(frame), request_of(lake)))
    with pytest.raises(SchemaError):
        engine.stage_rows(engine.adopt(pa.table({"a": ["no number"], 'b "q"': ["x"]})), request_of(lake))
    assert lake.rows("SELECT view_name FROM duckdb_views() WHERE view_name LIKE 'lakeconf%'") == []


def test_scan_selects_columns_and_rows_of_a_snapshot(lake: Lake, engine: DuckDBEngine) -> None:
    assert (engine.name, engine.details()) == ("duckdb", {})
    assert not isinstance(engine, SparkOperations)
    scanned = engine.scan("s.t", lake.newest)
    assert scanned.collect_schema().names() == ["a", 'b "q"']
    assert rows(scanned) == [(0, "x0"), (1, "x1"), (100, None), (19, "x19")]
    assert len(rows(engine.scan("s.t", lake.newest - 1))) == 21
    assert rows(engine.scan("S.T", lake.newest, ['B "Q"'], "a < 2")) == [("x0",), ("x1",)]
    assert rows(engine.scan("s.t", lake.newest, ['b "q"', "a"], "a = 100")) == [(None, 100)]
    assert rows(engine.scan("s.t", lake.newest, None, nw.col("a") == 1)) == [(1, "x1")]


def test_scan_of_rows_has_their_ids(lake: Lake, engine: DuckDBEngine) -> None:
    assert engine.scan_rows("s.t", lake.newest).collect_schema().names() == [ROW_ID, "a", 'b "q"']
    assert rows(engine.scan_rows("s.t", lake.newest, "a >= 19")) == [(19, 19, "x19"), (20, 100, None)]
    assert len(rows(engine.scan_rows("s.t", lake.newest - 1))) == 21


def test_scan_names_what_does_not_exist(lake: Lake, engine: DuckDBEngine) -> None:
    with pytest.raises(TableNotFoundError, match=r"s\.u"):
        engine.scan("s.u", lake.newest)
    with pytest.raises(SnapshotNotFoundError, match="99"):
        engine.scan_rows("s.t", 99)
    with pytest.raises(SchemaError, match="nothing"):
        engine.scan("s.t", lake.newest, ["nothing"])


def test_changes_are_those_of_ducklake(lake: Lake, engine: DuckDBEngine) -> None:
    found = engine.changes("s.t", lake.newest, lake.newest)
    assert found.collect_schema().names() == ["snapshot_id", "rowid", "change_type", "a", 'b "q"']
    deleted = rows(found)
    assert len(deleted) == 17
    assert {row[:1] + row[2:3] for row in deleted} == {(lake.newest, "delete")}
    lake.run("CREATE TABLE lake.h (rowid INTEGER)")
    with pytest.raises(UnsupportedError, match="hides"):
        engine.changes("h", 1, lake.newest)


def test_query_uses_frames_under_their_names(lake: Lake, engine: DuckDBEngine) -> None:
    frames = {"o'ne": engine.scan("s.t", lake.newest), "two": pa.table({"a": [100, 7]})}
    assert rows(engine.query('SELECT a FROM "o\'ne" JOIN two USING (a)', frames)) == [(100,)]


FRAMES = {
    "narwhals": lambda: nw.from_native(pa.table({"a": [1]})),
    "pyarrow": lambda: pa.table({"a": [1]}),
    "polars": lambda: pl.DataFrame({"a": [1]}),
    "lazy polars": lambda: pl.LazyFrame({"a": [1]}),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_of_other_libraries_are_adopted(engine: DuckDBEngine, kind: str) -> None:
    adopted = engine.adopt(FRAMES[kind]())
    assert (engine.schema(adopted), adopted.fetchall()) == ({"a": "BIGINT"}, [(1,)])


def test_relation_of_the_lake_is_adopted_as_it_is(lake: Lake, engine: DuckDBEngine) -> None:
    relation = lake.connection.relation("SELECT 1 AS a")
    assert engine.adopt(relation) is relation
    assert engine.adopt(nw.from_native(relation)) is relation


@pytest.mark.parametrize("has_pyarrow", [True, False])
def test_relation_of_another_connection_is_copied(
    engine: DuckDBEngine, monkeypatch: pytest.MonkeyPatch, *, has_pyarrow: bool
) -> None:
    """A stream of the other connection would be empty when it is read again."""
    if not has_pyarrow:
        found = importlib.util.find_spec
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyarrow" else found(name))
    with duckdb.connect() as other:
        first = engine.adopt(other.sql("SELECT i AS a, 'x' AS b FROM range(3000) r(i)"))
        second = engine.adopt(other.sql("SELECT 1 AS a"))
    assert engine.schema(first) == {"a": "BIGINT", "b": "VARCHAR"}
    for _ in range(2):
        assert first.aggregate("count(*), sum(a)").fetchall() == [(3000, 4_498_500)]
    assert second.fetchall() == [(1,)]
    assert bool(staged_tables(engine._connection)) is not has_pyarrow


def test_adopted_values_keep_their_precision(engine: DuckDBEngine) -> None:
    with pytest.raises(SchemaError, match="DuckDB would round"):
        engine.adopt(pa.table({"a": pa.array([1], pa.duration("ns"))}))
    assert engine.schema(engine.adopt(pa.table({"a": pa.nulls(1)}))) == {"a": '"NULL"'}
    with pytest.raises(SchemaError, match="str is not a frame"):
        engine.adopt("a")


def test_conform_selects_and_casts_columns(lake: Lake, engine: DuckDBEngine) -> None:
    columns = load_table(lake.reader, "s.t", lake.newest).columns
    frame = engine.adopt(pa.table({'B "q"': ["x"], "more": [1], "A": pa.array([7], pa.int8())}))
    conformed = engine.conform(frame, dict(zip(columns, TYPES.values(), strict=True)))
    assert (engine.schema(conformed), conformed.fetchall()) == (TYPES, [(7, "x")])


def test_staged_rows_are_a_table_in_memory(lake: Lake, engine: DuckDBEngine, writer: Connection) -> None:
    frame = engine.adopt(pa.table({'b "q"': ["x", None, "z"], "A": pa.array([1, 2, 3], pa.int8())}))
    staged = engine.stage(frame, request_of(lake))
    assert (staged.row_count, staged.files, staged.folder) == (3, (), None)
    assert writer.rows(staged.source) == ROWS
    described = writer.rows(f"DESCRIBE ({staged.source})")
    assert [row[:2] for row in described] == list(TYPES.items())
    assert staged_tables(writer) == ["lakeconf_0a1b"]
    engine.release(staged)
    engine.release(staged)
    assert staged_tables(writer) == []


def test_null_in_a_required_column_is_rejected_and_nothing_remains(
    lake: Lake, engine: DuckDBEngine, writer: Connection
) -> None:
    frame = engine.adopt(pa.table({"a": [1, None], 'b "q"': ["x", "y"]}))
    with pytest.raises(SchemaError, match=r"the column 'a' of s\.t is NOT NULL"):
        engine.stage(frame, request_of(lake))
    assert staged_tables(writer) == []
    staged = engine.stage_rows(frame, request_of(lake))
    assert (writer.rows(staged.source), staged.row_count) == ([(1, "x"), (None, "y")], None)


def test_the_first_required_column_with_a_null_is_named(lake: Lake, engine: DuckDBEngine, writer: Connection) -> None:
    lake.run("CREATE TABLE lake.s.u (a INTEGER NOT NULL, b INTEGER, c INTEGER NOT NULL)")
    table = load_table(lake.reader, "s.u", lake.newest)
    request = StagingRequest(table, dict.fromkeys("abc", "INTEGER"), "1")
    frame = engine.adopt(pa.table({"a": [1], "b": pa.nulls(1, pa.int32()), "c": pa.nulls(1, pa.int32())}))
    with pytest.raises(SchemaError, match="the column 'c'"):
        engine.stage(frame, request)
    assert engine.stage(frame.project("a, b, a AS c"), replace(request, token="2")).row_count == 1
    assert staged_tables(writer) == ["lakeconf_2"]


def test_value_that_the_table_would_round_is_rejected(lake: Lake, engine: DuckDBEngine, writer: Connection) -> None:
    frame = engine.adopt(pa.table({"a": ["12:00:00.1234567"]}))
    with pytest.raises(SchemaError, match="'a' has values that its type TIME would round"):
        engine.stage_rows(frame, request_of(lake, {"a": "TIME"}))
    assert staged_tables(writer) == []


def test_part_of_staged_rows(lake: Lake, engine: DuckDBEngine, writer: Connection) -> None:
    frame = engine.adopt(pa.table({"a": [1, 2, 3], 'b "q"': ["x", None, "z"], "action": [0, 1, 1]}))
    staged = engine.stage_rows(frame, request_of(lake, {**TYPES, "action": "INTEGER"}))
    part = engine.stage_part(staged, "action = 1", request_of(lake))
    assert (writer.rows(part.source), part.row_count) == (ROWS[1:], 2)
    # The rows belong to `staged`, which removes them.
    assert part.discard == ()


def test_release_ignores_an_error_of_duckdb(engine: DuckDBEngine, lake: Lake, writer: Connection) -> None:
    staged = engine.stage_rows(engine.adopt(pa.table({"a": [1]})), request_of(lake, {"a": "INTEGER"}))
    broken = replace(staged, discard=("DROP TABLE missing", *staged.discard))
    with pytest.raises(LakeconfError):
        writer.execute("DROP TABLE missing")
    engine.release(broken)
    assert staged_tables(writer) == []


def test_ctrl_c_ends_a_write(store: Store) -> None:
    """DuckDB looks for signals while it runs a statement, but not in `relation.query`."""
    slow = "SELECT range % 1000 AS id, sum(sin(range)) AS v FROM range(3_000_000_000) GROUP BY ALL"
    before = signal.signal(signal.SIGVTALRM, signal.default_int_handler)
    with store.open() as lake:
        table = lake.create_table("t", {"id": "BIGINT", "v": "DOUBLE"})
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.5)
            with pytest.raises(KeyboardInterrupt):
                table.append(lake.sql(slow))
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)
        assert table.count() == 0
        assert table.append([{"id": 1, "v": 1.0}]) == lake.snapshot_id
