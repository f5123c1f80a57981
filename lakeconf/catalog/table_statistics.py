"""The statistics of tables from which DuckDB leaves out rows, and whether they cover the rows of all snapshots.

DuckDB answers filters from the bounds of a table's columns, and from whether they contain NULL and NaN, at each
snapshot alike. lakeconf reads all rows: it does not use the statistics of tables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lakeconf.catalog.column_types import duckdb_name, sql_type
from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.catalog.tables import Column, columns_at
from lakeconf.sql import identifier, literal

_FLOATS = ("float32", "float64")
_TEXTS = ("varchar", "json")
_MOMENTS = ("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns")
# The types whose statistics DuckDB uses, with bounds that hide no value, also after DuckLake has merged others into
# them. If one bound is missing, DuckDB uses neither for a signed number, a date or a moment. It would hide values of an
# unsigned number, a time or a UUID, so these have both.
_WIDEST: Mapping[str, tuple[str, str | None]] = {
    "boolean": ("false", "true"),
    **{f"int{bits}": ("0", None) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": ("0", str(2**bits - 1)) for bits in (8, 16, 32, 64)},
    "decimal": ("0", None),
    **dict.fromkeys(_FLOATS, ("0.0", None)),
    **dict.fromkeys(_TEXTS, ("", None)),
    "date": ("2000-01-01", None),
    **dict.fromkeys(_MOMENTS, ("2000-01-01 00:00:00", None)),
    "timestamptz": ("2000-01-01 00:00:00+00", None),
    "time": ("00:00:00", "24:00:00"),
    "uuid": ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
}
_BOTH_BOUNDS = ("time", "uuid", "uint8", "uint16", "uint32", "uint64")
_STORED = """
    SELECT g.table_id, g.column_id, any_value(s.schema_name), any_value(t.table_name), any_value(g.min_value),
        any_value(g.max_value), any_value(g.contains_null)::BOOLEAN, any_value(g.contains_nan)::BOOLEAN
    FROM ducklake_table_column_stats AS g
    JOIN ducklake_table AS t ON t.table_id = g.table_id AND t.end_snapshot IS NULL
    JOIN ducklake_schema AS s ON s.schema_id = t.schema_id AND s.end_snapshot IS NULL
    GROUP BY ALL ORDER BY ALL
"""
# What the values of a column of one type are, in all files of a table. A file with a number of NULLs that is not
# recorded may contain some.
_FILES = """
    SELECT table_id, column_id, arg_min(low, {low}), arg_max(high, {high}),
        bool_or(has_values AND ({low} IS NULL OR {high} IS NULL)),
        bool_or(coalesce(nulls > 0, true)), bool_or(nulls > 0), bool_or(coalesce(has_nan, true)), bool_or(has_nan),
        bool_or(is_live AND has_values),
        bool_or({low} < TRY_CAST(table_low AS {kind})), bool_or({high} > TRY_CAST(table_high AS {kind}))
    FROM (
        SELECT g.table_id AS table_id, g.column_id AS column_id, f.min_value AS low, f.max_value AS high,
            g.min_value AS table_low, g.max_value AS table_high, f.null_count AS nulls,
            f.contains_nan::BOOLEAN AS has_nan, d.end_snapshot IS NULL AS is_live,
            coalesce(f.value_count, 1) > 0 AND coalesce(f.null_count < d.record_count, true)
                AND NOT (coalesce(f.contains_nan::BOOLEAN, false) AND f.min_value IS NULL) AS has_values
        FROM ducklake_table_column_stats AS g
        JOIN ducklake_data_file AS d ON d.table_id = g.table_id AND d.record_count > 0
        LEFT JOIN ducklake_file_column_stats AS f
            ON f.data_file_id = d.data_file_id AND f.table_id = g.table_id AND f.column_id = g.column_id
        JOIN ducklake_column AS c ON c.table_id = g.table_id AND c.column_id = g.column_id AND c.end_snapshot IS NULL
        WHERE lower(c.column_type) = {type}
    ) GROUP BY ALL
"""
# The columns of the rows in the catalog are those of the table at this snapshot.
_INLINED = """
    SELECT i.table_name, i.table_id, max(v.begin_snapshot) FROM ducklake_inlined_data_tables AS i
    LEFT JOIN ducklake_schema_versions AS v ON v.table_id = i.table_id AND v.schema_version <= i.schema_version
    GROUP BY ALL ORDER BY ALL
