"""The SQL of changes of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from catalog_lake import lake

from lakeconf.errors import SchemaError
from lakeconf.write.schema_changes import Evolution, evolution_for

if TYPE_CHECKING:
    from pathlib import Path


def changed(evolution: Evolution, **types: str) -> tuple[str, ...]:
    return tuple(sql.removeprefix("ALTER TABLE t ") for sql in evolution.statements("t", types))


def test_changes_are_made_in_the_order_drop_rename_promote_add() -> None:
    evolution = Evolution(
        add={"n": "int", "s.Deep": "VARCHAR"}, promote={"id": "BIGINT"}, rename={"s.x": 'y"'}, drop=['"a.b"', "c"]
    )
    assert changed(evolution, id="INTEGER", s="STRUCT(x DATE)", c="DATE", **{"a.b": "DATE"}) == (
        *('DROP COLUMN "a.b"', 'DROP COLUMN "c"', 'RENAME COLUMN "s"."x" TO "y"""'),
        *('ALTER COLUMN "id" SET DATA TYPE BIGINT', 'ADD COLUMN "n" INTEGER', 'ADD COLUMN "s"."Deep" VARCHAR'),
    )
    assert changed(Evolution()) == ()


NESTED = {
    "s": "STRUCT(a INTEGER, B STRUCT(c FLOAT, d DATE))",
    "l": "STRUCT(k INTEGER, d DATE)[]",
    "m": "MAP(VARCHAR, STRUCT(k INTEGER, z DATE))",
    "Ids": "MAP(INTEGER, DATE)",
}


@pytest.mark.parametrize(
    ("name", "new", "sql"),
    [
        ("s.b.c", "double", '"s" SET DATA TYPE STRUCT("a" INTEGER, "B" STRUCT("c" DOUBLE, "d" DATE))'),
        ("S.a", "BIGINT", '"s" SET DATA TYPE STRUCT("a" BIGINT, "B" STRUCT(c FLOAT, d DATE))'),
        ("l.element.k", "BIGINT", '"l" SET DATA TYPE STRUCT("k" BIGINT, "d" DATE)[]'),
        ("m.value.K", "BIGINT", '"m" SET DATA TYPE MAP(VARCHAR, STRUCT("k" BIGINT, "z" DATE))'),
        ("ids.key", "BIGINT", '"Ids" SET DATA TYPE MAP(BIGINT, DATE)'),
        (
            "s",
            "STRUCT(a BIGINT, B STRUCT(c DOUBLE, d DATE))",
            '"s" SET DATA TYPE STRUCT(a BIGINT, B STRUCT(c DOUBLE, d DATE))',
        ),
    ],
)
def test_promotion_of_a_nested_field_changes_the_whole_column(name: str, new: str, sql: str) -> None:
    assert changed(Evolution(promote={name: new}), **NESTED) == (f"ALTER COLUMN {sql}",)


@pytest.mark.parametrize(
    ("evolution", "message"),
    [
        (Evolution(promote={"x.a": "BIGINT"}), "cannot promote an unknown column: 'x'"),
        (Evolution(promote={"s.x": "BIGINT"}), "cannot promote an unknown column: 'x'"),
        (Evolution(promote={"l.child": "BIGINT"}), "cannot promote an unknown column: 'child'"),
        (Evolution(defaults={"n": 1}), "there is a default for 'n', but the column is not added"),
        (Evolution(add={"n": "INTEGR"}), "the column 'n' has an invalid type 'INTEGR': "),
        (Evolution(drop=["x"]), "cannot drop an unknown column: 'x'"),
        (Evolution(drop=["s.x"]), "cannot drop an unknown column: 'x'"),
        (Evolution(drop=["s.a.x"]), "cannot drop an unknown column: 's.a.x'"),
        (Evolution(drop=["l.child"]), "cannot drop an unknown column: 'child'"),
        (Evolution(rename={"x": "y"}), "cannot rename an unknown column: 'x'"),
        (Evolution(drop=["S"], rename={"s": "y"}), "cannot rename an unknown column: 's'"),
        (Evolution(rename={"s": "t", "S": "u"}), "cannot rename an unknown column: 'S'"),
        (Evolution(drop="s"), "drop is 's', and not a list of names"),
        (Evolution(drop=[1]), "drop contains 1, which is not a name"),  # type: ignore[list-item]
        (Evolution(rename={"s": 1}), "the column name 1 is not a text"),  # type: ignore[dict-item]
        (Evolution(rename={1: "s"}), "1 is not the name of a column"),  # type: ignore[dict-item]
        (Evolution(add={"n": int}), "the type of the column 'n' is not a text: <class 'int'>"),  # type: ignore[dict-item]
        (Evolution(promote={"Ids": None}), "the type of the column 'Ids' is not a text: None"),  # type: ignore[dict-item]
        (Evolution(drop=[""]), "'' is not the name of a column"),
        (Evolution(drop=["a..b"]), "'a..b' is not the name of a column"),
        (Evolution(drop=["a."]), "'a.' is not the name of a column"),
        (Evolution(drop=['a"b']), "'a\"b' is not the name of a column"),
        (Evolution(add={'"': "DATE"}), "'\"' is not the name of a column"),
    ],
)
def test_invalid_change_is_refused(evolution: Evolution, message: str) -> None:
    with pytest.raises(SchemaError) as refused:
        changed(evolution, **NESTED)
    assert refused.value.message.startswith(message)
    if message.endswith("' is not the name of a column"):
        assert refused.value.hint == 'write column, column.field, or "odd.column"'


