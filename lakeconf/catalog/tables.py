"""Tables at a snapshot: their names, columns and partition keys."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, NoReturn

from lakeconf.catalog.admission import compose_path
from lakeconf.catalog.definitions import STATE, STATE_TYPES
from lakeconf.catalog.reader import CatalogReader, MetadataTransaction, own_rows
from lakeconf.catalog.snapshot import require
from lakeconf.ducklake import INTERNAL_SCHEMA, visible_at
from lakeconf.errors import CatalogError, SchemaError, TableNotFoundError, UnsupportedError, suggestion
from lakeconf.sql import folded, identifier

DEFAULT_SCHEMA = "main"
_PART = r'"(?:[^"\0]|"")+"|[^".\0]+'


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


_VIEWS_AND_MACROS = f"""
    WITH other AS (
        SELECT 'view' AS kind, schema_id, view_name AS name, begin_snapshot, end_snapshot FROM ducklake_view
        UNION ALL
        SELECT 'macro', schema_id, macro_name, begin_snapshot, end_snapshot FROM ducklake_macro
    )
    SELECT o.kind, s.schema_name, o.name
    FROM other AS o JOIN ducklake_schema AS s ON s.schema_id = o.schema_id
    WHERE {visible_at(row="o")} AND {visible_at(row="s")}
      AND lower(s.schema_name) = lower($2) AND lower(o.name) = lower($3)
"""  # noqa: S608


def refuse_missing(
    transaction: MetadataTransaction, name: tuple[str, str], snapshot_id: int, existing: Sequence[str]
) -> NoReturn:
    """Raises the error for a name."""
    for kind, *found in transaction.rows(_VIEWS_AND_MACROS, [snapshot_id, *name]):
        qualified = ".".join(identifier(part) for part in (transaction.alias, *found))
        call = f"{qualified} AT (VERSION => {snapshot_id})" if kind == "view" else f"{qualified}(…)"
        raise UnsupportedError(
            f"{joined_name(*found)} is a {kind} in DuckDB's SQL dialect and has no files",
            hint=f"run it in DuckDB: FROM {call}",
        )
    wanted = joined_name(*name)
    raise TableNotFoundError(f"no table {wanted!r} at version {snapshot_id}", hint=suggestion(wanted, existing) or None)


_TABLES = f"""
    SELECT t.table_id AS table_id, s.schema_name AS schema_name, t.table_name AS table_name, s.path AS schema_path,
        s.path_is_relative AS schema_is_relative, t.path AS path, t.path_is_relative AS is_relative
    FROM ducklake_table AS t JOIN ducklake_schema AS s ON s.schema_id = t.schema_id
    WHERE {visible_at(row="t")} AND {visible_at(row="s")}
"""  # noqa: S608
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
    schema_name: str  # its schema
    name: str  # its name
    columns: tuple[Column, ...]  # the top-level columns, in order
    path: str  # the folder of its files: an absolute path or URI that ends in `/`, as DuckDB composes it
    partition_id: int | None = None  # the live partitioning, or None
    partition_fields: tuple[PartitionField, ...] = ()  # its partition keys
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

        def state(known: int, seen: int) -> tuple[Any, ...]:
            return own_rows(transaction, STATE, STATE_TYPES, [snapshot_id, known, seen])[0]

        read = partial(find_table, transaction, name, snapshot_id)
        found: TableInfo = reader.definitions.get(name, state, read)
        return found


def tables(reader: CatalogReader, snapshot_id: int) -> tuple[TableInfo, ...]:
    """Returns all tables at a snapshot, ordered by schema and name."""
    with reader.transaction() as transaction:
        return tables_in(transaction, snapshot_id)


def tables_in(transaction: MetadataTransaction, snapshot_id: int) -> tuple[TableInfo, ...]:
    """Returns all tables like `tables`, in an open transaction."""
    require(transaction, snapshot_id)
    rows = transaction.rows(_TABLES + " ORDER BY schema_name, table_name", [snapshot_id])
    columns = _by_table(transaction.rows(f"{_COLUMNS} ORDER BY {_COLUMN_ORDER}"))
    keys = _by_table(transaction.rows(f"{_PARTITIONING} ORDER BY key_index", [snapshot_id]))
    return tuple(_table(transaction, row, columns[row[0]], keys[row[0]], snapshot_id) for row in rows)


def find_table(transaction: MetadataTransaction, name: str, snapshot_id: int, *, exists: bool = False) -> TableInfo:
    """Reads a table like `load_table`, in an open transaction; `exists` is True if the snapshot certainly exists."""
    if not exists:
        require(transaction, snapshot_id)
    schema_name, table_name = split_name(name)
    where = " AND lower(s.schema_name) = lower($2) AND lower(t.table_name) = lower($3)"
    # SQL's `lower` also folds non-ASCII letters, but DuckDB's name comparison does not.
    found = own_rows(transaction, _TABLES + where, _TABLE_TYPES, [snapshot_id, schema_name, table_name])
    rows = [row for row in found if (folded(row[1]), folded(row[2])) == (folded(schema_name), folded(table_name))]
    if not rows:
        existing = [joined_name(schema, table) for _, schema, table, *_ in transaction.rows(_TABLES, [snapshot_id])]
        refuse_missing(transaction, (schema_name, table_name), snapshot_id, existing)
    row, table_id = rows[0], rows[0][0]
    columns = _by_table(own_rows(transaction, _COLUMNS + _OF_TABLE, _COLUMN_TYPES, [table_id], order=_COLUMN_ORDER))
    partitioning = _PARTITIONING + _PARTITIONS_OF_TABLE
    keys = _by_table(own_rows(transaction, partitioning, _KEY_TYPES, [snapshot_id, table_id], order="key_index"))
    return _table(transaction, row, columns[table_id], keys[table_id], snapshot_id)


def key_text(transform: str, column: str) -> str:
    """Returns a partition key as SQL writes it, such as `day`, `month(day)` or `bucket(8, id)`."""
    if transform == "identity":
        return column
    kind, _, number = transform.partition("(")
    return f"{kind}({number.removesuffix(')')}, {column})" if number else f"{kind}({column})"


def _by_table(rows: Sequence[tuple[Any, ...]]) -> dict[int, list[tuple[Any, ...]]]:
    found: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for table_id, *row in rows:
        found[table_id].append(tuple(row))
    return found


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
    found: dict[str, Column] = {}
    for name in names:
        if folded(name) not in by_name:
            known = [column.name for column in table.columns]
            raise SchemaError(
                f"the table {table.full_name} has no column {name!r}",
                hint=suggestion(name, known, f"use one of its columns: {', '.join(sorted(by_name))}"),
            )
        if folded(name) in found:
            raise SchemaError(
                f"the column {name!r} of {table.full_name} is selected twice", hint="name each column once"
            )
        found[folded(name)] = by_name[folded(name)]
    return tuple(found.values())


def name_list(names: object, argument: str) -> list[str]:
    """An argument that lists names: a single string would be read as a list of its letters."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        shown = repr(names) if isinstance(names, str) else '"name"'
        raise SchemaError(f"{argument} is {names!r}, and not a list of names", hint=f"write {argument}=[{shown}]")
    found = list(names)
    for name in found:
        if not isinstance(name, str):
            raise SchemaError(f"{argument} contains {name!r}, which is not a name", hint="write names as strings")
    return found


