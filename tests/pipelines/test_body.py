"""Bodies of models in Python and SQL: their arguments, code, places in files, and rows."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from local_stores import store_of

from lakeconf.errors import PipelineError, QueryError, SchemaError, SnapshotNotFoundError
from lakeconf.pipelines.models.body import Function, Query

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with store_of(tmp_path_factory.mktemp("body")).open() as lake:
        yield lake


def native(frame: Any) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = frame.to_native().fetchall()
    return found


def test_function_receives_only_the_bounds_that_it_names(lake: Lake) -> None:
    seen: list[Any] = []

    def starting(events: nw.LazyFrame[Any], start: date) -> nw.LazyFrame[Any]:
        seen.append(start)
        return events

    def unbounded(events: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return events

    frames = {"events": lake.sql("SELECT 1 AS id")}
    bounds = {"start": date(2024, 1, 1), "end": date(2024, 1, 2)}
    for body in (starting, unbounded):
        assert native(Function(body).rows(lake, frames, bounds)) == [(1,)]
    assert seen == [date(2024, 1, 1)]


def test_function_may_return_a_native_frame_and_nothing_else(lake: Lake) -> None:
    found = Function(lambda: pa.table({"id": [1]})).rows(lake, {}, {})
    assert isinstance(found, nw.DataFrame)
    with pytest.raises(SchemaError) as caught:
        Function(lambda: 5).rows(lake, {}, {})
    assert caught.value.message.endswith("<lambda> returned a int")
    assert caught.value.hint == "return a narwhals frame"


def test_arguments_of_a_query_are_its_tables_in_order_and_once() -> None:
    sql = 'SELECT * FROM raw.b JOIN a USING (id) JOIN "Other".raw.c d ON true WHERE id IN (SELECT id FROM raw.b)'
    assert list(Query(sql).arguments()) == ["raw.b", "a", "Other.raw.c"]
    # A common table expression is no argument, and a table of the same name is one.
    assert list(Query("WITH events AS (FROM raw.users) FROM events").arguments()) == ["raw.users"]
    sql = "WITH events AS (FROM raw.events) SELECT * FROM events, raw.events"
    assert list(Query(sql).arguments()) == ["raw.events"]


def test_series_is_no_argument(lake: Lake) -> None:
    query = Query("SELECT r.range + g AS n FROM range(2) AS r, generate_series(10, 11) AS s(g), raw.t ORDER BY ALL")
    assert query.arguments() == ["raw.t"]
    found = query.rows(lake, {"raw.t": lake.sql("SELECT 1 AS id")}, {})
    assert native(found) == [(10,), (11,), (11,), (12,)]
    assert native(Query("FROM range(2)").rows(lake, {}, {})) == [(0,), (1,)]


def test_query_with_two_columns_of_the_same_name_is_refused(lake: Lake, tmp_path: Path) -> None:
    for columns in ("1 AS id, 2 AS id", "1 AS id, 2 AS ID", "t.*, t.id"):
        query = Query(f"SELECT {columns} FROM raw.t", tmp_path / "twice.sql")
        with pytest.raises(PipelineError, match=r"twice\.sql: the result of the SQL has two columns 'id'"):
            query.rows(lake, {"raw.t": lake.sql("SELECT 1 AS id")}, {})


def test_query_keeps_joins_and_names_of_columns(lake: Lake) -> None:
    """A query without SELECT lost its joins: it returned other rows."""
    frames = {
        "one": lake.sql("FROM (VALUES (1), (2)) AS t(id)"),
        "two": lake.sql("SELECT 2 AS id, 'b' AS text"),
        'raw.a"; DROP': lake.sql("SELECT 1 AS id"),
    }
    for sql, found in (
        ("FROM one JOIN two USING (id)", (2, "b")),
        ("SELECT x.number FROM two AS x(number, letter)", (2,)),
        ('SELECT "x""; y".id FROM raw."a""; DROP" AS "x""; y"', (1,)),
        ("SELECT id FROM two; -- end", (2,)),
    ):
        assert native(Query(sql).rows(lake, frames, {})) == [found]
    with pytest.raises((QueryError, SnapshotNotFoundError)):
        native(Query("SELECT id FROM one AT (VERSION => 1)").rows(lake, frames, {}))


def test_placeholders_are_typed_values(lake: Lake) -> None:
    for start, end, kind in (
        (date(2024, 1, 1), date(2024, 1, 2), "DATE"),
        (datetime(2024, 1, 1, 5), datetime(2024, 1, 1, 6), "TIMESTAMP"),
    ):
        found = Query("SELECT typeof($start), typeof($end), $start").rows(lake, {}, {"start": start, "end": end})
        assert native(found) == [(kind, kind, start)]
    with pytest.raises(PipelineError) as caught:
        Query("SELECT $begin").rows(lake, {}, {"start": date(2024, 1, 1), "end": date(2024, 1, 2)})
    assert caught.value.message == "the SQL contains an unknown placeholder $begin"
    assert caught.value.hint == "use one of: $start, $end"
    with pytest.raises(PipelineError) as caught:
        Query("SELECT $start").rows(lake, {}, {})
    assert caught.value.hint == 'set kind = "incremental", or remove it'


def test_the_text_of_a_query_keeps_the_meaning_that_duckdb_gives_it(lake: Lake) -> None:
    frame = pa.table({"day": [date(2024, 5, 17)] * 3, "flag": [True, False, True], "other": [None, None, True]})
    text = (
        "SELECT count(*), '$start' FROM raw.t -- $end\nWHERE flag = other IS NOT NULL AND day >= $start AND day < $end;"
    )
    bounds = {"start": date(2024, 5, 17), "end": date(2024, 5, 18)}
    assert native(Query(text).rows(lake, {"raw.t": frame}, bounds)) == [(1, "$start")]


def test_an_error_of_a_view_has_its_place(lake: Lake, tmp_path: Path) -> None:
    lake.create_table("raw.t", {"id": "BIGINT"})
    Query("SELECT id FROM raw.t;\n").check(lake)
    with pytest.raises(QueryError) as caught:
        Query("SELECT id,\n  idd AS x\nFROM raw.t", tmp_path / "v.sql").check(lake)
    assert "v.sql:2:3: Binder Error" in caught.value.message
    assert caught.value.message.splitlines()[1:3] == ["  2 |   idd AS x", "    |   ^"]
