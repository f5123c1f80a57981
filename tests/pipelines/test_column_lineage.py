"""The columns from which each column of a model is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakeconf.pipelines import Append, Full, Model, Pipeline, Query, Seed, model
from lakeconf.pipelines.lineage import column_lineage
from lakeconf.secret import Secret

if TYPE_CHECKING:
    import narwhals as nw

SEED = Model("a.seed", Seed("x.csv", {"id": "INT", "N": "INT", "uid": "INT"}))


@model("a.python", Full())
def python(seed: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    return seed


def sources(*sql: str) -> dict[str, list[str] | None] | None:
    """The lineage of the last of several models, `m.a`, `m.b` and so on."""
    models = [Model(f"m.{'abc'[number]}", Full(), Query(text)) for number, text in enumerate(sql)]
    found = column_lineage(Pipeline([SEED, python, *models]))[models[-1].table]
    if found is None:
        return None
    return {name: None if one is None else [str(source) for source in one] for name, one in found.items()}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        # The rows of a series come from no table; sqlglot does not know its columns.
        ("SELECT s.d AS x, o.id FROM generate_series(1, 2) AS s(d), a.seed o", {"x": None, "id": ["a.seed.id"]}),
        ("SELECT id, n FROM a.seed", {"id": ["a.seed.id"], "N": ["a.seed.N"]}),
        (
            "SELECT o.id, sum(o.n) + max(u.x) AS Total, 5 AS f FROM a.seed o JOIN raw.users u USING (uid) GROUP BY 1",
            {"id": ["a.seed.id"], "Total": ["a.seed.N", "raw.users.x"], "f": []},
        ),
        ("FROM a.seed", {"id": ["a.seed.id"], "N": ["a.seed.N"], "uid": ["a.seed.uid"]}),
        ("SELECT * EXCLUDE (n) FROM a.seed", {"id": ["a.seed.id"], "uid": ["a.seed.uid"]}),
        ("SELECT * FROM raw.users", {"*": ["raw.users.*"]}),
        ("SELECT id FROM a.seed WHERE uid > $start ORDER BY n", {"id": ["a.seed.id"]}),
        ("SELECT row_number() OVER (PARTITION BY id ORDER BY n) r FROM a.seed", {"r": ["a.seed.N", "a.seed.id"]}),
        ('SELECT o."odd n.x" AS "Odd.Y" FROM raw."od d" AS o', {"Odd.Y": ["raw.od d.odd n.x"]}),
        ("SELECT max(id) FROM a.seed", {"MAX(id)": ["a.seed.id"]}),
        ("SELECT id AS x, x + 1 AS y FROM a.seed", {"x": ["a.seed.id"], "y": ["a.seed.id"]}),
        ("SELECT s.field.inner AS f FROM raw.users AS s", {"f": ["raw.users.field"]}),
        # Both tables may have the column x.
        (
            "SELECT id, x FROM raw.users JOIN raw.sales USING (id)",
            {"id": ["raw.sales.id", "raw.users.id"], "x": None},
        ),
        # The pattern may match any column.
        ("SELECT COLUMNS('i.*') FROM a.seed", None),
    ],
)
def test_sources_of_the_columns_of_a_query(sql: str, expected: dict[str, list[str] | None] | None) -> None:
    assert sources(sql) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "WITH t AS (SELECT *, n * 2 AS m FROM a.seed) SELECT m FROM t UNION ALL SELECT x FROM dev.raw.users",
            {"m": ["a.seed.N", "dev.raw.users.x"]},
        ),
        (
            "SELECT (SELECT max(x) FROM raw.users u WHERE u.id = o.id) AS m FROM a.seed o",
            {"m": ["raw.users.x"]},
        ),
    ],
)
def test_tables_with_unknown_columns_are_followed_or_unknown(sql: str, expected: dict[str, list[str]]) -> None:
    """Later versions of sqlglot find nothing if they know the columns of another table of the query."""
    assert sources(sql) in (expected, dict.fromkeys(expected), None)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, n FROM a.seed UNION ALL BY NAME SELECT n, id FROM a.seed",
        "SELECT id FROM (SELECT id, n FROM a.seed UNION BY NAME SELECT n, id FROM a.seed)",
        "SELECT * FROM a.seed NATURAL FULL JOIN raw.users",
        "SELECT y FROM a.seed AS t(x, y)",
        "WITH t(x) AS (SELECT id, n FROM a.seed) SELECT * FROM t",
        "SELECT * FROM (SELECT * FROM a.seed) AS t(x)",
        "SELECT * FROM a.seed UNPIVOT (value FOR name IN (id, n))",
        "FROM (PIVOT a.seed ON n IN (1) USING sum(id))",
        "SELECT * LIKE 'i%' FROM a.seed",
        "SELECT s.* NOT LIKE 'i%' FROM a.seed AS s",
        "SELECT #1 AS x FROM a.seed",
    ],
)
def test_columns_are_unknown_where_a_query_names_them_in_a_way_that_is_not_followed(sql: str) -> None:
    assert sources(sql) is None


def test_aliases_of_all_columns_are_followed() -> None:
    sql = "WITH t(x, y) AS (SELECT id, n FROM a.seed) SELECT y, q FROM t, (SELECT uid FROM a.seed) u(q)"
    assert sources(sql) == {"y": ["a.seed.N"], "q": ["a.seed.uid"]}
    assert sources("SELECT x, count(*) * 2 AS k FROM a.seed, unnest([id]) AS t(x)") == {"x": ["a.seed.id"], "k": []}


def test_secret_in_an_expression_without_a_name_is_masked() -> None:
    query = Query("SELECT concat('hunter2-planted', id) FROM a.seed", secrets=[Secret("hunter2-planted")])
    found = column_lineage(Pipeline([SEED, Model("m.a", Full(), query)]))["m.a"]
    assert found is not None
    (name,) = found
    assert "***" in name
    assert "hunter2" not in name


def test_columns_of_models_are_known_to_the_models_that_read_them() -> None:
    assert sources("SELECT n AS Twice FROM a.seed", "FROM m.a") == {"Twice": ["m.a.Twice"]}
    assert sources("SELECT * FROM raw.users", "SELECT * FROM m.a") == {"*": ["m.a.*"]}
    assert sources("SELECT * FROM a.python") == {"*": ["a.python.*"]}


def test_models_without_sql() -> None:
    landed = Model("a.landed", Append(files="x.csv", columns={"id": "INT"}))
    found = column_lineage(Pipeline([SEED, python, landed]))
    assert found == {"a.seed": {}, "a.python": None, "a.landed": {}}


def test_sqlglot_prints_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    sources("SELECT unnest([id, n]) AS u, (SELECT z.k FROM (SELECT uid AS k) z) AS k FROM a.seed")
    assert caplog.records == []
