"""Values in structs that the catalog would lose, if DuckLake put their rows into it instead of a file.

A catalog in DuckDB stores structs as they are, others as text. For a value in a struct, DuckLake writes SQL such as
`CAST('2024-01-31' AS DATE)` into the text, which nobody reads as SQL: quotes disappear, and most types cannot be read
(https://github.com/duckdb/ducklake/issues/1435). The elements of lists and maps are written as text, except for JSON.
"""

from __future__ import annotations

from collections.abc import Iterator

from duckdb.sqltypes import DuckDBPyType

from lakeconf.catalog.column_types import fields_of, parsed_type
from lakeconf.catalog.reader import CatalogReader
from lakeconf.connection.connection import Connection
from lakeconf.errors import UnsupportedError
from lakeconf.sql import folded, identifier, literal, qualified

# The catalogs whose types are those of DuckDB.
_LIKE_DUCKDB = ("duckdb", "motherduck")
# The name of the file of rows that a transaction adds to the catalog.
_ADDED = "__ducklake_inlined_transaction_local_data"
# What DuckLake writes without a CAST, or in a form that can be read.
_SAFE = ("boolean", "decimal")


def check_structs(writer: Connection, reader: CatalogReader, table: tuple[str, str], *, is_new: bool) -> None:
    """Rejects values that a statement has added to the catalog, inside the transaction of its commit.

    Args:
        writer: The connection of the transaction.
        reader: Reads the catalog.
        table: The schema and the name of the table.
        is_new: True if the transaction has created the table.
    """
    if reader.catalog_type in _LIKE_DUCKDB:
        return
    name = qualified(reader.alias, *table)
    types = {str(column): parsed_type(str(text)) for column, text, *_ in writer.rows(f"DESCRIBE {name}")}
    lost = {column: list(_lost(identifier(column), kind)) for column, kind in types.items()}
    conditions = {column: " OR ".join(found) for column, found in lost.items() if found}
    if not conditions:
        return
    # A column of this name hides whether a row is in the catalog.
    added = "true" if "filename" in map(folded, types) else f"filename = {literal(_ADDED)}"
    counts = ", ".join(f"count(*) FILTER ({condition})" for condition in conditions.values())
    limit = "'data_inlining_row_limit', 0"
    if not is_new:
        limit += f", schema => {literal(table[0])}, table_name => {literal(table[1])}"
    (found,) = writer.rows(f"SELECT {counts} FROM {name} WHERE {added}")
    for column, count in zip(conditions, found, strict=True):
        if count:
            raise UnsupportedError(
                f"DuckLake would put rows of {'.'.join(table)} into the catalog, which loses values in the structs of "
                f"the column {column!r}: nothing was written",
                hint="keep its rows in files, with DuckDB, and open the lake again: "
                f"CALL {identifier(reader.alias)}.set_option({limit})",
            )


def _lost(value: str, kind: DuckDBPyType, *, in_struct: bool = False) -> Iterator[str]:
    """The conditions for values that the catalog would lose."""
    if kind.id == "struct":
        for name, field in fields_of(kind).items():
            yield from _lost(f"{value}.{identifier(name)}", field, in_struct=True)
    elif kind.id in ("list", "array", "map"):
        if _holds_json(kind):
            yield f"{value} IS NOT NULL"
    elif not in_struct or "int" in kind.id or kind.id in _SAFE:
        return
    elif kind.id in ("float", "double"):
        yield f"NOT isfinite({value})"
    elif kind.id == "varchar":
        yield f"contains({value}, '''') OR contains({value}, '\\')"
    else:
        yield f"{value} IS NOT NULL"


def _holds_json(kind: DuckDBPyType) -> bool:
    return str(kind) == "JSON" or any(map(_holds_json, fields_of(kind).values()))
