"""An expression is plain only if every engine computes it alike; everything unknown is not."""

from __future__ import annotations

import narwhals as nw
import pytest

from lakeconf.catalog.types import columns_of
from lakeconf.write.merge_clauses import Clauses, Delete, Insert, Update
from lakeconf.write.merge_source import are_plain, has_plain_values

COLUMNS = columns_of(
    {"n": "INTEGER", "big": "BIGINT", "tiny": "TINYINT", "s": "VARCHAR", "b": "BOOLEAN", "x": "DOUBLE", "at": "DATE"}
    | {"u": "UUID", "j": "JSON", "l": "INTEGER[]", "d": "DECIMAL(9, 2)", "wide": "DECIMAL(10, 2)", "f": "FLOAT"}
)
n, big, s, b, x, at, items, d = (nw.col(f"source_{name}") for name in ("n", "big", "s", "b", "x", "at", "l", "d"))
PLAIN = [
    *(
        n == 1,
        n >= nw.col("target_big"),
        n > 1,
        nw.col("source_tiny") != 1000,
        s == "a",
        b,
        ~b,
        x == nw.col("target_x"),
    ),
    *(at > nw.col("target_at"), items.is_null(), (n == 1) & (s < "b") | ~(b == True), d != nw.col("target_d")),  # noqa: E712
    *(nw.lit(1) < n, nw.col("source_u").is_null(), n.is_null() == b),
]
NOT_PLAIN = [
    *(
        n + 1 > 2,
        n == 1.0,
        n == "1",
        s == 1,
        x > 1.5,
        x > n,
        n == 2**31,
        n.cast(nw.Int64) == 1,
        n.abs() == 1,
        s.str.len_chars() == 1,
    ),
    *(
        at > "2024-01-01",
        items == nw.col("target_l"),
        n,
        nw.col("source_missing") == 1,
        nw.col("n") == 1,
        n.is_in([1]),
        b & n,
    ),
    *(
        nw.all_horizontal(b, b, ignore_nulls=True),
        nw.col("source_u") == nw.col("target_u"),
        nw.col("source_n", "source_big") == 1,
    ),
    *(n == None, n.is_between(1, 2), d == nw.col("target_wide"), x == nw.col("target_f"), ~n, n.max() == 1),  # noqa: E711
    *(nw.lit(1, dtype=nw.Int8) == n, nw.col("source_j") == nw.col("target_j"), (n == 1) & (n / 2 == 1), n == (big + 1)),
]


def with_condition(when: nw.Expr) -> list[Clauses]:
    """Merges with the condition in each kind of clause."""
    return [
        Clauses(("n",), (Update(when=when),), None, None),
        Clauses(("n",), (Update(), Delete(when)), None, None),
        Clauses(("n",), (), Insert(when), None),
        Clauses(("n",), (), Insert(), Delete(when)),
    ]


@pytest.mark.parametrize("when", PLAIN, ids=str)
def test_comparisons_of_equal_types_and_null_tests_are_plain(when: nw.Expr) -> None:
    assert all(are_plain(clauses, COLUMNS) for clauses in with_condition(when))


@pytest.mark.parametrize("when", NOT_PLAIN, ids=str)
def test_everything_else_is_not_plain(when: nw.Expr) -> None:
    assert not any(are_plain(clauses, COLUMNS) for clauses in with_condition(when))


def test_clauses_without_expressions_are_plain() -> None:
    assert are_plain(Clauses(("n",), (Update(), Delete()), Insert(), Delete()), COLUMNS)


@pytest.mark.parametrize(
    ("name", "value", "plain"),
    [
        *(
            ("n", 1, True),
            ("BIG", 1, True),
            ("tiny", 1, False),
            ("n", 2**31, False),
            ("s", "a", True),
            ("n", "1", False),
        ),
        *(("b", True, True), ("n", True, False), ("at", None, True), ("x", 1.5, False), ("x", 1, False)),
        *(("l", nw.col("source_l"), False), ("u", nw.col("source_u"), True), ("n", nw.col("source_big"), False)),
        *(("big", nw.col("target_n"), True), ("big", nw.col("source_tiny"), False), ("n", n + 1, False)),
        *(("b", n == 1, True), ("missing", 1, False), ("d", nw.col("source_wide"), False), ("n", nw.lit(None), True)),
    ],
)
def test_values_of_the_columns_type_are_plain(name: str, value: object, plain: bool) -> None:
    types = {f"{side}_{column.name}": column.type for column in COLUMNS for side in ("source", "target")}
    assert has_plain_values({name: value}, COLUMNS, types) is plain
    assert are_plain(Clauses(("n",), (Update({"s": "a", name: value}),), None, None), COLUMNS) is plain
