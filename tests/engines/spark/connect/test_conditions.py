"""A `where` that the planner does not understand, over Spark Connect; see also `tests/lake/test_conditions.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    import lakeconf

PRECISION_LOSS = "spark.sql.decimalOperations.allowPrecisionLoss"
ROWS = r"""
    SELECT i AS id, '{n' || i || '''\' AS name, number / 3 AS "Ratio", CAST(number / 4 AS DECIMAL(9, 2)) AS amount,
        TIMESTAMP '2024-03-10 02:30:00' + INTERVAL 1 HOUR * i AS moment, DATE '2024-01-01' + i::INTEGER AS day
    FROM (SELECT i, CASE WHEN i % 7 <> 0 THEN i END AS number FROM range(40) AS r(i))"""


@pytest.fixture
def lake(connect: SparkSession, store: lakeconf.Store) -> Iterator[lakeconf.Lake]:
    with store.open(connect) as lake:
        rows = lake.sql(ROWS).collect("pyarrow").to_native()
        lake.create_table("t", rows).append(rows)
        lake.table("t").delete("id = 12")
        yield lake


def found(lake: lakeconf.Lake, condition: str) -> tuple[list[int], list[int]]:
    """The ids that Spark and DuckDB find."""
    rows = lake.table("t").scan(columns=["id"], where=condition).to_native().collect()
    expected = lake.sql(f"SELECT id FROM t WHERE {condition}").collect("pyarrow")["id"].to_list()
    return sorted(row.id for row in rows), sorted(expected)


@pytest.mark.parametrize(
    "condition",
    [
        "id % 10 = 3 AND id > 5",
        "length(name) = 5 OR ratio IS NULL",
        r"name = '{n' || id || '''\'",
        "ratio / 2 > 3::DOUBLE AND id <> 20",
        "year(day) = 2024 AND month(day) = 2",
        "moment >= '2024-03-11' AND id % 2 = 0",
        "CASE WHEN id > 20 THEN ratio > 9::DOUBLE ELSE id < 3 END",
        "id % 2 = 0 AND amount < 5",
    ],
)
def test_rows_are_those_of_duckdb(lake: lakeconf.Lake, condition: str) -> None:
    by_spark, by_duckdb = found(lake, condition)
    assert by_spark == by_duckdb != []


def test_decimals_need_a_setting(lake: lakeconf.Lake, connect: SparkSession) -> None:
    with pytest.raises(UnsupportedError, match=r"amount \* 3\) > 2.25\) has decimals") as refused:
        found(lake, "amount * 3 > 2.25")
    assert PRECISION_LOSS in str(refused.value)
    connect.conf.set(PRECISION_LOSS, "false")
    by_spark, by_duckdb = found(lake, "amount * 3 > 2.25")
    assert by_spark == by_duckdb != []


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.sql.ansi.enabled", "false"),
        ("spark.sql.caseSensitive", "true"),
        ("spark.sql.ansi.doubleQuotedIdentifiers", "true"),
        ("spark.sql.legacy.sizeOfNull", "true"),
        ("spark.sql.ansi.enforceReservedKeywords", "true"),
    ],
)
def test_setting_that_could_change_the_condition_is_refused(
    lake: lakeconf.Lake, connect: SparkSession, setting: str, value: str
) -> None:
    connect.conf.set(setting, value)
    with pytest.raises(UnsupportedError, match=f"{setting} = {value}, with which Spark may select other rows"):
        lake.table("t").scan(where="id % 10 = 3")
    assert lake.table("t").scan(where="id = 3").to_native().count() == 1


@pytest.mark.parametrize(
    "condition", ["hour(moment) = 3", "coalesce(moment, moment) = moment", "name = id || '${spark.app.name}'"]
)
def test_condition_that_depends_on_the_session_is_refused(lake: lakeconf.Lake, condition: str) -> None:
    with pytest.raises(UnsupportedError, match="may depend on the session"):
        lake.table("t").scan(where=condition)
