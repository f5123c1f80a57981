"""Names and values that DuckLake or a column would change are refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pytest
from local_stores import store_of

from lakeconf.errors import SchemaError
from lakeconf.write.constants import constant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake


TYPES = {"id": "BIGINT", "a": "INTEGER", "s": "STRUCT(x INTEGER, y INTEGER)", "l": "STRUCT(z DATE)[]"}
NAMES = "use another name, or drop or rename that one, too"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with store_of(tmp_path).open() as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        ({"add": {"ID": "INTEGER"}}, "cannot add 'ID': there is a column 'id'", NAMES),
        ({"add": {"b": "DATE", "B": "DATE"}}, "cannot add 'B': there is a column 'b'", NAMES),
        ({"add": {"b": "DATE", '"b"': "DATE"}}, "cannot add 'b': there is a column 'b'", NAMES),
        ({"add": {"s.X": "DATE"}}, "cannot add 's.X': there is a field 'x'", NAMES),
        ({"add": {"s.w": "DATE", "S.W": "DATE"}}, "cannot add 'S.W': there is a field 'w'", NAMES),
        ({"add": {"l.element.Z": "DATE"}}, "cannot add 'l.element.Z': there is a field 'z'", NAMES),
        ({"add": {"n": "STRUCT(q DATE)", "n.q": "DATE"}}, "cannot add 'n.q': there is a field 'q'", NAMES),
        ({"rename": {"a": "ID"}}, "cannot rename 'a' to 'ID': there is a column 'id'", NAMES),
        ({"rename": {"a": "id", "id": "a"}}, "cannot rename 'a' to 'id': there is a column 'id'", NAMES),
        ({"rename": {"a": "z", "id": "Z"}}, "cannot rename 'id' to 'Z': there is a column 'z'", NAMES),
        ({"rename": {"s.x": "Y"}}, "cannot rename 's.x' to 'Y': there is a field 'y'", NAMES),
        ({"rename": {"a": "b"}, "add": {"B": "DATE"}}, "cannot add 'B': there is a column 'b'", NAMES),
        ({"drop": ["a", "A"]}, "'A' is dropped twice", "name it once, or only its column"),
        ({"drop": ["s.x", "S.X"]}, "'S.X' is dropped twice", "name it once, or only its column"),
        ({"drop": ["s", "s.x"]}, "'s.x' is dropped twice", "name it once, or only its column"),
        ({"drop": ["s.x", "s.y"]}, "'s.y' is the last field of its struct", "drop 's'"),
        ({"drop": ["l.element.z"]}, "'l.element.z' is the last field of its struct", "drop 'l'"),
        ({"promote": {"a": "BIGINT", "A": "HUGEINT"}}, 'promote has two types for "a"', "name the column once"),
    ],
)
def test_evolution_with_one_name_twice_is_refused(changes: dict[str, Any], message: str, hint: str, lake: Lake) -> None:
    table = lake.create_table("t", TYPES)
    before = lake.snapshot_id
    with pytest.raises(SchemaError) as refused:
        table.evolve(**changes)
    assert (refused.value.message, refused.value.hint) == (message, hint)
    assert (lake.refresh(), table.schema) == (before, TYPES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("STRUCT(a INT, l STRUCT(q INT, z INT)[])", "element.q"),
        ("STRUCT(q INT, z INT)[][]", "element.element.q"),
        ("MAP(VARCHAR, STRUCT(q INT, z INT)[])", "value.element.q"),
    ],
)
def test_a_field_of_a_list_inside_of_another_value_cannot_be_dropped(kind: str, field: str, lake: Lake) -> None:
    """Without the fields that existing files have, DuckLake cannot read these files any more."""
    path = f"x.l.{field}" if kind.startswith("STRUCT(a") else f"x.{field}"
    table = lake.create_table("t", {"x": kind})
    with pytest.raises(SchemaError, match="because it is in a list inside of another value"):
        table.evolve(drop=[path])
    table.evolve(add={path.replace(".q", ".more"): "INT"})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "columns"),
    [
        ({"rename": {"a": "A"}}, ["id", "A", "s", "l"]),
        ({"rename": {"a": "b"}, "add": {"a": "DATE"}}, ["id", "b", "s", "l", "a"]),
        ({"drop": ["a"], "add": {"A": "DATE"}}, ["id", "s", "l", "A"]),
        ({"drop": ["a"], "rename": {"id": "a"}}, ["a", "s", "l"]),
        ({"rename": {"a": "b", "id": "a"}}, ["a", "b", "s", "l"]),
        ({"rename": {"a": "x", "id": "a", "x": "id"}}, ["a", "id", "s", "l"]),
        ({"drop": ["s.x"], "rename": {"s.y": "x"}, "add": {"s.y": "DATE"}}, ["id", "a", "s", "l"]),
        ({"rename": {"s": "t"}, "add": {"t.w": "DATE"}}, ["id", "a", "t", "l"]),
        ({"add": {"ä": "DATE", "Ä": "DATE"}}, ["id", "a", "s", "l", "ä", "Ä"]),
    ],
)
def test_name_that_is_free_when_it_is_used_is_accepted(changes: dict[str, Any], columns: list[str], lake: Lake) -> None:
    table = lake.create_table("t", TYPES)
    table.evolve(**changes)
    assert [*table.schema] == columns


TWO_HOURS = dt.timezone(dt.timedelta(hours=2))


def test_constant_has_its_type() -> None:
    assert constant(None, "DATE") == "NULL"
    assert constant("it's", "VARCHAR") == "CAST('it''s' AS VARCHAR)"
    assert constant(dt.date(2026, 1, 31), "DATE") == "CAST('2026-01-31' AS DATE)"
    with pytest.raises(SchemaError, match=r"the value contains \{SNAPSHOT_ID\}"):
        constant("{SNAPSHOT_ID}", "VARCHAR")


@pytest.mark.parametrize(
    ("value", "type_name", "expected"),
    [
        (b"\x00a'\xff", "BLOB", b"\x00a'\xff"),
        (["a", None, "it's, b", ""], "VARCHAR[]", ["a", None, "it's, b", ""]),
        ([[1], None], "INTEGER[][]", [[1], None]),
        ({"A": None}, "STRUCT(a VARCHAR, b INTEGER)", {"a": None, "b": None}),
        ({"a": 1, "b": None}, "MAP(VARCHAR, INTEGER)", {"a": 1, "b": None}),
        (dt.timedelta(hours=1, milliseconds=5), "INTERVAL", dt.timedelta(hours=1, milliseconds=5)),
        (dt.datetime(2026, 1, 1, 5), "TIMESTAMP_S", dt.datetime(2026, 1, 1, 5)),
        (Decimal("1.500"), "DECIMAL(10, 2)", Decimal("1.50")),
        (10**35, "DECIMAL(38, 2)", Decimal(10**35)),
        (1.0, "BIGINT", 1),
        (0.5, "FLOAT", 0.5),
        (float("inf"), "FLOAT", float("inf")),
        (2**53, "HUGEINT", 2**53),
        (7, "VARIANT", 7),
        (True, "BOOLEAN", True),
        ("[1, 2]", "INTEGER[]", [1, 2]),
    ],
)
def test_constant_is_the_value(value: object, type_name: str, expected: object) -> None:
    with duckdb.default_connection().cursor() as cursor:
        assert cursor.execute(f"SELECT {constant(value, type_name)}").fetchone() == (expected,)


@pytest.mark.parametrize(
    ("value", "type_name"),
    [
        (2**53 + 1, "HUGEINT"),
        (10**30 + 1, "HUGEINT"),
        (2**53 + 1, "DOUBLE"),
        (1e300, "FLOAT"),
        ("1e400", "DOUBLE"),
        (1.6, "TINYINT"),
        ("1.6", "BIGINT"),
        (Decimal("1.005"), "DECIMAL(10, 2)"),
        (b"a", "VARCHAR"),
        (dt.datetime(2026, 1, 1, 5), "DATE"),
        ("2026-01-01 05:00:00", "DATE"),
        (dt.datetime(2026, 1, 1, 5, tzinfo=TWO_HOURS), "TIMESTAMP"),
        ("2026-01-01 05:00:00+02", "TIMESTAMP"),
        (dt.datetime(2026, 1, 1, 5), "TIMESTAMPTZ"),
        (dt.datetime(2026, 1, 1, 5), "TIME"),
        (dt.time(5, tzinfo=TWO_HOURS), "TIME"),
        (dt.datetime(2026, 1, 1, 5, 0, 0, 5), "TIMESTAMP_MS"),
        ("05:00:00.1234567", "TIME"),
        (dt.timedelta(microseconds=1), "INTERVAL"),
        (dt.timedelta(days=50), "INTERVAL"),
        ("3000 hours", "INTERVAL"),
        ([None], "VARCHAR"),
        ({"a": 1}, "JSON"),
        ({"c": 1}, "STRUCT(a INTEGER)"),
        (np.array(["a", "b"]), "VARCHAR[]"),
        ([1.6], "INTEGER[]"),
    ],
)
def test_value_that_its_column_would_change_is_refused(value: object, type_name: str) -> None:
    with pytest.raises(SchemaError, match=r"cannot hold .* exactly"):
        constant(value, type_name)
