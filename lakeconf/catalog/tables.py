"""Tables at a snapshot: their names, columns and partition keys."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, NoReturn

from lakeconf.catalog.admission import compose_path
from lakeconf.catalog.definitions import STATE, STATE_TYPES
from lakeconf.catalog.forgotten_deletes import check_deletes
from lakeconf.catalog.pruning.bucket_keys import has_other_rows, is_bucket
from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.catalog.snapshot import require
from lakeconf.ducklake import INTERNAL_SCHEMA, PARENT, visible_at
from lakeconf.errors import CatalogError, SchemaError, TableNotFoundError, UnsupportedError, suggestion
from lakeconf.sql import folded, identifier

DEFAULT_SCHEMA = "main"
_PART = r'"(?:[^"\0]|"")+"|[^".\0]+'
_VIEWS_AND_MACROS = f"""
    WITH other AS (
        SELECT CASE WHEN sql LIKE 'SELECT * FROM {PARENT}.%' THEN 'table' ELSE 'view' END AS kind, schema_id,
            view_name AS name, begin_snapshot, end_snapshot FROM ducklake_view
        UNION ALL
        SELECT 'macro', schema_id, macro_name, begin_snapshot, end_snapshot FROM ducklake_macro
    )
    SELECT o.kind, s.schema_name, o.name
    FROM other AS o JOIN ducklake_schema AS s ON s.schema_id = o.schema_id
    WHERE {visible_at(row="o")} AND {visible_at(row="s")}
      AND lower(s.schema_name) = lower($2) AND lower(o.name) = lower($3)
"""  # noqa: S608
_TABLES = f"""
    SELECT t.table_id AS table_id, s.schema_name AS schema_name, t.table_name AS table_name, s.path AS schema_path,
        s.path_is_relative AS schema_is_relative, t.path AS path, t.path_is_relative AS is_relative
    FROM ducklake_table AS t JOIN ducklake_schema AS s ON s.schema_id = t.schema_id
    WHERE {visible_at(row="t")} AND {visible_at(row="s")}
"""  # noqa: S608
_SCHEMAS = f"SELECT schema_name FROM ducklake_schema AS s WHERE {visible_at(row='s')} ORDER BY schema_name"  # noqa: S608
_TABLE_TYPES = (
    "table_id BIGINT, schema_name VARCHAR, table_name VARCHAR, schema_path VARCHAR, schema_is_relative BOOLEAN, "
    "path VARCHAR, is_relative BOOLEAN"
)
# Names of types become a part of SQL.
_TYPE_NAME = re.compile(r"[a-z][a-z0-9_]*(?:\(\d+,\s*\d+\))?")
# The id of a table that is not committed yet; the catalog assigns ids at the commit.
NO_ID = -1
_COLUMN_TYPES = (
    "table_id BIGINT, column_id BIGINT, parent_column BIGINT, column_name VARCHAR, column_type VARCHAR, "
    "nulls_allowed BOOLEAN, initial_default VARCHAR, begin_snapshot BIGINT, end_snapshot BIGINT, column_order BIGINT"
)
_COLUMNS = """
    SELECT table_id, column_id, parent_column, column_name, column_type, nulls_allowed, initial_default,
        begin_snapshot, end_snapshot, column_order
    FROM ducklake_column
"""
_COLUMN_ORDER = "table_id, column_id, begin_snapshot"
_OF_TABLE = " WHERE table_id = ?"
_PARTITIONING = f"""
    SELECT i.table_id AS table_id, i.partition_id AS partition_id, c.partition_key_index AS key_index,
        c.column_id AS column_id, c.transform AS transform
    FROM ducklake_partition_info AS i LEFT JOIN ducklake_partition_column AS c
      ON c.partition_id = i.partition_id AND c.table_id = i.table_id
    WHERE {visible_at(row="i")}
