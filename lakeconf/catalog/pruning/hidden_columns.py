"""SQL of the user on tables of which DuckLake or DuckDB would miss rows.

There are three reasons. DuckLake looks in the wrong buckets, as `lakeconf.catalog.pruning.bucket_keys` says. Files have
a column in the type before its promotion, and DuckDB rounds the value of a condition to that type
(https://github.com/duckdb/duckdb/issues/24900). And for `<>`, DuckLake skips files that have one number besides NaN.

A query reads such a table through a subquery that hides the column: DuckDB does not push conditions on its value into
the files. What cannot be changed in this way is an error.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn

from lakeconf.catalog.column_types import Fact, has
from lakeconf.catalog.pruning.bucket_keys import has_older_rows, has_other_rows
from lakeconf.catalog.pruning.predicates import is_in_wrong_buckets, not_pushed_down
from lakeconf.catalog.queries.parsed_query import NotOneQuery, TablePlace, parse_query, query_over_tables
from lakeconf.catalog.queries.sql_references import INDIRECT, Name, References, mentioned
from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.catalog.tables import DEFAULT_SCHEMA, find_table, joined_name
from lakeconf.ducklake import visible_at
from lakeconf.errors import UnsupportedError
from lakeconf.sql import folded, identifier

_BUCKETED = f"""
    SELECT DISTINCT s.schema_name, t.table_name
    FROM ducklake_partition_info AS i
    JOIN ducklake_partition_column AS c ON c.partition_id = i.partition_id AND c.table_id = i.table_id
    JOIN ducklake_table AS t ON t.table_id = i.table_id
    JOIN ducklake_schema AS s ON s.schema_id = t.schema_id
    WHERE c.transform LIKE 'bucket(%' AND {visible_at(row="i")} AND {visible_at(row="t")} AND {visible_at(row="s")}
"""  # noqa: S608
# The same at any snapshot, with the types that the columns of the keys have had.
_EVER_BUCKETED = """
    SELECT DISTINCT s.schema_name, t.table_name, i.table_id, i.partition_id, i.begin_snapshot,
        coalesce(i.end_snapshot - 1, (SELECT max(snapshot_id) FROM ducklake_snapshot)),
        (SELECT list(DISTINCT v.column_type) FROM ducklake_column AS v
         WHERE v.table_id = c.table_id AND v.column_id = c.column_id)
    FROM ducklake_partition_info AS i
    JOIN ducklake_partition_column AS c ON c.partition_id = i.partition_id AND c.table_id = i.table_id
    JOIN ducklake_table AS t ON t.table_id = i.table_id
    JOIN ducklake_schema AS s ON s.schema_id = t.schema_id
    WHERE c.transform LIKE 'bucket(%'
"""
# What names columns without their names, besides `*`: `FROM t`, `NATURAL JOIN t`, `INTERSECT`, `COLUMNS(…)`.
_UNNAMED = re.compile(
    r"\*|#|\b(?:columns|except|intersect|join|natural|table|using)\b|\bfrom\b.*\bfrom\b|\bset\b.*\bfrom\b", re.DOTALL
)
# The part of an UPDATE that finds rows: from its FROM or WHERE on. Values that it sets are not conditions.
_FOUND_BY = re.compile(r"\b(?:from|where)\b.*", re.DOTALL)
_NAMES = """
    JOIN ducklake_table AS t ON t.table_id = c.table_id
    JOIN ducklake_schema AS s ON s.schema_id = t.schema_id
"""
# The columns that had another type before or after. DuckDB compares integers of any width correctly.
_PROMOTED = f"""
    SELECT s.schema_name, t.table_name, c.table_id, c.column_name, min(v.begin_snapshot) AS since,
        bool_or(o.begin_snapshot > c.begin_snapshot) AS is_promoted_later
    FROM ducklake_column AS c
    JOIN ducklake_column AS v ON v.table_id = c.table_id AND v.column_id = c.column_id
        AND v.column_type = c.column_type
    JOIN ducklake_column AS o ON o.table_id = c.table_id AND o.column_id = c.column_id
        AND o.column_type <> c.column_type AND NOT (o.column_type LIKE '%int%' AND c.column_type LIKE '%int%')
    {_NAMES} WHERE {{visible}} GROUP BY ALL
"""  # noqa: S608
# The columns of which a file has NaN and one other number.
_WITH_NAN = f"""
    SELECT DISTINCT s.schema_name, t.table_name, c.column_name
    FROM ducklake_file_column_stats AS f
    JOIN ducklake_data_file AS d ON d.data_file_id = f.data_file_id
    JOIN ducklake_column AS c ON c.table_id = f.table_id AND c.column_id = f.column_id
    {_NAMES} WHERE f.contains_nan AND f.min_value = f.max_value AND {{visible}}
