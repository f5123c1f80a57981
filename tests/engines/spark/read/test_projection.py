"""DuckDB's SQL for the columns of one file returns what the table has."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from lakeconf.catalog.data_file import DataFile
from lakeconf.catalog.table import Column
from lakeconf.catalog.types import columns_of
from lakeconf.engines.spark.read.column_reader import Found
from lakeconf.engines.spark.read.executor_code import POSITION
from lakeconf.engines.spark.read.fallback import by_id_source, column_sql, constant_sql, row_id_sql, snapshot_sql

FILE = DataFile(1, "/f.parquet", 10, 100, row_id_start=40, begin_snapshot=7)


def column(type_name: str, default: str | None = None) -> Column:
    return Column(1, 'a"b', type_name, nullable=True, initial_default=default)


def evaluated(sql: str, source: str = "") -> tuple[Any, str]:
    """The value of an expression and its type."""
    with duckdb.default_connection().cursor() as con:
        con.execute("SET TimeZone = 'UTC'")
        row = con.execute(f"SELECT CAST(x AS VARCHAR), typeof(x) FROM (SELECT {sql} AS x {source})").fetchone()
    assert row is not None
    return row[0], row[1]


@pytest.mark.parametrize(
    ("type_name", "text", "value", "duckdb_type"),
    [
        ("int32", "7", "7", "INTEGER"),
        ("varchar", "it's", "it's", "VARCHAR"),
        ("json", "not json", "not json", "VARCHAR"),
        ("decimal(5,2)", "1.5", "1.50", "DECIMAL(5,2)"),
        ("timestamp_ns", "2024-01-01 00:00:00.000000001", "2024-01-01 00:00:00.000000001", "TIMESTAMP_NS"),
        ("date", None, None, "DATE"),
    ],
)
def test_constant_has_the_type_of_its_column(type_name: str, text: str | None, value: str, duckdb_type: str) -> None:
    assert evaluated(constant_sql(text, column(type_name))) == (value, duckdb_type)


def place(stored: Column, name: str) -> Found:
    """The location of a column that the file has under another name, with the same fields."""
    return Found(name, None, stored.type, tuple(place(child, child.name) for child in stored.children))


def test_column_is_cast_to_its_type_in_the_table() -> None:
    assert evaluated(column_sql(column("int64"), Found('q"', None, "int32")), 'FROM (SELECT 7 AS "q""")') == (
        "7",
        "BIGINT",
    )


NESTED = [
    ("STRUCT(a BIGINT, b VARCHAR)", "{'A x': 1, 'y': 'q'}", "{'a': 1, 'b': q}"),
    ("STRUCT(a BIGINT, b VARCHAR)[]", "[{'A x': 1, 'y': 'q'}, NULL]", "[{'a': 1, 'b': q}, NULL]"),
    ("MAP(VARCHAR, STRUCT(a BIGINT, b VARCHAR))", "MAP {'k': {'A x': 1, 'y': 'q'}}", "{k={'a': 1, 'b': q}}"),
    ("STRUCT(a BIGINT, b VARCHAR)[][]", "[[{'A x': 1, 'y': 'q'}], []]", "[[{'a': 1, 'b': q}], []]"),
    ("MAP(VARCHAR, STRUCT(a BIGINT, b VARCHAR)[])", "MAP {'k': [{'A x': 1, 'y': 'q'}]}", "{k=[{'a': 1, 'b': q}]}"),
]


def renamed(stored: Column) -> Found:
    """The location, if the file has other names for the fields of structs."""
    names = {"a": "A x", "b": "y"}
    return Found(names.get(stored.name, stored.name), None, stored.type, tuple(map(renamed, stored.children)))


@pytest.mark.parametrize(("type_name", "stored", "value"), NESTED)
def test_fields_are_renamed_at_any_depth(type_name: str, stored: str, value: str) -> None:
    (wanted,) = columns_of({"x": type_name})
    assert evaluated(column_sql(wanted, renamed(wanted)), f"FROM (SELECT {stored} AS x)") == (value, type_name)
    null = f"FROM (SELECT CASE WHEN false THEN {stored} END AS x)"
    assert evaluated(column_sql(wanted, renamed(wanted)), null) == (None, type_name)


def test_missing_field_of_a_struct_has_its_default() -> None:
    (wanted,) = columns_of({"x": "STRUCT(a BIGINT, b VARCHAR)"})
    fields = wanted.children
    filled = Column(1, "x", "struct", True, None, (fields[0], Column(3, "b", "varchar", True, "d x")))  # noqa: FBT003
    found = Found("x", None, "struct", (Found("a", None, "int64"), None))
    assert evaluated(column_sql(filled, found), "FROM (SELECT {'a': 1} AS x)")[0] == "{'a': 1, 'b': d x}"
    assert evaluated(column_sql(wanted, found), "FROM (SELECT {'a': 1} AS x)")[0] == "{'a': 1, 'b': NULL}"


def test_list_or_map_without_its_elements_is_null() -> None:
    elements, entries = columns_of({"l": "INTEGER[]", "m": "MAP(INTEGER, INTEGER)"})
    assert evaluated(column_sql(elements, Found("l", None, "list", (None,))), "FROM (SELECT [1] AS l)")[0] is None
    partly = Found("m", None, "map", (Found("key", None, "int32"), None))
    assert evaluated(column_sql(entries, partly), "FROM (SELECT MAP {1: 2} AS m)")[0] is None


def test_source_of_an_encrypted_file_maps_field_ids_to_columns() -> None:
    columns = [Column(3, "it's", "int64", True, "5"), Column(4, "t", "varchar", True, None)]  # noqa: FBT003
    assert by_id_source(columns) == (
        "read_parquet(?, encryption_config = {footer_key_value: from_base64(?)}, schema = MAP {"
        "3: {'name': 'it''s', 'type': 'BIGINT', 'default_value': '5'}, "
        "4: {'name': 't', 'type': 'VARCHAR', 'default_value': NULL}, "
        "2147483540: {'name': '_ducklake_internal_row_id', 'type': 'BIGINT', 'default_value': NULL}, "
        "2147483539: {'name': '_ducklake_internal_snapshot_id', 'type': 'BIGINT', 'default_value': NULL}})"
    )


def test_row_id_is_stored_or_computed_from_the_position() -> None:
    source = f'FROM (SELECT 2::UTINYINT AS "{POSITION}", NULL::INTEGER AS none, 9 AS "s""")'
    assert evaluated(row_id_sql(FILE, None), source) == ("42", "BIGINT")
    assert evaluated(row_id_sql(FILE, 's"'), source) == ("9", "BIGINT")
    assert evaluated(row_id_sql(FILE, "none"), source) == ("42", "BIGINT")
    stored_only = DataFile(1, "/f.parquet", 10, 100, row_id_start=None, begin_snapshot=7)
    assert evaluated(row_id_sql(stored_only, 's"'), source) == ("9", "BIGINT")
    assert evaluated(row_id_sql(stored_only, None), source) == (None, "BIGINT")


def test_snapshot_is_stored_or_that_of_the_file() -> None:
    source = "FROM (SELECT NULL::INTEGER AS none, 9 AS s)"
    assert evaluated(snapshot_sql(FILE, None), source) == ("7", "BIGINT")
    assert evaluated(snapshot_sql(FILE, "s"), source) == ("9", "BIGINT")
    assert evaluated(snapshot_sql(FILE, "none"), source) == ("7", "BIGINT")
