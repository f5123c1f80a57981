"""Parses a statement of SQL that changes the rows of one table: INSERT, UPDATE, DELETE or MERGE INTO."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp
from sqlglot.errors import SqlglotError

from lakeconf.catalog import quiet_parser
from lakeconf.catalog.table_name import DEFAULT_SCHEMA, joined_name
from lakeconf.errors import QueryError, UnsupportedError
from lakeconf.sql import folded, parser_reason
from lakeconf.write.merge_text import MergeText, split_merge

_HINT = "write one INSERT, UPDATE, DELETE or MERGE INTO; lake.sql(…) runs queries"


@dataclass(frozen=True)
class Statement:
    """A statement.

    Attributes:
        text: The SQL, as the user wrote it.
        tree: The SQL as sqlglot parses it.
        alias: The alias of the lake.
    """

    text: str
    tree: exp.Insert | exp.Update | exp.Delete | exp.Merge
    alias: str

    @property
    def target(self) -> exp.Table:
        """The table that the statement changes."""
        into = self.tree.this
        found = into.this if isinstance(into, exp.Schema) else into
        if not isinstance(found, exp.Table) or not isinstance(found.this, exp.Identifier):
            raise QueryError("the statement does not name the table that it changes", hint=_HINT)
        return found

    @cached_property
    def merge(self) -> MergeText:
        """The parts of a MERGE INTO."""
        return split_merge(self.text)

    @property
    def columns(self) -> list[str]:
        """The columns that an INSERT lists; empty if it lists none."""
        into = self.tree.this
        return [column.name for column in into.expressions] if isinstance(into, exp.Schema) else []

    @property
    def sources(self) -> list[exp.Table]:
        """The tables, views and functions that the statement reads, without its common table expressions."""
        return [table for table in self.tree.find_all(exp.Table) if table is not self.target and not _is_cte(table)]

    def read_tables(self, frames: Collection[str]) -> dict[str, list[exp.Table]]:
        """The sources that are named like tables and are no frames, by their full names.

        Args:
            frames: The names of the frames, in lower case.
        """
        found: dict[str, list[exp.Table]] = {}
        for table in self.sources:
            if isinstance(table.this, exp.Identifier) and (table.db or folded(table.name) not in frames):
                found.setdefault(self.name_of(table), []).append(table)
        return found

    def name_of(self, table: exp.Table) -> str:
        """The full name of a table of the lake.

        Raises:
            QueryError: The name is that of a table of another database.
        """
        if table.catalog and folded(table.catalog) != folded(self.alias):
            raise QueryError(
                f"{table.sql('duckdb')} is a table of another database, and a statement uses one lake",
                hint=f"use tables of {self.alias}, the name of this lake; pass rows from elsewhere as a frame",
            )
        schema = DEFAULT_SCHEMA if self.is_in_default_schema(table) else table.db
        return joined_name(schema, table.name)

    def is_in_default_schema(self, table: exp.Table) -> bool:
        """True if a name has no schema: neither `t` nor `dev.t` for the lake `dev` does."""
        return not table.db or (not table.catalog and folded(table.db) == folded(self.alias))


def _is_cte(table: exp.Table) -> bool:
    """True if a name is that of a common table expression, which hides a table only where it is visible."""
    if table.db:
        return False
    below: exp.Expr = table
    above = below.parent
    while above is not None:
        visible: list[exp.Expr] = []
        if isinstance(above, exp.With):
            at = next(index for index, cte in enumerate(above.expressions) if cte is below)
            own = above.recursive and isinstance(below.this.unnest(), exp.SetOperation)
            visible = above.expressions[: at + own]
        elif above.args.get("with_") is not None and above.args["with_"] is not below:
            visible = above.args["with_"].expressions
        if any(folded(cte.alias) == folded(table.name) for cte in visible):
            return True
        below, above = above, above.parent
    return False


def is_plain(table: exp.Expr) -> bool:
    """True if a table in a statement has only a name, and an alias without columns."""
    alias = table.args.get("alias")
    named = all(part in ("this", "db", "catalog", "alias") for part, value in table.args.items() if value)
    return isinstance(table, exp.Table) and named and not (alias is not None and alias.args.get("columns"))


def has_only(tree: exp.Expr, *parts: str) -> bool:
    """True if a statement consists only of these parts."""
    return all(part in parts for part, value in tree.args.items() if value)


def parse_statement(sql: str, alias: str) -> Statement:
    """Parses a statement.

    Args:
        sql: The SQL, in DuckDB's dialect.
        alias: The alias of the lake.

    Raises:
        QueryError: The SQL is not a single statement that changes rows.
        UnsupportedError: DuckLake does not support a clause of the statement.
    """
    try:
        found = [one for one in quiet_parser.parsed(sql) if one is not None]
    except (SqlglotError, ValueError, RecursionError) as error:
        reason = parser_reason(error) or "it is nested too deeply"
        raise QueryError(f"the statement cannot be parsed: {reason}", hint=_HINT) from None
    tree = found[0] if len(found) == 1 else None
    if not isinstance(tree, (exp.Insert, exp.Update, exp.Delete, exp.Merge)):
        raise QueryError("the SQL is not a single statement that changes rows", hint=_HINT)
    if tree.args.get("returning"):
        raise UnsupportedError(
            "DuckLake does not support RETURNING", hint="read the rows afterwards with lake.sql(…) or table.changes(…)"
        )
    if tree.args.get("conflict") or tree.args.get("alternative"):
        raise UnsupportedError(
            "DuckLake tables have no keys, so INSERT cannot detect conflicts",
            hint="use MERGE INTO with WHEN MATCHED and WHEN NOT MATCHED",
        )
    statement = Statement(sql, tree, alias)
    if isinstance(tree, exp.Merge):
        _check_clauses(statement.merge)
    return statement


def _check_clauses(merge: MergeText) -> None:
    """Refuses a clause that never applies; DuckDB may apply it instead of the clause before it."""
    always = set()
    for clause in merge.clauses:
        if clause.side in always:
            raise UnsupportedError(
                "the MERGE INTO has a clause after one without a condition, so it would never apply",
                hint="remove it, or put the clause without a condition last",
            )
        if clause.condition is None:
            always.add(clause.side)
