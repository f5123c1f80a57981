"""The tables that a query names, in the tree of sqlglot."""

from __future__ import annotations

from sqlglot import exp

from lakeconf.sql import folded


def table_references(query: exp.Query) -> list[exp.Table]:
    """The places in a query that name a table, and not one of its CTEs."""
    local = {folded(cte.alias) for cte in query.find_all(exp.CTE)}
    return [table for table in query.find_all(exp.Table) if table.db or folded(table.name) not in local]


def point_to(table: exp.Table, view: str) -> None:
    """Makes a place name a view instead; its alias, its joins and its sample stay.

    Args:
        table: The place.
        view: The name of the view.
    """
    if not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
    table.set("this", exp.to_identifier(view, quoted=True))
    table.set("db", None)
    table.set("catalog", None)
