"""Casts to the types of a table fail for values that they would change, at any depth, and keep all others."""

from __future__ import annotations

import duckdb
import pytest

from lakeconf.engines.schema_check import exact_casts, has_text, placeholder_message, rounded_columns

# The source type, the target type, values that the target holds, and values that it would round.
ROUNDED = [
    ("DECIMAL(9,2)", "UBIGINT", ["2.00", "0.00"], ["2.01", "0.99"]),
    ("DECIMAL(9,2)", "HUGEINT", ["-2.00"], ["-2.50"]),
    ("DECIMAL(38,1)", "UHUGEINT", ["2.0"], ["2.1"]),
    ("DECIMAL(21,1)", "DOUBLE", ["1.5", "-0.1", "9007199254740992.0"], ["90071992547409931.5", "12345678901234567.1"]),
    ("DECIMAL(38,0)", "DOUBLE", ["0"], ["99999999999999999999999999999999999999"]),
    ("HUGEINT", "HUGEINT", ["9007199254740992", "-1267650600228229401496703205376"], ["9007199254740993"]),
    ("UBIGINT", "UHUGEINT", ["7"], ["9007199254740993"]),
    ("TIMESTAMP", "TIMESTAMP_S", ["'2024-01-01 00:00:01'"], ["'2024-01-01 00:00:01.5'"]),
    ("TIMESTAMP", "TIMESTAMP_MS", ["'2024-01-01 00:00:01.001'"], ["'2024-01-01 00:00:01.0015'"]),
    ("VARCHAR", "TIME", ["'12:00:00.123456'", "'12:00:00.1234560'"], ["'12:00:00.1234567'", "'12:00:00.12345601'"]),
    (
        "VARCHAR",
        "TIME WITH TIME ZONE",
        ["'12:00:00.123456+00'"],
        ["'12:00:00.1234567+00'", "'12:00:00+01'", "'24:00:00'"],
    ),
    (
        "VARCHAR",
        "INTERVAL",
        ["'00:00:01.5'"],
        ["'00:00:01.0000005'", "'00:00:01.000001'", "'9 microseconds'", "'50 days 1193 hours'"],
    ),
    (
        "INTERVAL",
        "INTERVAL",
        ["'1 month 00:00:01.123'", "'1192 hours'"],
        ["'00:00:00.0015'", "'1 month 00:00:01.123001'", "'1193:03:00'", "'1 day 99999:00:00'"],
    ),
]
NESTED = {
    "list": ("{}[]", "[{}]"),
    "array": ("{}[1]", "[{}]"),
    "struct": ('STRUCT("A b" {}, n INTEGER)', "{{'A b': {}, 'n': 1}}"),
    "map key": ("MAP({}, INTEGER)", "MAP {{{}: 1}}"),
    "map value": ("MAP(INTEGER, {})", "MAP {{1: {}}}"),
}


def cast(value: str, given: str, wanted: str) -> object:
    """The value after the cast."""
    casts = exact_casts({'"X': given}, {'"x': wanted})
    with duckdb.default_connection().cursor() as con:
        row = con.execute(f"SELECT {casts} FROM (SELECT CAST({value} AS {given}) AS {quoted('X')})").fetchone()
        plain = con.execute(f"SELECT CAST(CAST({value} AS {given}) AS {wanted})").fetchone()
    assert row is not None
    assert row == plain
    return row[0]


def quoted(name: str) -> str:
    return f'"""{name}"'


@pytest.mark.parametrize(("given", "wanted", "good", "bad"), ROUNDED)
@pytest.mark.parametrize("kind", [None, *NESTED])
def test_values_that_a_cast_would_round_are_rejected(
    given: str, wanted: str, good: list[str], bad: list[str], kind: str | None
) -> None:
    in_type, in_value = NESTED[kind] if kind else ("{}", "{}")
    source, target = in_type.format(given), in_type.format(wanted)
    for value in good:
        cast(in_value.format(f"CAST({value} AS {given})"), source, target)
    for value in bad:
        with pytest.raises(duckdb.InvalidInputException) as refused:
            cast(in_value.format(f"CAST({value} AS {given})"), source, target)
        refusal = f"LAKECONF_REFUSED the column '\"x' has values that its type {target} would round"
        assert str(refused.value).endswith(refusal)
    assert cast("NULL", source, target) is None
    assert rounded_columns({"A": "INTEGER", "B": source}, {"a": "INTEGER", "b": target}) == ["b"]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("DECIMAL(9,2)", "DECIMAL(11,2)"),
        ("TIMESTAMP_S", "TIMESTAMP_MS"),
        ("TIMESTAMP", "TIMESTAMP_NS"),
        ("VARCHAR", "VARCHAR"),
        ("TIME", "TIME"),
        ("STRUCT(a VARCHAR, b TIME)", "STRUCT(b TIME, a VARCHAR)"),
        ("MAP(VARCHAR, TIME)", "MAP(VARCHAR, TIME)"),
        ("INTEGER", "HUGEINT"),
    ],
)
def test_casts_that_keep_every_value_are_not_checked(given: str, wanted: str) -> None:
    assert rounded_columns({"a": given}, {"A": wanted}) == []
    if not any(text in given for text in ("VARCHAR", "BLOB")):
        assert exact_casts({"a": given}, {"A": wanted}) == f'CAST("a" AS {wanted}) AS "A"'