"""  # noqa: S608
_KEY_TYPES = "table_id BIGINT, partition_id BIGINT, key_index BIGINT, column_id BIGINT, transform VARCHAR"
_PARTITIONS_OF_TABLE = " AND i.table_id = $2"


@functools.lru_cache(4096)
def split_name(name: str) -> tuple[str, str]:
    """Splits a name into schema and table."""
    try:
        parts = re.fullmatch(rf"(?:({_PART})\.)?({_PART})", name)
    except TypeError:  # it is not a string
        parts = None
    if not parts:
        raise TableNotFoundError(f"{name!r} is not a valid table name", hint="write schema.table, or table")
    schema, table = (_unquoted(part) if part else DEFAULT_SCHEMA for part in parts.groups())
    return schema, table


@functools.lru_cache(4096)
def joined_name(schema: str, table: str) -> str:
    """Joins schema and table to `schema.table`; quotes parts that contain a dot or a quote. Inverts `split_name`."""
    return ".".join(identifier(part) if re.search(r'[."]', part) else part for part in (schema, table))


def full_name(name: str) -> str:
    """Returns the name with its schema, and with quotes only where they are needed."""
    return joined_name(*split_name(name))


def refuse_internal(name: str) -> None:
    """Refuses to change a table of lakeconf."""
    if folded(split_name(name)[0]) == INTERNAL_SCHEMA:
        problem = f"{full_name(name)} belongs to lakeconf, which needs it to recognise repeated writes"
        raise SchemaError(problem, hint="use another schema")


def _unquoted(part: str) -> str:
    return part[1:-1].replace('""', '"') if part[0] == '"' else part


def refuse_missing(
    transaction: MetadataTransaction, name: tuple[str, str], snapshot_id: int, existing: Sequence[str]
) -> NoReturn:
    """Raises the error for a name."""
    for kind, *parts in transaction.rows(_VIEWS_AND_MACROS, [snapshot_id, *name]):
        if kind == "table":
            raise UnsupportedError(
                f"{joined_name(*parts)} is a table of the lake that this one is a branch of, and the branch has not "
                "written it",
                hint="open the branch by its own store, with branch_of, and read the table there with lake.table(…) or "
                "lake.sql(…); the branch has a history of it from its first write on",
            )
        qualified = ".".join(identifier(part) for part in (transaction.alias, *parts))
        call = f"{qualified} AT (VERSION => {snapshot_id})" if kind == "view" else f"{qualified}(…)"
        raise UnsupportedError(
            f"{joined_name(*parts)} is a {kind} in DuckDB's SQL dialect and has no files",
            hint=f"run it in DuckDB: FROM {call}",
        )
    missing = joined_name(*name)
    raise TableNotFoundError(
        f"no table {missing!r} at version {snapshot_id}", hint=suggestion(missing, existing) or None
    )


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field of a nested column, at one snapshot."""

    field_id: int  # `ducklake_column.column_id`, which is the Parquet field id; never reused within a table
    name: str  # its name at this snapshot; `element` for the element of a list, `key` and `value` for a map
    type: str  # DuckLake's type name: `int32`, `decimal(10,2)`, `varchar`, `struct`, `list`, `map`, …
    nullable: bool  # False only for a top-level NOT NULL column: for nested columns the catalog may be wrong
    initial_default: str | None  # the value for files that lack the column, as text; None for NULL
    children: tuple[Column, ...] = ()  # fields of a struct, the element of a list, key and value of a map
    # True if no sibling column ever had this name (ignoring case), this column never had another name, and the same
    # holds for its parents. Only then may a Parquet reader push filters down by name. Does not apply to files with a
    # name mapping.
    name_is_unique: bool = True
    former_types: tuple[str, ...] = ()  # the other types of the column in earlier snapshots, oldest first
    # The other types of the column in later snapshots. A file that was compacted after a promotion contains the later
    # type, even if it is read at an earlier snapshot.
    later_types: tuple[str, ...] = ()
    since: int = field(default=0, compare=False)  # the snapshot that added it
    is_bucketed: bool = field(default=False, compare=False)  # True if a partition key of the table is its bucket
    # True if it is bucketed, and the table has rows that were written for other partition keys, or for none.
    has_other_buckets: bool = field(default=False, compare=False)

    @property
    def shape(self) -> tuple[object, ...]:
        """The properties that rows depend on; equal columns of two snapshots have equal shapes."""
        return (self.field_id, self.name, self.type, self.nullable, *(child.shape for child in self.children))


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A partition key of a table."""

    index: int  # `partition_key_index`, 0-based
    field_id: int  # the field id of its column
    transform: str  # `identity`, `year`, `month`, `day`, `hour` or `bucket(n)`


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table at one snapshot."""

    table_id: int  # `ducklake_table.table_id`
    schema_name: str
    name: str
    columns: tuple[Column, ...]  # the top-level columns, in order
    path: str  # the folder of its files: an absolute path or URI that ends in `/`, as DuckDB composes it
    partition_id: int | None = None  # the live partitioning, or None
    partition_fields: tuple[PartitionField, ...] = ()
    types: frozenset[str] = frozenset()  # the types of all columns that it ever had, also nested ones
    # The average size of a row in its files; None if it was not loaded, or the table is empty.
    bytes_per_row: float | None = None

    @property
    def full_name(self) -> str:
        """`schema.table`; parts that contain a dot or a quote are quoted."""
        return joined_name(self.schema_name, self.name)


