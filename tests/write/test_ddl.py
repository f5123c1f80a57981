"""The SQL of definitions and changes of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from catalog_lake import lake

from lakeconf.catalog.tables import NO_ID, load_table
from lakeconf.errors import SchemaError
from lakeconf.write.ddl import Definition, new_table, type_sql
from lakeconf.write.operations.evolve import Evolution, evolution_for

if TYPE_CHECKING:
    from pathlib import Path


COLUMNS = {"id": "bigint not  null", "At": "TIMESTAMP", 'o"dd, name': "VARCHAR"}


def defined(**options: Any) -> tuple[str, ...]:
    return Definition(COLUMNS, **options).statements('"dev"."raw"', '"dev"."raw"."events"')


@pytest.mark.parametrize("transform", ["year", "month", "day", "hour"])
@pytest.mark.parametrize(
    "column",
    [
        *("DATE", "TIMESTAMP NOT NULL", "TIMESTAMP_S", "TIMESTAMP_NS", "TIMESTAMPTZ", "TIME", "INTEGER", "VARCHAR"),
        "DATE[]",
    ],
)
def test_transform_fits_the_types_for_which_duckdb_has_its_function(transform: str, column: str) -> None:
    definition = Definition({"a": column}, [f"{transform}(a)"])
    try:
        duckdb.sql(f"SELECT {transform}(CAST(NULL AS {column.removesuffix(' NOT NULL')}))")
    except duckdb.Error:
        with pytest.raises(SchemaError, match=r"is for dates and times, but the column is") as refused:
            definition.statements("s", "t")
        assert refused.value.hint == "use the column itself as the key, or bucket(16, a)"
    else:
        assert definition.statements("s", "t")[-1] == f'ALTER TABLE t SET PARTITIONED BY ({transform}("a"))'


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"partitioned_by": ["idd"]}, "the partition key 'idd' names an unknown column: 'idd'", 'did you mean "id"?'),
        (
            {"partitioned_by": ["year(x)"]},
            "the partition key 'year(x)' names an unknown column: 'x'",
            "use one of the columns: ",
        ),
        ({"partitioned_by": ["week(at)"]}, "the partition key 'week(at)' names an unknown column: 'week(at)'", None),
        (
            {"sorted_by": ["x desc"]},
            "the sort key 'x desc' names an unknown column: 'x'",
            "use one of the columns: id, At",
        ),
        (
            {"column_comments": {"x": ""}},
            "a comment describes an unknown column: 'x'",
            "use one of the columns: id, At",
        ),
    ],
)
def test_unknown_column_in_a_definition_is_refused(options: dict[str, Any], message: str, hint: str | None) -> None:
    with pytest.raises(SchemaError) as refused:
        defined(**options)
    assert refused.value.message == message
    assert (refused.value.hint or "").startswith(hint or "")


def test_ducklake_creates_what_the_definition_says(tmp_path: Path) -> None:
    definition = Definition(
        {**COLUMNS, "s": "STRUCT(a INTEGER, b VARCHAR[])"}, ["bucket(4, id)", "day(at)"], ["id DESC"], "a", {"at": "b"}
    )
    with lake("duckdb", tmp_path) as source:
        source.run(*definition.statements('lake."raw"', 'lake."raw"."events"'))
        made = load_table(source.reader, "raw.events", source.newest)
        described = [(name, text, null == "YES") for name, text, null, *_ in source.rows("DESCRIBE lake.raw.events")]
    ours = new_table("raw", "events", made.path, described, definition.partitioned_by)
    assert ours.columns == made.columns
    assert (ours.table_id, ours.partition_id, made.table_id != NO_ID) == (NO_ID, 0, True)
    assert ours.partition_fields == made.partition_fields


@pytest.mark.parametrize(
    "text", ["", "x", "INTEGER DEFAULT 1", "INTEGER, b DATE", "INTEGER NOT NULL", "INTEGER); DROP", "1"]
)
def test_other_text_is_no_type(text: str) -> None:
    with pytest.raises(SchemaError) as refused:
        type_sql("c", text)
    assert refused.value.message.startswith(f"the column 'c' has an invalid type {text!r}: ")


@pytest.mark.parametrize("text", ['"NULL"', '"NULL"[]', 'STRUCT(a "NULL")'])
def test_type_of_nulls_only_is_refused(text: str) -> None:
    with pytest.raises(SchemaError, match="the column 'c' contains only NULLs, so its type is unknown") as refused:
        type_sql("c", text)
    assert refused.value.hint == "cast the column"


@pytest.mark.parametrize("type_name", ["TIME_NS", "STRUCT(a TIME_NS[])", "MAP(INTEGER, TIME_NS)"])
def test_type_that_ducklake_accepts_but_cannot_write_is_refused(type_name: str) -> None:
    with pytest.raises(SchemaError, match="files cannot store the column 't'"):
        Definition({"t": type_name}).statements("lake.s", "lake.s.t")
    with pytest.raises(SchemaError, match="files cannot store the column 't'"):
        Evolution(add={"t": type_name}).statements("lake.s.t", {})


def test_names_that_differ_only_in_letters_beyond_ascii_are_different_columns(tmp_path: Path) -> None:
    kelvin = "\N{KELVIN SIGN}"
    columns = {"k": "VARCHAR", kelvin: "VARCHAR"}
    definition = Definition(columns, ["k"], ["k"], None, {"k": "of k"})
    with lake("duckdb", tmp_path) as source:
        source.run(*definition.statements("lake.s", "lake.s.t"))
        made = load_table(source.reader, "s.t", source.newest)
    assert [field.field_id for field in made.partition_fields] == [made.columns[0].field_id]
    assert (
        new_table("s", "t", "/", [("k", "DATE", True), (kelvin, "DATE", True)], ["k"]).partition_fields[0].field_id == 1
    )
    assert evolution_for({"k": "BIGINT", kelvin: "DATE"}, {"k": "INTEGER", kelvin: "DATE"}).promote == {'"k"': "BIGINT"}


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
        (Evolution(rename={"s": 1}), "the column name 1 is not a string"),  # type: ignore[dict-item]
        (Evolution(rename={1: "s"}), "1 is not the name of a column"),  # type: ignore[dict-item]
        (Evolution(add={"n": int}), "the type of the column 'n' is not a string: <class 'int'>"),  # type: ignore[dict-item]
        (Evolution(promote={"Ids": None}), "the type of the column 'Ids' is not a string: None"),  # type: ignore[dict-item]
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


def test_evolution_for_a_frame_adds_and_widens() -> None:
    types = {"Id": "INTEGER", "at": "TIMESTAMP", "text": "VARCHAR", "o.dd": "FLOAT"}
    frame = {"ID": "BIGINT", "at": "DATE", "text": "INTEGER", "new.one": "DATE", "o.dd": "DOUBLE"}
    found = evolution_for(frame, types)
    assert found == Evolution(add={'"new.one"': "DATE"}, promote={'"Id"': "BIGINT", '"o.dd"': "DOUBLE"})
    assert changed(found, **types)[-1] == 'ADD COLUMN "new.one" DATE'
    assert evolution_for({"id": "INTEGER"}, types) == Evolution()


@pytest.mark.parametrize(
    ("column", "new"),
    [
        *(("b", "DOUBLE"), ("b", "HUGEINT"), ("t", "TIMESTAMPTZ")),
        *(("s.b", "DOUBLE"), ("i", "FLOAT"), ("u", "HUGEINT")),
    ],
)
def test_promotion_that_would_change_existing_values_is_refused(column: str, new: str) -> None:
    types = {"b": "BIGINT", "t": "TIMESTAMP", "s": "STRUCT(b BIGINT)", "i": "INTEGER", "u": "UBIGINT"}
    with pytest.raises(SchemaError, match="cannot hold all values"):
        Evolution(promote={column: new}).statements("lake.t", types)


def test_the_text_null_is_no_default() -> None:
    with pytest.raises(SchemaError, match="DuckLake would store as a NULL in new rows"):
        Evolution(add={"s": "VARCHAR"}, defaults={"s": "NULL"}).statements("t", {"id": "INTEGER"})