"""


class _Values(NamedTuple):
    """What is known of some values of a column."""

    low: str | None
    high: str | None
    is_unknown: bool | None  # True if some values may be outside the bounds
    may_have_null: bool | None
    has_null: bool | None
    may_have_nan: bool | None
    has_nan: bool | None
    is_live: bool | None  # True if the newest snapshot has some
    is_below: bool | None  # below the bounds of the table
    is_above: bool | None


_UNKNOWN = _Values(
    low=None,
    high=None,
    is_unknown=True,
    may_have_null=True,
    has_null=False,
    may_have_nan=True,
    has_nan=False,
    is_live=True,
    is_below=None,
    is_above=None,
)


@dataclass(frozen=True)
class _ColumnStatistics:
    """The statistics of a column in its table."""

    table_id: int
    column_id: int
    schema: str
    table: str
    column: str
    type: str  # of DuckLake, in lower case
    low: str | None
    high: str | None
    contains_null: bool | None
    contains_nan: bool | None

    @property
    def base(self) -> str:
        """The type without the digits of a decimal."""
        return self.type.partition("(")[0]

    @property
    def kind(self) -> str:
        """The type in DuckDB."""
        return str(duckdb_name(self.type))


@dataclass(frozen=True)
class HidingStatistics:
    """The statistics of a column that may hide rows, now or after the next insert."""

    schema: str
    table: str
    column: str
    repair: str  # the statement that makes them hide no row of any snapshot


def hiding_bounds(reader: CatalogReader) -> dict[tuple[str, str], list[str]]:
    """Finds columns whose rows plain DuckDB may hide, by table.

    If a file with values has no bounds, DuckLake takes it for a file without values, and the next insert makes its own
    bounds those of the table. A compaction gives bounds to the file, but not to the table.
    """
    columns: dict[tuple[str, str], list[str]] = defaultdict(list)
    with reader.transaction() as transaction:
        for statistics in hiding_statistics(transaction):
            columns[statistics.schema, statistics.table].append(statistics.column)
    return dict(columns)


def hiding_statistics(transaction: MetadataTransaction) -> list[HidingStatistics]:
    """Finds statistics of tables that do not cover the rows of all snapshots, with how to widen them."""
    stored = _stored(transaction)
    values: dict[tuple[int, int], list[_Values]] = defaultdict(list)
    for type_name in sorted({column.type for column in stored.values()}):
        for table_id, column_id, *rest in transaction.rows(_files_sql(type_name)):
            values[table_id, column_id].append(_Values(*rest))
    for key, inlined in _inlined(transaction, stored):
        values[key].append(inlined)
    hiding = []
    for key, column in stored.items():
        changes = _changes(transaction, column, values[key])
        if changes:
            where = f"table_id = {column.table_id} AND column_id = {column.column_id}"
            repair = f"UPDATE ducklake_table_column_stats SET {', '.join(changes)} WHERE {where}"  # noqa: S608
            hiding.append(HidingStatistics(column.schema, column.table, column.column, repair))
    return sorted(hiding, key=lambda statistics: (statistics.schema, statistics.table, statistics.column))


def _stored(transaction: MetadataTransaction) -> dict[tuple[int, int], _ColumnStatistics]:
    """The statistics of all columns of tables that DuckDB may use."""
    newest = transaction.newest()
    rows = transaction.rows(_STORED)
    fields = {table_id: _fields(columns_at(transaction, table_id, newest)) for table_id in {row[0] for row in rows}}
    stored = {}
    for table_id, column_id, schema, table, *rest in rows:
        path = fields[table_id].get(column_id)
        if path is not None and path[-1].type.lower().partition("(")[0] in _WIDEST:
            field = path[-1]
            stored[table_id, column_id] = _ColumnStatistics(
                table_id, column_id, schema, table, field.name, field.type.lower(), *rest
            )
    return stored


def _fields(columns: Sequence[Column], path: tuple[Column, ...] = ()) -> dict[int, tuple[Column, ...]]:
    """The columns and the fields of structs, each with those around it; DuckDB has no statistics of other fields."""
    fields = {}
    for column in columns:
        fields[column.field_id] = (*path, column)
        if column.type == "struct":
            fields |= _fields(column.children, (*path, column))
    return fields


def _files_sql(type_name: str) -> str:
    kind = str(duckdb_name(type_name))
    low, high = f"TRY_CAST(low AS {kind})", f"TRY_CAST(high AS {kind})"
    return _FILES.format(kind=kind, low=low, high=high, type=literal(type_name))


def _inlined(
    transaction: MetadataTransaction, stored: Mapping[tuple[int, int], _ColumnStatistics]
) -> Iterator[tuple[tuple[int, int], _Values]]:
    """The values of rows in the catalog, by table and column."""
    by_table: dict[int, list[_ColumnStatistics]] = defaultdict(list)
    for column in stored.values():
        by_table[column.table_id].append(column)
    for name, table_id, begin in transaction.rows(_INLINED):
        if table_id not in by_table or not transaction.has_table(name):
            continue
        fields = {} if begin is None else _fields(columns_at(transaction, table_id, begin))
        known = [column for column in by_table[table_id] if column.column_id in fields]
        counts = ("count(*)", "count(*) FILTER (end_snapshot IS NULL)")
        selected = ", ".join([*counts, *(_inlined_sql(fields[column.column_id], column) for column in known)])
        ((count, live, *structs),) = transaction.rows(
            f"SELECT {selected} FROM {identifier(name)}"  # noqa: S608 - quoted names
        )
        if count:
            for column, values in zip(known, structs, strict=True):
                key = table_id, column.column_id
                yield key, _Values(**values, is_live=bool(live) and values["low"] is not None)
        for column in by_table[table_id]:
            if count and column not in known:  # DuckLake may fill it with a default
                yield (table_id, column.column_id), _UNKNOWN


def _inlined_sql(path: Sequence[Column], column: _ColumnStatistics) -> str:
    """The SQL for what is known of the values of a column, whose text SQLite and PostgreSQL store."""
    name = identifier(path[0].name)
    text = f"CASE WHEN typeof({name}) = 'BLOB' THEN decode({name}::BLOB) ELSE {name}::VARCHAR END"
    whole = f"TRY_CAST({text} AS {sql_type(path[0])})"
    value = f"TRY_CAST({''.join([whole, *(f'.{identifier(field.name)}' for field in path[1:])])} AS {column.kind})"
    nan = f"coalesce(isnan({value}), false)" if column.type in _FLOATS else "false"
    low, high = (f"{least}({value}) FILTER (NOT {nan})" for least in ("min", "max"))
    parts = {
        "low": f"{low}::VARCHAR",
        "high": f"{high}::VARCHAR",
        "is_unknown": f"bool_or({name} IS NOT NULL AND {whole} IS NULL)",
        "may_have_null": f"bool_or({value} IS NULL)",
        "has_null": f"bool_or({value} IS NULL)",
        "may_have_nan": f"bool_or({nan})",
        "has_nan": f"bool_or({nan})",
        "is_below": f"{low} < TRY_CAST({_text(column.low)} AS {column.kind})",
        "is_above": f"{high} > TRY_CAST({_text(column.high)} AS {column.kind})",
    }
    return "{" + ", ".join(f"{literal(key)}: {sql}" for key, sql in parts.items()) + "}"


def _text(bound: str | None) -> str:
    return "NULL::VARCHAR" if bound is None else literal(bound)


def _changes(transaction: MetadataTransaction, column: _ColumnStatistics, values: Sequence[_Values]) -> list[str]:
    """What has to change in the statistics of a column; empty if they cover all values."""
    changes = []
    if column.contains_null is False and any(part.may_have_null for part in values):
        changes.append(f"contains_null = {'true' if any(part.has_null for part in values) else 'NULL'}")
    if column.type in _FLOATS:
        if column.contains_nan is not False:  # DuckDB does not use the bounds
            return changes
        if any(part.may_have_nan for part in values):
            has_nan = any(part.has_nan for part in values)
            return [*changes, f"contains_nan = {'true' if has_nan else 'NULL'}"]
    if not _covers(column, values):
        low, high = _wider(transaction, column, values)
        changes += [f"min_value = {_text(low)}", f"max_value = {_text(high)}"]
    return changes


def _covers(column: _ColumnStatistics, values: Sequence[_Values]) -> bool:
    """True if the bounds of a column hide no value, neither now nor after the next insert."""
    if (column.low, column.high) == _WIDEST[column.base]:
        return True
    if column.low is None and column.high is None:
        return not any(part.is_live for part in values)
    if column.low is None or column.high is None:
        if column.base in _BOTH_BOUNDS:
            return False
        if column.base not in _TEXTS:
            return True
    return not any(part.is_unknown or part.is_below or part.is_above for part in values)


def _wider(
    transaction: MetadataTransaction, column: _ColumnStatistics, values: Sequence[_Values]
) -> tuple[str | None, str | None]:
    """Bounds of all values: as narrow as possible if those of all are known."""
    bounds = [(part.low, part.high) for part in values if part.low is not None or part.high is not None]
    bounds += [(column.low, column.high)] if column.low is not None or column.high is not None else []
    if any(part.is_unknown for part in values) or not bounds:
        return _WIDEST[column.base]
    rows = ", ".join(f"({_text(low)}, {_text(high)})" for low, high in bounds)
    low, high = f"TRY_CAST(low AS {column.kind})", f"TRY_CAST(high AS {column.kind})"
    result: list[tuple[Any, ...]] = transaction.rows(
        f"SELECT arg_min(low, {low}), arg_max(high, {high}), bool_and({low} IS NOT NULL AND {high} IS NOT NULL) "  # noqa: S608
        f"FROM (VALUES {rows}) AS b(low, high)"
    )
    ((least, greatest, is_known),) = result
    return (least, greatest) if is_known else _WIDEST[column.base]