def load_table(reader: CatalogReader, name: str, snapshot_id: int) -> TableInfo:
    """Loads a table at a snapshot."""
    with reader.transaction() as transaction:

        def state(newest: int, seen: int) -> tuple[Any, ...]:
            oldest = min((version for version in (snapshot_id, newest, seen) if version >= 0), default=0)
            return transaction.own_rows(STATE, STATE_TYPES, [snapshot_id, newest, seen, oldest])[0]

        read = partial(_read_table, transaction, name, snapshot_id)
        table = reader.definitions.get(name, state, read)
        if not reader.definitions.is_newest(snapshot_id):
            check_deletes(transaction, table.table_id, table.full_name, snapshot_id)
        return _with_buckets(transaction, table, snapshot_id)


def tables(reader: CatalogReader, snapshot_id: int) -> tuple[TableInfo, ...]:
    """Returns all tables at a snapshot, ordered by schema and name."""
    with reader.transaction() as transaction:
        return tables_in(transaction, snapshot_id)


def schema_names(reader: CatalogReader, snapshot_id: int) -> list[str]:
    """The sorted names of all schemas at a snapshot, also of those without tables."""
    with reader.transaction() as transaction:
        return [name for (name,) in transaction.rows(_SCHEMAS, [snapshot_id])]


def tables_in(transaction: MetadataTransaction, snapshot_id: int) -> tuple[TableInfo, ...]:
    """Returns all tables like `tables`, in an open transaction."""
    require(transaction, snapshot_id)
    rows = transaction.rows(_TABLES + " ORDER BY schema_name, table_name", [snapshot_id])
    columns = _by_table(transaction.rows(f"{_COLUMNS} ORDER BY {_COLUMN_ORDER}"))
    keys = _by_table(transaction.rows(f"{_PARTITIONING} ORDER BY key_index", [snapshot_id]))
    return tuple(_table(transaction, row, columns[row[0]], keys[row[0]], snapshot_id) for row in rows)


def columns_at(transaction: MetadataTransaction, table_id: int, snapshot_id: int) -> tuple[Column, ...]:
    """The columns of a table at a snapshot, which may have expired."""
    rows = transaction.own_rows(_COLUMNS + _OF_TABLE, _COLUMN_TYPES, [table_id], order=_COLUMN_ORDER)
    return _columns([_Version._make(row) for _, *row in rows], snapshot_id)


def find_table(transaction: MetadataTransaction, name: str, snapshot_id: int) -> TableInfo:
    """Reads a table like `load_table`, in an open transaction."""
    table = _read_table(transaction, name, snapshot_id)
    check_deletes(transaction, table.table_id, table.full_name, snapshot_id)
    return _with_buckets(transaction, table, snapshot_id)


def _with_buckets(transaction: MetadataTransaction, table: TableInfo, snapshot_id: int) -> TableInfo:
    """The table with what is true of its bucketed columns: unlike definitions, this depends on its files."""
    bucketed = {key.field_id for key in table.partition_fields if is_bucket(key.transform)}
    if not bucketed or table.partition_id is None:
        return table
    others = has_other_rows(transaction, table.table_id, table.partition_id, snapshot_id)
    columns = (
        replace(column, is_bucketed=True, has_other_buckets=others) if column.field_id in bucketed else column
        for column in table.columns
    )
    return replace(table, columns=tuple(columns))


def _read_table(transaction: MetadataTransaction, name: str, snapshot_id: int, *, exists: bool = False) -> TableInfo:
    """Reads the definition of a table; `exists` is True if the snapshot certainly exists."""
    if not exists:
        require(transaction, snapshot_id)
    schema_name, table_name = split_name(name)
    where = " AND lower(s.schema_name) = lower($2) AND lower(t.table_name) = lower($3)"
    # SQL's `lower` also folds non-ASCII letters, but DuckDB's name comparison does not.
    candidates = transaction.own_rows(_TABLES + where, _TABLE_TYPES, [snapshot_id, schema_name, table_name])
    rows = [row for row in candidates if (folded(row[1]), folded(row[2])) == (folded(schema_name), folded(table_name))]
    if not rows:
        existing = [joined_name(schema, table) for _, schema, table, *_ in transaction.rows(_TABLES, [snapshot_id])]
        refuse_missing(transaction, (schema_name, table_name), snapshot_id, existing)
    row, table_id = rows[0], rows[0][0]
    columns = _by_table(transaction.own_rows(_COLUMNS + _OF_TABLE, _COLUMN_TYPES, [table_id], order=_COLUMN_ORDER))
    partitioning = _PARTITIONING + _PARTITIONS_OF_TABLE
    keys = _by_table(transaction.own_rows(partitioning, _KEY_TYPES, [snapshot_id, table_id], order="key_index"))
    return _table(transaction, row, columns[table_id], keys[table_id], snapshot_id)


def key_text(transform: str, column: str) -> str:
    """Returns a partition key as SQL writes it, such as `day`, `month(day)` or `bucket(8, id)`."""
    if transform == "identity":
        return column
    kind, _, number = transform.partition("(")
    return f"{kind}({number.removesuffix(')')}, {column})" if number else f"{kind}({column})"


