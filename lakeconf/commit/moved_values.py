"""Compares rows before and after a statement: rows of the catalog, rows that are being added, and NULLs.

Files hold some types inexactly: 128-bit integers as DOUBLE, intervals in milliseconds, times without their offset. Rows
in files have lost this part already. Rows in the catalog have not, so whatever moves them compares their values first.

A catalog in DuckDB stores structs as they are, others as text. For a value in a struct, DuckLake writes SQL such as
`CAST('2024-01-31' AS DATE)` into the text, which nobody reads as SQL: quotes disappear, and most types cannot be read
(https://github.com/duckdb/ducklake/issues/1435). The elements of lists and maps are written as text, except for JSON.

See `AddedRows`, `has_added` and `RequiredValues` for the others.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from duckdb.sqltypes import DuckDBPyType

from lakeconf.catalog.column_types import NESTED, TYPES, Fact, fields_of, names_with, parsed_type, sql_type
from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.catalog.tables import Column, TableInfo, split_name, tables
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import visible_at
from lakeconf.engines.lossless import changed_by_files, is_stored_inexactly
from lakeconf.errors import LakeconfError, SchemaError, UnsupportedError
from lakeconf.sql import folded, identifier, literal, qualified

_EXACT = sorted(TYPES.keys() - names_with(Fact.INEXACT))
# Nested fields have rows of their own.
_TABLES = f"""
    SELECT DISTINCT i.table_id, i.table_name FROM ducklake_inlined_data_tables AS i
    JOIN ducklake_column AS c ON c.table_id = i.table_id
    WHERE c.column_type NOT IN ({", ".join(map(literal, (*_EXACT, *NESTED)))})
    AND c.column_type NOT LIKE 'decimal(%'
"""
_WITH_ROW_IDS = """
    SELECT DISTINCT i.table_id AS table_id, i.table_name AS table_name FROM ducklake_inlined_data_tables AS i
    JOIN ducklake_column AS c ON c.table_id = i.table_id
    WHERE lower(c.column_name) = 'rowid' AND c.parent_column IS NULL
