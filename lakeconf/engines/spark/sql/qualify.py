"""QUALIFY, which Spark lacks: a condition on the rows of a subquery."""

from __future__ import annotations

from sqlglot import exp

from lakeconf.engines.spark.sql.coercion import refused


def check_qualify(node: exp.Expr) -> None:
    """Refuses QUALIFY where the order of the steps of a query would matter.

    Raises:
        UnsupportedError: The query also has DISTINCT or grouping sets.
    """
    select = node.parent
    group = None if select is None else select.args.get("group")
    sets = group is not None and any(group.args.get(part) for part in ("rollup", "cube", "grouping_sets"))
    if select is None or select.args.get("distinct") or sets:
        raise refused(node, "with DISTINCT, ROLLUP, CUBE or GROUPING SETS")


def without_qualify(tree: exp.Expr) -> exp.Expr:
    """The query of a translated query that has subqueries in place of QUALIFY."""
    while True:
        select = next((found for found in tree.find_all(exp.Select) if found.args.get("qualify")), None)
        if select is None:
            return tree
        made = _filtered(select.copy())
        if select is tree:
            tree = made
        else:
            select.replace(made)


def _filtered(inner: exp.Select) -> exp.Select:
    names = [item.alias_or_name for item in inner.expressions]
    values = [item.unalias().copy() for item in inner.expressions]
    condition = inner.args["qualify"].this.copy()
    outer = exp.Select()
    for part in ("order", "limit", "offset"):
        found = inner.args.get(part)
        if found is not None:
            inner.set(part, None)
            outer.set(part, found)
    for key in outer.args["order"].expressions if outer.args.get("order") else ():
        column = key.this
        if isinstance(column, exp.Column) and not column.table and column.name in names:
            place = names.index(column.name)
        else:
            place = len(values)
            values.append(column.copy())
        key.this.replace(_column(place))
    inner.set("qualify", None)
    inner.set(
        "expressions",
        [exp.alias_(value, f"c{number}", quoted=True) for number, value in enumerate([*values, condition])],
    )
    outer.set("expressions", [exp.alias_(_column(number), name, quoted=True) for number, name in enumerate(names)])
    outer.set("from_", exp.From(this=inner.subquery("lakeconf_rows")))
    return outer.where(_column(len(values)))


def _column(number: int) -> exp.Column:
    return exp.column(f"c{number}", quoted=True)
