"""SQL of the user on tables of which DuckLake would look for rows in the wrong buckets.

`lakeconf.catalog.pruning.bucket_keys` says when it does. A query reads such a table through a subquery that hides the
column: DuckDB does not push conditions on its value into the files. What cannot be changed in this way is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from lakeconf.catalog.column_types import Fact, has
from lakeconf.catalog.pruning.bucket_keys import has_other_rows
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
# A table by its schema and its name, in lower case.
Key = tuple[str, str]
# What names columns without their names, besides `*`: `FROM t`, `NATURAL JOIN t`, `INTERSECT`, `COLUMNS(…)`.
_UNNAMED = re.compile(
    r"\*|#|\b(?:columns|except|intersect|join|natural|table|using)\b|\bfrom\b.*\bfrom\b|\bset\b.*\bfrom\b", re.DOTALL
)


@dataclass(frozen=True)
class HiddenColumns:
    """The tables whose rows DuckLake would miss, each with the columns whose buckets are wrong."""

    alias: str  # the name of the lake
    now: Mapping[Key, tuple[str, ...]]  # at the snapshot that a query reads, unless it names another one
    ever: frozenset[Key]  # those at any snapshot, by all names that they have had

    @classmethod
    def load(cls, reader: CatalogReader, snapshot_id: int | None = None) -> HiddenColumns:
        """Finds the tables at a snapshot; at the one that queries read without it."""
        if snapshot_id is None:  # a lake may be attached at an earlier one
            ((snapshot_id,),) = reader.connection.rows("FROM ducklake_current_snapshot(?)", [reader.alias])
        with reader.transaction() as transaction:
            now = dict[Key, tuple[str, ...]]()
            for schema, name in transaction.rows(_BUCKETED, [snapshot_id]):
                columns = find_table(transaction, joined_name(schema, name), snapshot_id).columns
                if wrong := tuple(column.name for column in columns if is_in_wrong_buckets(column)):
                    now[schema.lower(), name.lower()] = wrong
            return cls(reader.alias, now, _ever(transaction))

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
            f"DuckLake would miss rows of {table} {where}: the table has rows from before its bucket key, or a column "
            "whose equal values are in different buckets",
            hint=f"{way}; or write the rows again with the current key: table.overwrite(table.scan())",
        )


def _subquery(table: str, columns: Iterable[str]) -> str:
    values = ", ".join(f"{not_pushed_down(name)} AS {name}" for name in map(identifier, columns))
    return f"(SELECT * REPLACE ({values}) FROM {table})"  # noqa: S608


def _may_filter(sql: str, columns: Iterable[str]) -> bool:
    """False if a statement certainly does not use these columns to find rows."""
    text = sql.lower().replace('""', '"')
    return any(column.lower() in text for column in columns) or bool(columns and _UNNAMED.search(text))


def _ever(transaction: MetadataTransaction) -> frozenset[Key]:
    found = set[Key]()
    for schema, name, table_id, partition_id, first, last, types in transaction.rows(_EVER_BUCKETED):
        is_stable = len(types) == 1 and has(types[0], Fact.HASHED)
        if not is_stable or has_other_rows(transaction, table_id, partition_id, first, last):
            found.add((schema.lower(), name.lower()))
    return frozenset(found)