_SORT = f"""
    SELECT e.expression, e.sort_direction, e.null_order
    FROM ducklake_sort_info AS i JOIN ducklake_sort_expression AS e ON e.sort_id = i.sort_id AND e.table_id = i.table_id
    WHERE i.table_id = $2 AND {visible_at(row="i")} ORDER BY e.sort_key_index
"""  # noqa: S608
_DEFAULTS = f"""
    SELECT column_name, default_value, default_value_type FROM ducklake_column
    WHERE table_id = $2 AND parent_column IS NULL AND {visible_at()} ORDER BY column_order
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Properties of a table besides its columns and partition keys."""

    sorted_by: tuple[str, ...]  # the sort order, as for `Lake.create_table`
    defaults: Mapping[str, str]  # literal defaults by column, as text
    computed: tuple[str, ...]  # the columns whose default is an expression, and `the sort order` if it is one


def table_options(reader: CatalogReader, table: TableInfo, snapshot_id: int) -> TableOptions:
    """Returns the options of a table at a snapshot."""
    with reader.transaction() as transaction:
        sort = transaction.rows(_SORT, [snapshot_id, table.table_id])
        columns = transaction.rows(_DEFAULTS, [snapshot_id, table.table_id])
    sorted_by = _sort_keys(sort, table)
    given = [(name, value, kind) for name, value, kind in columns if value not in (None, "NULL")]
    return TableOptions(
        sorted_by or (),
        {name: value for name, value, kind in given if kind == "literal"},
        (*(name for name, _, kind in given if kind != "literal"), *(("the sort order",) if sorted_by is None else ())),
    )


def _sort_keys(rows: Sequence[tuple[Any, ...]], table: TableInfo) -> tuple[str, ...] | None:
    """The sort keys as text; None if one is not a column."""
    known = {column.name for column in table.columns}
    keys = []
    for expression, direction, nulls in rows:
        if None in (expression, direction, nulls):
            return None
        quoted = re.fullmatch(r'"((?:[^"]|"")+)"', expression)
        name = quoted[1].replace('""', '"') if quoted else expression
        if name not in known:
            return None
        keys.append(f"{name} {direction} {nulls.replace('_', ' ')}")
    return tuple(keys)


def table_folder(reader: CatalogReader, schema: str, table: str, snapshot_id: int) -> str:
    """Returns the folder that DuckLake will use for a new table, if the names are valid folder names."""
    with reader.transaction() as transaction:
        found = transaction.rows(
            "SELECT path, path_is_relative FROM ducklake_schema "  # noqa: S608
            f"WHERE lower(schema_name) = lower($2) AND {visible_at()}",
            [snapshot_id, schema],
        )
        path, is_relative = found[0] if found else (f"{schema}/", True)
        return compose_path(transaction.data_path, path, is_relative=is_relative) + f"{table}/"


_TABLE = f"SELECT value FROM ducklake_tag WHERE object_id = $2 AND key = 'comment' AND {visible_at()}"  # noqa: S608
_COMMENTS = (
    f"SELECT column_id, value FROM ducklake_column_tag WHERE table_id = $2 AND key = 'comment' AND {visible_at()}"  # noqa: S608
)


@dataclass(frozen=True, slots=True)
class Comments:
    """The comments of a table at a snapshot."""

    table: str | None  # the comment of the table; None if it has none
    columns: Mapping[str, str]  # the comments of its columns that have one, by name


def comments(reader: CatalogReader, table: TableInfo, snapshot_id: int) -> Comments:
    """Returns the comments of a table at a snapshot; an empty comment counts as none."""
    with reader.transaction() as transaction:
        of_table = transaction.rows(_TABLE, [snapshot_id, table.table_id])
        of_columns = dict(transaction.rows(_COMMENTS, [snapshot_id, table.table_id]))
    found = {column.name: of_columns.get(column.field_id) for column in table.columns}
    return Comments(
        next((text for (text,) in of_table if text), None), {name: text for name, text in found.items() if text}
    )