def test_error_for_an_unknown_column_names_the_most_similar_one() -> None:
    with pytest.raises(SchemaError, match=r'did you mean "Ids"\?'):
        changed(Evolution(drop=["idds"]), **NESTED)
    with pytest.raises(SchemaError, match="use one of the columns: a, B"):
        changed(Evolution(drop=["s.zzz"]), **NESTED)


def test_names_can_be_swapped() -> None:
    swap = Evolution(rename={"a": "x", "B": "a", "x": "B"})
    assert changed(swap, a="DATE", b="DATE") == (
        'RENAME COLUMN "a" TO "x"',
        'RENAME COLUMN "B" TO "a"',
        'RENAME COLUMN "x" TO "B"',
    )


def test_evolution_for_a_frame_adds_and_widens() -> None:
    types = {"Id": "INTEGER", "at": "TIMESTAMP", "text": "VARCHAR", "o.dd": "FLOAT"}
    frame = {"ID": "BIGINT", "at": "DATE", "text": "INTEGER", "new.one": "DATE", "o.dd": "DOUBLE"}
    found = evolution_for(frame, types)
    assert found == Evolution(add={'"new.one"': "DATE"}, promote={'"Id"': "BIGINT", '"o.dd"': "DOUBLE"})
    assert changed(found, **types)[-1] == 'ADD COLUMN "new.one" DATE'
    assert evolution_for({"id": "INTEGER"}, types) == Evolution()


@pytest.mark.parametrize(
    ("type_name", "value"), [("TINYINT", 1.6), ("HUGEINT", 2**53 + 1), ("INTERVAL", "50 days 1200 hours")]
)
def test_default_that_the_column_would_change_is_refused(type_name: str, value: object) -> None:
    with pytest.raises(SchemaError, match=r"cannot hold .* exactly"):
        Evolution(add={"a": type_name}, defaults={"a": value}).statements("lake.s.t", {})


def test_default_of_bytes_is_these_bytes(tmp_path: Path) -> None:
    with lake("duckdb", tmp_path) as source:
        source.run("CREATE TABLE lake.t (id INTEGER)", "INSERT INTO lake.t VALUES (1)")
        source.run(*Evolution(add={"b": "BLOB"}, defaults={"b": b"\x00'a"}).statements("lake.t", {"id": "INTEGER"}))
        assert source.rows("SELECT b FROM lake.t") == [(b"\x00'a",)]


@pytest.mark.parametrize(
    ("column", "new"), [("b", "DOUBLE"), ("b", "HUGEINT"), ("t", "TIMESTAMPTZ"), ("s.b", "DOUBLE")]
)
def test_promotion_that_would_change_existing_values_is_refused(column: str, new: str) -> None:
    types = {"b": "BIGINT", "t": "TIMESTAMP", "s": "STRUCT(b BIGINT, h HUGEINT)"}
    with pytest.raises(SchemaError, match="cannot hold all values"):
        Evolution(promote={column: new}).statements("lake.t", types)


def test_the_text_null_is_no_default() -> None:
    with pytest.raises(SchemaError, match="DuckLake would store as a NULL in new rows"):
        Evolution(add={"s": "VARCHAR"}, defaults={"s": "NULL"}).statements("t", {"id": "INTEGER"})
