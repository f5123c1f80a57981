"""Parts of a query that Spark may compute in another way are refused."""

from __future__ import annotations

import pytest

from lakeconf.engines.spark.sql.bound_query import bind
from lakeconf.engines.spark.sql.translation import translated
from lakeconf.errors import UnsupportedError

TABLE = {"x": {"i": "INTEGER", "v": "VARCHAR", "u": "UUID", "s": "STRUCT(a INTEGER)", "g": "DOUBLE"}}


@pytest.mark.parametrize(
    ("sql", "part"),
    [
        ("SELECT u = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11' FROM x", "u"),
        ("SELECT DISTINCT u FROM x", "compare u"),
        ("SELECT count(*) FROM x GROUP BY u", "UUID"),
        ("SELECT v FROM x ORDER BY s", "STRUCT"),
        ("SELECT row_number() OVER (PARTITION BY u ORDER BY i) FROM x", "u"),
        ("SELECT u FROM x UNION SELECT u FROM x", "compare u"),
        ("SELECT i FROM x USING SAMPLE 3", "SAMPLE"),
        ("SELECT DISTINCT ON (v) i FROM x", "DISTINCT ON"),
        ("SELECT i FROM x LIMIT 10%", "10"),
        ("SELECT i FROM x LIMIT (SELECT 1)", "LIMIT"),
        ("SELECT x FROM (SELECT i AS x FROM x) POSITIONAL JOIN (SELECT i AS y FROM x)", "POSITIONAL"),
        ("SELECT random()", "RANDOM"),
        ("SELECT now()", "NOW"),
        ("SELECT string_agg(v, ',') FROM x", "unknown"),
        ("SELECT regexp_matches(v, '\\s') FROM x", "REGEXP_MATCHES"),
        ("SELECT i::VARCHAR || g::VARCHAR FROM x", "g"),
        ("SELECT v::FLOAT FROM x", "v"),
        ("SELECT a FROM (VALUES (random())) AS t(a)", "RANDOM"),
        ("SELECT a FROM (VALUES ((SELECT max(i) FROM x))) AS t(a)", "constants"),
        ("SELECT col0 FROM (VALUES (1))", ""),
        ("SELECT DISTINCT i FROM x QUALIFY row_number() OVER (ORDER BY i) = 1", "QUALIFY"),
        ("SELECT i FROM x QUALIFY row_number() OVER (ORDER BY i)", "BOOLEAN"),
        ("SELECT {'a': i} FROM x", ""),
        ("SELECT [1, 2]", "1, 2"),
        ("SELECT i FROM x WHERE i", "BOOLEAN"),
        ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) FROM r", ""),
        ("SELECT i FROM x UNION BY NAME SELECT v FROM x", ""),
        ("SELECT first(i) FROM x", "FIRST"),
    ],
)
def test_other_parts_are_refused(sql: str, part: str) -> None:
    with pytest.raises(UnsupportedError) as refused:
        translated(bind(sql, TABLE))
    assert part in refused.value.message
    assert refused.value.hint == "write it with narwhals, or run it on DuckDB"
