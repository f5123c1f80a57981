"""Short forms of DuckDB's SQL: named windows are written in full, others are refused.

sqlglot does not resolve the names in them. The plan of the result must be equal to that of the query, so a mistake here
is an error.
"""

from __future__ import annotations

from sqlglot import exp

from lakeconf.engines.spark.sql.coercion import refused


def written_in_full(tree: exp.Expr) -> None:
    """Copies each window that WINDOW names to where a parsed query uses it.

    Raises:
        UnsupportedError: The query has a short form that is not translated.
    """
    for join in tree.find_all(exp.Join):
        if join.args.get("method"):
            raise refused(join, "name the columns with USING" if join.args["method"] == "NATURAL" else "")
    for union in tree.find_all(exp.SetOperation):
        if union.args.get("by_name"):
            raise refused(union, "list the columns in the same order instead of BY NAME")
    for distinct in tree.find_all(exp.Distinct):
        if distinct.args.get("on"):
            raise refused(distinct, "use QUALIFY row_number() OVER (PARTITION BY … ORDER BY …) = 1")
    for select in tree.find_all(exp.Select):
        _write_windows(select)


def _write_windows(select: exp.Select) -> None:
    named = {window.name.lower(): window for window in select.args.get("windows") or ()}
    for window in select.find_all(exp.Window) if named else ():
        name = window.args.get("alias")
        if name is None or window.find_ancestor(exp.Select) is not select:
            continue
        found = named.get(name.name.lower())
        if found is None or any(window.args.get(part) for part in ("partition_by", "order", "spec")):
            raise refused(window, "write the window in full")
        window.set("alias", None)
        for part, value in found.copy().args.items():
            if part != "this":
                window.set(part, value)
    select.set("windows", None)