def _by_table(rows: Sequence[tuple[Any, ...]]) -> dict[int, list[tuple[Any, ...]]]:
    by_table: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for table_id, *row in rows:
        by_table[table_id].append(tuple(row))
    return by_table


def _table(
    transaction: MetadataTransaction,
    row: tuple[Any, ...],
    columns: Sequence[tuple[Any, ...]],
    partitioning: Sequence[tuple[Any, ...]],
    snapshot_id: int,
) -> TableInfo:
    table_id, schema_name, name, schema_path, schema_is_relative, path, is_relative = row
    folder = compose_path(transaction.data_path, schema_path, is_relative=schema_is_relative)
    versions = list(map(_Version._make, columns))
    return TableInfo(
        table_id=table_id,
        schema_name=schema_name,
        name=name,
        columns=_columns(versions, snapshot_id),
        path=compose_path(folder, path, is_relative=is_relative),
        partition_id=partitioning[0][0] if partitioning else None,
        partition_fields=tuple(PartitionField(*key) for _, *key in partitioning if key[0] is not None),
        types=frozenset(version.type for version in versions),
    )


class _Version(NamedTuple):
    """A row of `ducklake_column`: the definition of a column for a range of snapshots."""

    field_id: int
    parent: int | None
    name: str
    type: str
    nulls_allowed: bool
    initial_default: str | None
    begin: int
    end: int | None
    order: int


def _columns(versions: Sequence[_Version], snapshot_id: int) -> tuple[Column, ...]:
    history: dict[int, list[_Version]] = defaultdict(list)
    # Files may be newer than the snapshot that is read, so later names of a column count as well.
    name_owners: dict[tuple[int | None, str], set[int]] = defaultdict(set)
    children: dict[int | None, list[_Version]] = defaultdict(list)
    for version in versions:
        if not version.name or not _TYPE_NAME.fullmatch(str(version.type)):
            raise CatalogError(
                f"the catalog names the unknown type {version.type!r} of the column {version.name!r}",
                hint="find out who writes to the catalog, and restore a backup of it",
            )
        history[version.field_id].append(version)
        name_owners[version.parent, version.name.lower()].add(version.field_id)
        if version.begin <= snapshot_id and (version.end is None or snapshot_id < version.end):
            children[version.parent].append(version)

    def column(now: _Version, *, parent_is_unique: bool) -> Column:
        versions = history[now.field_id]
        owners = name_owners[now.parent, now.name.lower()]
        unique = parent_is_unique and len({version.name for version in versions}) == len(owners) == 1
        return Column(
            field_id=now.field_id,
            name=now.name,
            type=now.type,
            nullable=now.parent is not None or bool(now.nulls_allowed),
            initial_default=now.initial_default,
            children=below(now.field_id, parent_is_unique=unique),
            name_is_unique=unique,
            former_types=_other_types(now, [version for version in versions if version.begin < now.begin]),
            later_types=_other_types(now, [version for version in versions if version.begin > now.begin]),
            since=versions[0].begin,
        )

    def below(parent: int | None, *, parent_is_unique: bool) -> tuple[Column, ...]:
        ordered = sorted(children[parent], key=lambda version: (version.order, version.field_id))
        return tuple(column(version, parent_is_unique=parent_is_unique) for version in ordered)

    return below(None, parent_is_unique=True)


def _other_types(now: _Version, versions: list[_Version]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(version.type for version in versions if version.type != now.type))


def columns_named(table: TableInfo, names: Sequence[str]) -> tuple[Column, ...]:
    """Returns columns of a table by name, in the order of the names."""
    names = name_list(names, "columns")
    by_name = {folded(column.name): column for column in table.columns}
    selected: dict[str, Column] = {}
    for name in names:
        if folded(name) not in by_name:
            existing = [column.name for column in table.columns]
            raise SchemaError(
                f"the table {table.full_name} has no column {name!r}",
                hint=suggestion(name, existing, f"use one of its columns: {', '.join(sorted(by_name))}"),
            )
        if folded(name) in selected:
            raise SchemaError(
                f"the column {name!r} of {table.full_name} is selected twice", hint="name each column once"
            )
        selected[folded(name)] = by_name[folded(name)]
    return tuple(selected.values())


def name_list(names: object, argument: str) -> list[str]:
    """An argument that lists names: a single string would be read as a list of its letters."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        shown = repr(names) if isinstance(names, str) else '"name"'
        raise SchemaError(f"{argument} is {names!r}, and not a list of names", hint=f"write {argument}=[{shown}]")
    items = list(names)
    for name in items:
        if not isinstance(name, str):
            raise SchemaError(f"{argument} contains {name!r}, which is not a name", hint="write names as strings")
    return items