def test_fields_of_a_struct_are_compared_by_name() -> None:
    given, wanted = "STRUCT(A VARCHAR, b DECIMAL(9,2))", "STRUCT(B UBIGINT, a VARCHAR)"
    assert rounded_columns({"s": given}, {"s": wanted}) == ["s"]
    assert rounded_columns({"s": "STRUCT(a VARCHAR, b TIME)"}, {"s": "STRUCT(b TIME, a VARCHAR)"}) == []


def test_columns_are_selected_in_the_order_of_the_table() -> None:
    casts = exact_casts({"B": "INTEGER", 'q"': "DATE", "more": "DATE"}, {"b": "BIGINT", 'Q"': "DATE"})
    assert casts == 'CAST("B" AS BIGINT) AS "b", CAST("q""" AS DATE) AS "Q"""'


POISON = "a{SNAPSHOT_ID}"
TEXTS = [
    ("VARCHAR", "VARCHAR", "'{}'"),
    ("BLOB", "BLOB", "'{}'::BLOB"),
    ("JSON", "JSON", "'\"{}\"'"),
    ("VARCHAR", "VARIANT", "'{}'"),
    ("VARCHAR[]", "VARCHAR[]", "[NULL, '{}']"),
    ("STRUCT(a INTEGER, b VARCHAR[])", "STRUCT(a INTEGER, b VARCHAR[])", "{{'a': 1, 'b': ['{}']}}"),
    ("MAP(VARCHAR, INTEGER)", "MAP(VARCHAR, INTEGER)", "MAP {{'{}': 1}}"),
    ("MAP(INTEGER, VARCHAR)", "MAP(INTEGER, VARCHAR)", "MAP {{1: '{}'}}"),
]


@pytest.mark.parametrize(("given", "wanted", "value"), TEXTS)
def test_texts_with_a_placeholder_of_ducklake_are_rejected(given: str, wanted: str, value: str) -> None:
    for harmless in ("b", "{b}", "{SNAPSHOT_ID", "{snapshot_id}", "SNAPSHOT_ID}"):
        cast(value.format(harmless), given, wanted)
    assert cast("NULL", given, wanted) is None
    with pytest.raises(duckdb.InvalidInputException) as refused:
        cast(value.format(POISON), given, wanted)
    assert placeholder_message('"x') in str(refused.value)
    assert placeholder_message('"x') == (
        "LAKECONF_REFUSED the column '\"x' has a value with a placeholder that DuckLake would replace in its "
        "statistics, such as SNAPSHOT_ID"
    )


def test_each_rounded_field_of_a_struct_is_checked() -> None:
    given, wanted = "STRUCT(d DECIMAL(9,2), t VARCHAR)", "STRUCT(d UBIGINT, t TIME)"
    cast("{'d': 1.00, 't': '12:00:00'}", given, wanted)
    for bad in ("{'d': 1.50, 't': '12:00:00'}", "{'d': 1.00, 't': '12:00:00.0000005'}"):
        with pytest.raises(duckdb.InvalidInputException, match="would round"):
            cast(bad, given, wanted)


def test_rounding_and_placeholders_are_both_checked() -> None:
    given, wanted = "STRUCT(d DECIMAL(9,2), t VARCHAR)", "STRUCT(d UBIGINT, t VARCHAR)"
    cast("{'d': 1.00, 't': 'x'}", given, wanted)
    with pytest.raises(duckdb.InvalidInputException, match="would round"):
        cast("{'d': 1.50, 't': 'x'}", given, wanted)
    with pytest.raises(duckdb.InvalidInputException, match="placeholder"):
        cast(f"{{'d': 1.00, 't': '{POISON}'}}", given, wanted)


@pytest.mark.parametrize(
    ("type_name", "expected"),
    [
        *((name, True) for name in ("VARCHAR", "BLOB", "VARIANT", "JSON")),
        *((name, True) for name in ("VARCHAR[][]", "STRUCT(a DATE, b BLOB)", "MAP(DATE, VARCHAR)", "VARCHAR[3]")),
        *((name, False) for name in ("DATE", "UUID", "INTEGER[]", "STRUCT(varchar DATE)", "MAP(DATE, DATE)", "BIT")),
    ],
)
def test_types_with_text_at_any_depth(type_name: str, expected: bool) -> None:
    assert has_text(duckdb.sqltype(type_name)) is expected
