"""Runs a query over the tables of several lakes on DuckDB."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import duckdb
import narwhals as nw
from duckdb.sqltypes import DuckDBPyType
from sqlglot import exp

from lakeconf.catalog.only_reads import check_only_reads
from lakeconf.catalog.stored_queries import prepare_query
from lakeconf.catalog.table_name import full_name
from lakeconf.commit.scope import Scope
from lakeconf.engines.duckdb import DuckDBEngine
from lakeconf.errors import UnsupportedError, required
from lakeconf.lake.query_names import NamedTable, QueryText
from lakeconf.sql import folded, identifier

# Types that change on the way between two instances of DuckDB, but can be cast back.
_CAST_BACK = frozenset({"UUID", "HUGEINT", "UHUGEINT", "JSON"})
# Functions that read tables that they name in text.
_LATEST = ("query", "query_table")
_NESTED = frozenset({"list", "map", "struct"})


def sql_on_duckdb(scope: Scope, query: str, lakes: Mapping[str, Scope]) -> nw.LazyFrame[Any]:
    """Runs a query on DuckDB, at the snapshots of the lakes. The tables of other lakes are copied to memory.

    Args:
        scope: The lake.
        query: A query in DuckDB's SQL.
        lakes: The lakes that it can name, by `named_lakes`.

    Raises:
        QueryError: The text is not a single query, or DuckDB rejects it.
        TableNotFoundError: A table does not exist.
        SnapshotNotFoundError: A snapshot of `AT` does not exist.
        UnsupportedError: A view is named, or a table of another lake has a type that cannot be copied exactly.
    """
    reader = scope.session.reader
    text = QueryText.parsed(query, "duckdb", "name only tables of these lakes")
    for function in text.tree.find_all(exp.Anonymous):
        if folded(function.name) in _LATEST:
            raise UnsupportedError(
                f"{function.name}() reads the latest snapshot, and not that of the query", hint="name the table instead"
            )
    views = [(table, f"lakeconf_table_{uuid.uuid4().hex}") for table in text.tables(lakes)]
    frames = {view: _rows(scope, table) for table, view in views}
    sql = text.reading(views)
    prepare_query(reader, sql, frames=frames)
    check_only_reads(reader.connection, sql)
    return DuckDBEngine(reader, scope.session.writer).query(sql, frames)


def _rows(scope: Scope, table: NamedTable) -> duckdb.DuckDBPyRelation:
    """The rows of a table as a relation of the lake's connection; those of another lake are copied."""
    session = table.scope.session
    table.scope.add_read(full_name(table.name))
    engine = DuckDBEngine(session.reader, session.writer)
    found: duckdb.DuckDBPyRelation = engine.scan(table.name, table.scope.snapshot_id).to_native()
    if session is scope.session:
        return found
    types = dict(zip(found.columns, found.types, strict=True))
    # Here, errors show no secret of the other lake.
    needed = required("pyarrow", extra="arrow", needed_for="a query over several lakes on DuckDB")
    with needed, session.reader.connection.errors():
        rows = found.to_arrow_table()
    copy = scope.session.reader.connection.from_arrow(rows)
    for (name, wanted), got in zip(types.items(), copy.types, strict=True):
        if not _is_exact(wanted, got):
            raise UnsupportedError(
                f"the column {name!r} of {session.alias}.{table.name} cannot be copied to another lake: "
                f"its type is {wanted}",
                hint="run the query without this table, or cast the column in a table of its own lake",
            )
    casts = (f"CAST({identifier(name)} AS {wanted}) AS {identifier(name)}" for name, wanted in types.items())
    with scope.session.reader.connection.errors():
        return copy.project(", ".join(casts))


def _is_exact(wanted: DuckDBPyType, got: DuckDBPyType) -> bool:
    """True if values of a type, converted to Arrow and back, are equal after a cast."""
    if str(wanted) == str(got) or str(wanted) in _CAST_BACK:
        return True
    if wanted.id not in _NESTED or wanted.id != got.id:
        return False
    pairs = zip(wanted.children, got.children, strict=True)
    return all(
        name == other and isinstance(one, DuckDBPyType) and isinstance(two, DuckDBPyType) and _is_exact(one, two)
        for (name, one), (other, two) in pairs
    )
