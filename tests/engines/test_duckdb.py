"""The DuckDB engine scans tables on the connection of the lake, and stages rows in its memory."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import duckdb
import narwhals as nw
import pyarrow as pa
import pytest

from lakeconf.catalog.tables import load_table
from lakeconf.engines.duckdb import DuckDBEngine
from lakeconf.engines.engine import StagingRequest
from lakeconf.errors import LakeconfError, SchemaError

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