"""
# DuckLake numbers the rows that a transaction adds from here on, until its commit.
_FIRST_OWN_ID = 10**18
# The catalogs whose types are those of DuckDB.
_LIKE_DUCKDB = ("duckdb", "motherduck")
# The name of the file of rows that a transaction adds to the catalog.
_ADDED = "__ducklake_inlined_transaction_local_data"
# What DuckLake writes without a CAST, or in a form that can be read.
_SAFE = ("boolean", "decimal")
_HINT = "read the rows, and write them to a new table with a type that files hold, such as DECIMAL(38, 0) or VARCHAR"


class ValuesChangedError(UnsupportedError):
    """Values in the catalog would change in a file; nothing was written."""


def inexact_types(types: Mapping[str, str], without: Iterable[str] = ()) -> dict[str, str]:
    """The columns whose values files may change, with their types."""
    left_out = set(map(folded, without))
    return {
        name: text
        for name, text in types.items()
        if folded(name) not in left_out and is_stored_inexactly(parsed_type(text))
    }


class MovedRows:
    """The rows in the catalog that an update of other columns must not move, inside the transaction of its commit."""

    def __init__(self, writer: Connection, alias: str, table: str, types: Mapping[str, str]) -> None:
        self._writer, self._full_name, self._table = writer, table, qualified(alias, *split_name(table))
        self._values = ", ".join(f"CAST({identifier(name)} AS VARCHAR)" for name in types)
        self._columns = ", ".join(types)
        names = _names(writer, self._table)
        # A column of this name hides the id of the row, so that no row can be found again.
        self._hidden = "rowid" in names
        self._rows = dict(self._found(f"{_in_catalog(names)} AND ({_changed(types)})"))

    def check(self) -> None:
        """Compares the rows that are left."""
        if not self._rows:
            return
        if self._hidden:
            raise self._error()
        try:
            now = dict(self._found(f"rowid IN ({', '.join(map(str, self._rows))})"))
        except LakeconfError as error:  # a file holds a number that its type does not
            raise self._error() from error
        if any(self._rows[row_id] != values for row_id, values in now.items()):
            raise self._error()

    def _found(self, where: str) -> Iterator[tuple[int, tuple[str | None, ...]]]:
        rows = self._writer.rows(f"SELECT rowid, {self._values} FROM {self._table} WHERE {where}")
        return ((row_id, tuple(values)) for row_id, *values in rows)

    def _error(self) -> ValuesChangedError:
        return ValuesChangedError(
            f"the rows of {self._full_name} in the catalog have values in {self._columns} that files cannot hold, and "
            "the update would move these rows to files: nothing was written",
            hint=f"set these columns too; or {_HINT}",
        )


class AddedRows:
    """The rows that a transaction has added to a table before a statement that deletes or updates rows.

    If it changes them, DuckLake records deletes and updates of rows that no snapshot has, and gives them ids that other
    rows get, too.
    """

    def __init__(self, writer: Connection, alias: str, table: str) -> None:
        self._writer, self._full_name, self._table = writer, table, qualified(alias, *split_name(table))
        self._hidden = not _names(writer, self._table).isdisjoint(("rowid", "filename"))
        self._rows = self._counted()

    def check(self) -> None:
        """Raises an error if some of them have changed."""
        if self._hidden:
            raise UnsupportedError(
                f"the transaction may delete or update rows of {self._full_name} that it has added before, and a "
                "column named rowid or filename hides which: nothing was written",
                hint="commit before this change, or rename the column: table.evolve(rename={…: …})",
            )
        now = self._counted()
        if any(now.get(name) != count for name, count in self._rows.items()):
            raise UnsupportedError(
                f"the transaction deletes or updates rows of {self._full_name} that it has added before: nothing was "
                "written",
                hint="commit the added rows first, or add them as they should be in the end",
            )

    def _counted(self) -> dict[str, int]:
        if self._hidden:
            return {}
        query = f"SELECT filename, count(*) FROM {self._table} WHERE rowid >= {_FIRST_OWN_ID} GROUP BY ALL"
        # DuckLake changes rows that are bound for the catalog in place.
        return {name: count for name, count in self._writer.rows(query) if not name.startswith("__ducklake_inlined")}


def has_added(writer: Connection, alias: str, table: str) -> bool:
    """True if a transaction has added rows of a table that its commit puts into the catalog.

    If it then adds a column with fields or elements, and more rows, DuckLake has no statistics for the column of the
    first ones: the commit fails, and DuckDB ends the process when it closes the lake.
    """
    name = qualified(alias, *split_name(table))
    # A column of this name hides whether a row is in the catalog.
    added = "true" if "filename" in _names(writer, name) else f"filename = {literal(_ADDED)}"
    return bool(writer.rows(f"SELECT 1 FROM {name} WHERE {added} LIMIT 1"))


def unchecked_columns(columns: Iterable[Column], names: Collection[str] | None = None) -> tuple[str, ...]:
    """The columns, only those with these names in lower case, of which DuckLake does not check that they are NOT NULL.

    It only checks columns without fields and elements (https://github.com/duckdb/ducklake/issues/1001).
    """
    return tuple(
        column.name
        for column in columns
        if column.children and not column.nullable and (names is None or folded(column.name) in names)
    )


class RequiredValues:
    """The values of NOT NULL columns before a statement, inside the transaction of its commit."""

    def __init__(self, writer: Connection, alias: str, table: str, columns: Sequence[str]) -> None:
        self._writer, self._full_name, self._table = writer, table, qualified(alias, *split_name(table))
        self._columns = columns
        self._nulls = self._counted()

    def check(self) -> None:
        """Raises an error if there are more NULLs: other writers may have written some."""
        for name, now, before in zip(self._columns, self._counted(), self._nulls, strict=True):
            if now > before:
                raise SchemaError(
                    f"the column {name!r} of {self._full_name} is NOT NULL, but the statement writes a NULL there: "
                    "nothing was written",
                    hint="replace the NULL, or drop NOT NULL from the table",
                )

    def _counted(self) -> tuple[int, ...]:
        counts = ", ".join(f"count(*) FILTER ({identifier(name)} IS NULL)" for name in self._columns)
        (nulls,) = self._writer.rows(f"SELECT {counts} FROM {self._table}")
        return nulls


def _names(writer: Connection, table: str) -> set[str]:
    return {folded(name) for name, *_ in writer.rows(f"DESCRIBE {table}")}


def check_row_ids_in_catalog(reader: CatalogReader, deleted_from: Mapping[int, str], snapshot_id: int) -> None:
    """Rejects deletes of rows in a SQLite catalog that have a column `rowid`.

    DuckDB finds a row of SQLite by its `rowid`. If it is the column, DuckLake ends all rows with the same value in it,
    also those of the next transaction.
    """
    with reader.transaction() as transaction:
        if transaction.own_query is None:  # it is not a catalog in SQLite
            return
        query = f"{_WITH_ROW_IDS} AND i.table_id IN ({', '.join(map(str, deleted_from))})"
        for table_id, name in transaction.own_rows(query, "table_id BIGINT, table_name VARCHAR"):
            rows = f"SELECT 1 AS found FROM {identifier(name)} WHERE {visible_at()} LIMIT 1"
            if transaction.own_rows(rows, "found BIGINT", [snapshot_id]):
                raise UnsupportedError(
                    f"{deleted_from[table_id]} has rows in the catalog and a column named rowid: DuckLake would also "
                    "delete other rows with the same value in it, so nothing was written",
                    hint="move the rows to files: lake.maintenance.compact()",
                )


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
    conditions = {column: " OR ".join(parts) for column, parts in lost.items() if parts}
    if not conditions:
        return
    # A column of this name hides whether a row is in the catalog.
    added = "true" if "filename" in map(folded, types) else f"filename = {literal(_ADDED)}"
    counts = ", ".join(f"count(*) FILTER ({condition})" for condition in conditions.values())
    limit = "'data_inlining_row_limit', 0"
    if not is_new:
        limit += f", schema => {literal(table[0])}, table_name => {literal(table[1])}"
    (numbers,) = writer.rows(f"SELECT {counts} FROM {name} WHERE {added}")
    for column, count in zip(conditions, numbers, strict=True):
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


def check_flushed(writer: Connection, reader: CatalogReader, alias: str, flushed: Iterable[int]) -> None:
    """Checks that files hold all rows of the catalog that a flush moves, at each snapshot that can be read."""
    table_ids = set(flushed)
    with reader.transaction() as transaction:
        inlined = [(table_id, name) for table_id, name in transaction.rows(_TABLES) if table_id in table_ids]
        versions = sorted({(version, id_) for id_, name in inlined for version in _versions(transaction, name)})
    for version, table_id in versions:
        for info in tables(reader, version):
            if info.table_id == table_id and not _is_held(writer, alias, info, version):
                raise ValuesChangedError(
                    f"{info.full_name} has values in the catalog that files cannot hold, so its rows stay there",
                    hint=_HINT,
                )


def _is_held(writer: Connection, alias: str, info: TableInfo, version: int) -> bool:
    """True if files hold the values of the rows that are in the catalog at a snapshot."""
    try:
        types = inexact_types({column.name: sql_type(column) for column in info.columns})
    except UnsupportedError:  # a type that DuckDB cannot even write, such as TIME_NS
        return False
    if not types:
        return True
    table = f"{qualified(alias, info.schema_name, info.name)} AT (VERSION => {version})"
    in_catalog = _in_catalog({folded(column.name) for column in info.columns})
    return not writer.rows(f"SELECT 1 FROM {table} WHERE {in_catalog} AND ({_changed(types)}) LIMIT 1")


def _in_catalog(names: Collection[str]) -> str:
    """The condition for rows in the catalog; for all rows if a column hides the name of the file."""
    return "true" if "filename" in names else "starts_with(filename, 'ducklake_inlined_data_')"


def _changed(types: Mapping[str, str]) -> str:
    return " OR ".join(changed_by_files(name, text) for name, text in types.items())


def _versions(transaction: MetadataTransaction, inlined: str) -> set[int]:
    """Few snapshots, such that each row of a table of the catalog is visible at one of them, if it is at any."""
    kept = [version for (version,) in transaction.rows("SELECT snapshot_id FROM ducklake_snapshot ORDER BY 1")]
    spans = transaction.rows(f"SELECT DISTINCT begin_snapshot, end_snapshot FROM {identifier(inlined)}")
    chosen, last = set[int](), -1
    for end, begin in sorted((kept[-1] + 1 if end is None else end, begin) for begin, end in spans):
        if last < begin:
            newest = kept[bisect_left(kept, end) - 1]
            if begin <= newest < end:
                chosen.add(last := newest)
    return chosen