"""  # noqa: S608
_AT = " AND ".join(visible_at(row=row) for row in "cts")
# A table by its schema and its name, in lower case.
Key = tuple[str, str]


@dataclass(frozen=True)
class HiddenColumns:
    """The tables whose rows would be missed, each with the columns whose conditions miss them."""

    alias: str  # the name of the lake
    now: Mapping[Key, tuple[str, ...]]  # at the snapshot that a query reads, unless it names another one
    ever: frozenset[Key]  # those at any snapshot, by all names that they have had

    @classmethod
    def load(cls, reader: CatalogReader, snapshot_id: int | None = None) -> HiddenColumns:
        """Finds the tables at a snapshot; at the one that queries read without it."""
        if snapshot_id is None:  # a lake may be attached at an earlier one
            ((snapshot_id,),) = reader.connection.rows("FROM ducklake_current_snapshot(?)", [reader.alias])
        with reader.transaction() as transaction:
            now = defaultdict[Key, dict[str, None]](dict)
            for schema, name, column in _missed(transaction, snapshot_id):
                now[schema.lower(), name.lower()][column] = None
            return cls(reader.alias, {key: tuple(columns) for key, columns in now.items()}, _ever(transaction))

    def hide(self, sql: str, references: References | None, frames: Iterable[str], behind: Iterable[References]) -> str:
        """A query that finds all rows.

        Args:
            sql: The query.
            references: The names in it; None if DuckDB cannot describe it.
            frames: The frames that it names like tables.
            behind: The names in the views and macros that it uses.
        """
        self._check_behind(behind)
        named = sorted(mentioned(sql, {name for _, name in self.ever}).relations)
        if not named:
            return sql
        called = references.functions | references.table_functions if references is not None else INDIRECT
        if not called.isdisjoint(INDIRECT):
            self._fail(str(named[0]), "in a query that cannot be parsed, or that has its name in a string")
        try:
            tables = parse_query(sql).tables
        except NotOneQuery as error:
            self._fail(str(named[0]), f"in this query, which cannot be changed: {error.message}")
        own, changes = frozenset(map(folded, frames)), list[tuple[TablePlace, str]]()
        for place in tables:
            if place.is_described or (len(place.parts) == 1 and folded(place.parts[0]) in own):
                continue
            key = self._key(place.parts)
            if place.has_snapshot and key in self.ever:
                self._fail(place.name, "with AT", "query the snapshot without AT: lake.at(version=…).sql(…)")
            if key in self.now:
                changes.append((place, _subquery(sql[slice(*place.span)], self.now[key])))
        return query_over_tables(sql, changes)

    def check_statement(self, sql: str, tables: Iterable[Name], behind: Iterable[References]) -> None:
        """Rejects a statement that may look for rows of one of these tables by a column that must be hidden."""
        self._check_behind(behind)
        for table in sorted(tables):
            if _may_filter(sql, self.now.get(self._key(filter(None, table)), ())):
                self._fail(str(table), "in this statement", "use update, delete, merge or append of lake.table(…)")

    def check_sources(self, tables: Iterable[Key]) -> None:
        """Rejects tables that a query reads by way of a branch, if it could miss rows of one."""
        for table in sorted(tables):
            if table in self.now:
                self._fail(joined_name(*table), "through a branch", "use scan(where=…) of lake.table(…)")

    def _check_behind(self, behind: Iterable[References]) -> None:
        for references in behind:
            wrong = self.ever if references.past else self.now
            for table in sorted(references.relations):
                if self._key(filter(None, table)) in wrong:
                    self._fail(str(table), "through a view or a macro", "name the table instead of the view")

    def _key(self, parts: Iterable[str]) -> Key:
        """The table with a name in a query; DuckDB takes two parts for a lake and a table, too."""
        *before, name = (part.lower() for part in parts)
        if before and before[0] == self.alias.lower() and (len(before) > 1 or (before[0], name) not in self.ever):
            before = before[1:]
        return before[-1] if before else DEFAULT_SCHEMA, name

    def _fail(self, table: str, where: str, way: str = "use scan(where=…) of lake.table(…)") -> NoReturn:
        raise UnsupportedError(
            f"DuckLake would miss rows of {table} {where}: the table has rows from before its bucket key or the "
            "promotion of a column, or a column whose equal values are in different buckets, or NaN beside one number",
            hint=f"{way}; or write the rows again as the table is now: table.overwrite(table.scan())",
        )


def _subquery(table: str, columns: Iterable[str]) -> str:
    values = ", ".join(f"{not_pushed_down(name)} AS {name}" for name in map(identifier, columns))
    return f"(SELECT * REPLACE ({values}) FROM {table})"  # noqa: S608


def _may_filter(sql: str, columns: Iterable[str]) -> bool:
    """False if a statement certainly does not use these columns to find rows."""
    text = sql.lower().replace('""', '"')
    if text.lstrip().startswith("update"):
        conditions = _FOUND_BY.search(text)
        text = "" if conditions is None else conditions[0]
    return any(column.lower() in text for column in columns) or bool(columns and _UNNAMED.search(text))


def _missed(transaction: MetadataTransaction, snapshot_id: int) -> Iterator[tuple[str, str, str]]:
    """The columns whose conditions miss rows at a snapshot, with the schema and the name of their tables."""
    for schema, name in transaction.rows(_BUCKETED, [snapshot_id]):
        for column in find_table(transaction, joined_name(schema, name), snapshot_id).columns:
            if is_in_wrong_buckets(column):
                yield schema, name, column.name
    for schema, name, table_id, column, since, later in transaction.rows(_PROMOTED.format(visible=_AT), [snapshot_id]):
        if later or has_older_rows(transaction, table_id, since, snapshot_id):
            yield schema, name, column
    visible = f"{_AT} AND {visible_at(row='d')}"
    yield from transaction.rows(_WITH_NAN.format(visible=visible), [snapshot_id])


def _ever(transaction: MetadataTransaction) -> frozenset[Key]:
    found = set[Key]()
    for query in (_PROMOTED, _WITH_NAN):
        found |= {(schema.lower(), name.lower()) for schema, name, *_ in transaction.rows(query.format(visible="true"))}
    for schema, name, table_id, partition_id, first, last, types in transaction.rows(_EVER_BUCKETED):
        is_stable = len(types) == 1 and has(types[0], Fact.HASHED)
        if not is_stable or has_other_rows(transaction, table_id, partition_id, first, last):
            found.add((schema.lower(), name.lower()))
    return frozenset(found)
