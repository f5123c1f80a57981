"""Named windows are written in full; other short forms are refused with another way to write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sql_twins import Twins, twins

from lakeconf.engines.untranslated import UntranslatedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def pair(spark: SparkSession) -> Twins:
    return twins(spark, seed=5)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, row_number() OVER win FROM x WINDOW win AS (PARTITION BY o ORDER BY t, id)",
        "SELECT id, sum(i) OVER Win, max(t) OVER win FROM x WINDOW win AS (ORDER BY id ROWS 2 PRECEDING)",
        "SELECT id, rank() OVER a, rank() OVER b FROM x WINDOW a AS (ORDER BY t), b AS (PARTITION BY o ORDER BY t)",
        "SELECT id FROM x WINDOW win AS (PARTITION BY o ORDER BY id) QUALIFY row_number() OVER win = 1",
        "SELECT id, rank() OVER w FROM (SELECT id, rank() OVER w AS n FROM x WINDOW w AS (ORDER BY t)) "
        "WINDOW w AS (ORDER BY n DESC)",
        "SELECT id, ntile(4) OVER w, percent_rank() OVER w, cume_dist() OVER w FROM x WINDOW w AS (ORDER BY id)",
    ],
)
def test_rows_are_those_of_duckdb(sql: str, pair: Twins) -> None:
    assert pair.difference(sql) is None


@pytest.mark.parametrize(
    ("sql", "other"),
    [
        ("SELECT * FROM x NATURAL JOIN x AS y", "USING"),
        ("SELECT id FROM x UNION ALL BY NAME SELECT t, id FROM x", "same order"),
        ("SELECT DISTINCT ON (o) id FROM x ORDER BY o, id", "QUALIFY"),
        ("SELECT sum(i) OVER (w ROWS 2 PRECEDING) FROM x WINDOW w AS (ORDER BY id)", "in full"),
    ],
)
def test_other_short_forms_are_refused(sql: str, other: str, pair: Twins) -> None:
    with pytest.raises(UntranslatedError, match=other):
        pair.on_spark(sql)
