"""Names of frames in queries on DuckDB: they mean the frames of this query, and hide nothing from others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from plain_sql import run_plain

from lakeconf.errors import QueryError

if TYPE_CHECKING:
    from lakeconf import Lake

ONE, TWO = pa.table({"id": [1]}), pa.table({"id": [2]})


@pytest.fixture
def engine() -> None:
    """The lakes of these tests are on DuckDB."""


def rows(frame: Any) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = frame.to_native().fetchall()
    return found


def test_a_later_query_does_not_change_an_earlier_one(lake: Lake) -> None:
    first, second = (lake.query("SELECT id FROM x", {"x": frame}) for frame in (ONE, TWO))
    third = lake.query("SELECT other FROM x", {"x": pa.table({"other": [3]})})
    assert [rows(found) for found in (first, second, third)] == [[(1,)], [(2,)], [(3,)]]


def test_tables_views_and_macros_of_the_lake_do_not_read_frames(lake: Lake) -> None:
    run_plain(
        lake,
        "CREATE TABLE t AS SELECT 7 AS id",
        "CREATE VIEW v AS SELECT id FROM t",
        "CREATE MACRO m() AS TABLE SELECT id FROM t",
    )
    lake.refresh()
    assert rows(lake.query("SELECT v.id, t.id FROM v, t", {"t": ONE})) == [(7, 1)]
    assert rows(lake.query("FROM m(), T", {"t": ONE})) == [(7, 1)]
    for name in ("t", "main.t", "dev.t", "v", "m()"):
        assert rows(lake.sql(f"FROM {name}")) == [(7,)]


def test_names_in_queries_and_errors_are_those_of_the_user(lake: Lake) -> None:
    for sql, wanted in (
        ('SELECT x.id, "X".id FROM x', [(1, 1)]),
        ("FROM x AS a JOIN x AS b USING (id)", [(1,)]),
        ("WITH x AS (SELECT 5 AS id) FROM x", [(5,)]),
        ("SELECT (SELECT max(id) FROM x), 'FROM x' FROM \"x\" -- FROM x", [(1, "FROM x")]),
        ("PIVOT x ON id IN (1) USING count(*)", [(1,)]),
        ("SELECT x FROM x", [({"id": 1},)]),
        ("DESCRIBE x", [("id", "BIGINT", "YES", None, None, None)]),
        ("SELECT column_name FROM (SUMMARIZE SELECT id FROM x)", [("id",)]),
    ):
        assert rows(lake.query(sql, {"x": ONE})) == wanted
    with pytest.raises(QueryError, match="nope") as caught:
        lake.query("SELECT nope FROM x", {"x": ONE})
    assert "lakeconf_input" not in str(caught.value)
    with pytest.raises(QueryError, match=r"names of frames cannot be found|Parser Error"):
        lake.query("SELECT FROM FROM x", {"x": ONE})
