"""Compares two tables of the same name in different stores with DuckDB."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeconf.catalog.column_types import parsed_type
from lakeconf.catalog.inherited import check_sources, inherited_tables, source_of
from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.tables import split_name
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import PARENT
from lakeconf.engines.schema_check import fits
from lakeconf.errors import QueryError, SchemaError, TableNotFoundError
from lakeconf.lake.opening import store_reader
from lakeconf.sql import folded, identifier, qualified
from lakeconf.store import Store, attach_to, for_reading, open_connection

_OTHER = "lakeconf_other"
# DuckDB takes different values of these for equal: 1 month and 30 days, -0.0 and 0.0. Their text differs.
_AS_TEXT = re.compile(r"\b(INTERVAL|FLOAT|DOUBLE|TIME WITH TIME ZONE)\b")


@dataclass(frozen=True)
class TableDiff:
    """Differences between two tables of the same name."""

    table: str
    stores: tuple[str, str]  # the names of the two stores
    # The columns that differ: name, type in the first and in the second store; None if a store lacks the column.
    schema: Sequence[tuple[str, str | None, str | None]]
    rows: tuple[int, int]  # the number of rows in each store
    only: tuple[int, int]  # the number of rows that only one store has, compared by key or, without one, as a whole
    equal: int  # the number of rows that are equal in both stores
    columns: Mapping[str, int]  # the number of rows of the same key that differ, by column; empty without a key
    samples: tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]  # some rows that only one store has
    sample_changes: Sequence[Mapping[str, Any]]  # some rows that differ: the key, and pairs of values by column

    @property
    def is_equal(self) -> bool:
        """True if the tables have the same columns and rows."""
        return not self.schema and self.only == (0, 0) and not any(self.columns.values())


def compare(first: Store, second: Store, table: str, on: Sequence[str] = (), *, samples: int = 5) -> TableDiff:
    """Compares a table in the latest snapshots of two stores."""
    if first.name == second.name:
        raise QueryError(f"{first.name} cannot differ from itself", hint="name two stores")
    first, second = for_reading(first), for_reading(second)
    stores = (first.name, second.name)
    # Both are attached to one connection, so its errors may contain secrets of both.
    first = first.replace(hidden=(*first.hidden, *second.secrets))
    alias = _OTHER if second.alias == first.alias else second.alias
    attached = second.replace(alias=alias, hidden=(*second.hidden, *first.secrets))
    opened = first
    # A branch attaches the lake that it was made of itself; a catalog in a DuckDB file cannot be attached twice.
    if first.branch_of is not None and first.branch_of.name == second.name:
        attached = first.parent or attached
    elif second.branch_of is not None and second.branch_of.name == first.name:
        opened, first = attached, attached.parent or first
    connection = open_connection(opened)
    try:
        if opened is not attached and attached.alias != PARENT:
            attach_to(attached, connection)
        connection.prefer_builtins(first.alias)
        relations = [_relation(connection, store, table) for store in (first, attached)]
        return difference(connection, stores, (relations[0], relations[1]), table, on, samples)
    finally:
        connection.close()


def difference(
    connection: Connection,
    stores: tuple[str, str],
    relations: tuple[str, str],
    table: str,
    on: Sequence[str] = (),
    samples: int = 0,
) -> TableDiff:
    """Compares two relations of a connection."""
    types = ours, theirs = [columns_of(connection, relation) for relation in relations]
    schema = [(n, ours.get(n), theirs.get(n)) for n in {**ours, **theirs} if ours.get(n) != theirs.get(n)]
    columns = {folded(name): name for name in ours if name in theirs}
    common, on = list(columns.values()), [columns.get(folded(name), name) for name in on]
    missing = [name for name in on if name not in common]
    if not common:
        raise SchemaError(f"{table} has no column in common", hint="compare tables with a column in common")
    if missing:
        hint = f"use a column of both stores: {', '.join(common)}"
        raise SchemaError(f"{table} has no column {missing[0]!r} in both stores", hint=hint)
    _check_comparable(types, on)
    same = ours.items() & theirs.items()
    texts = {name: kind for name, kind in same if name not in on and _AS_TEXT.search(kind)}
    names = ", ".join(_cast(name, "VARCHAR") if name in texts else identifier(name) for name in common)
    first, second = (f"(SELECT {names} FROM {relation})" for relation in relations)
    counts = [connection.rows(f"SELECT count(*) FROM {source}")[0][0] for source in (first, second)]
    if not on:
        left, right = f"FROM {first} EXCEPT ALL FROM {second}", f"FROM {second} EXCEPT ALL FROM {first}"
    else:
        left, right = (f"FROM {a} a ANTI JOIN {b} b ON {_same(on)}" for a, b in ((first, second), (second, first)))
        _check_unique(connection, table, on, dict(zip(stores, (first, second), strict=True)))
    only = tuple(connection.rows(f"SELECT count(*) FROM ({query})")[0][0] for query in (left, right))
    joined = f"{first} a JOIN {second} b ON {_same(on)}"
    changed, differing = _changes(connection, joined, {name: texts.get(name) for name in common}, on, samples)
    shown = [_samples(connection, query, common, texts, samples) for query in (left, right)]
    return TableDiff(
        table, stores, schema, (counts[0], counts[1]), (only[0], only[1]),
        counts[0] - only[0] - differing, *changed[:1], (shown[0], shown[1]), changed[1],
    )  # fmt: skip


def _check_comparable(types: Sequence[Mapping[str, str]], on: Sequence[str]) -> None:
    """Rejects keys of types of which one has several values for a value of the other, such as '1' and '01' for 1."""
    for name in on:
        left, right = (parsed_type(columns[name]) for columns in types)
        if not (fits(left, right) or fits(right, left)):
            raise SchemaError(f"the key has the types {left} and {right}", hint="compare whole rows, without --on")


def _samples(
    connection: Connection, query: str, common: Sequence[str], texts: Mapping[str, str], count: int
) -> Sequence[Mapping[str, Any]]:
    again = ", ".join(_cast(name, texts[name]) if name in texts else identifier(name) for name in common)
    return connection.records(f"SELECT {again} FROM ({query}) ORDER BY ALL LIMIT {count}")


def _cast(name: str, kind: str) -> str:
    column = identifier(name)
    return f"CAST({column} AS {kind}) AS {column}"


def _check_unique(connection: Connection, table: str, on: Sequence[str], sources: Mapping[str, str]) -> None:
    keys = ", ".join(map(identifier, on))
    for store, source in sources.items():
        for (count,) in connection.rows(f"SELECT count(*) AS n FROM {source} GROUP BY {keys} HAVING n > 1 LIMIT 1"):
            raise QueryError(
                f"the key {', '.join(on)} of {table} is not unique in {store}: {count} rows have the same",
                hint="name all columns of the key with --on, or compare whole rows without --on",
            )


def _changes(
    connection: Connection, joined: str, common: Mapping[str, str | None], on: Sequence[str], samples: int
) -> tuple[tuple[Mapping[str, int], Sequence[Mapping[str, Any]]], int]:
    """Returns counts by column and samples of rows with the same key and different values, and their total number."""
    values = [name for name in common if name not in on]
    if not on or not values:
        return ({}, ()), 0
    differs = {name: f"a.{identifier(name)} IS DISTINCT FROM b.{identifier(name)}" for name in values}
    any_of = " OR ".join(differs.values())
    counts = ", ".join(f"count(*) FILTER ({condition})" for condition in differs.values())
    ((differing, *by_column),) = connection.rows(f"SELECT count(*) FILTER ({any_of}), {counts} FROM {joined}")
    keys = ", ".join(f"a.{identifier(name)}" for name in on)
    # Columns that are compared as text have their types again.
    types = {name: f"::{common[name]}[]" if common[name] else "" for name in values}
    pairs = ", ".join(
        f"[a.{column}, b.{column}]{kind} AS {column}"
        for column, kind in zip(map(identifier, types), types.values(), strict=True)
    )
    shown = connection.records(f"SELECT {keys}, {pairs} FROM {joined} WHERE {any_of} ORDER BY ALL LIMIT {samples}")
    return (dict(zip(values, by_column, strict=True)), shown), differing


def _same(on: Sequence[str]) -> str:
    return " AND ".join(f"a.{identifier(name)} IS NOT DISTINCT FROM b.{identifier(name)}" for name in on) or "false"


def columns_of(connection: Connection, relation: str) -> dict[str, str]:
    """The columns of a relation and their types."""
    return {column: type_name for column, type_name, *_ in connection.rows(f"DESCRIBE FROM {relation}")}


def _relation(connection: Connection, store: Store, table: str) -> str:
    """A table at the latest snapshot of its lake: a commit during the comparison does not count."""
    folded_name = tuple(map(folded, split_name(table)))
    # Not duckdb_columns(), which binds every view of the lake.
    tables = connection.rows(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = ?", [store.alias]
    )
    if store.branch_of is not None:
        reader = store_reader(store, connection)
        version = latest(reader).snapshot_id
        tables += [split_name(name) for name in inherited_tables(reader, version)]
        source = source_of(reader, table, version)
        check_sources(reader, set() if source is None else {split_name(source)})
    if folded_name not in {tuple(map(folded, names)) for names in tables}:
        raise TableNotFoundError(
            f"the store {store.name!r} has no table {table}",
            hint=f"list its tables with: lakeconf tables --store {store.name}",
        )
    ((version,),) = connection.rows("FROM ducklake_current_snapshot(?)", [store.alias])
    return f"{qualified(store.alias, *split_name(table))} AT (VERSION => {int(version)})"
