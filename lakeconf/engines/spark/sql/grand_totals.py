"""The grand total of ROLLUP, CUBE and GROUPING SETS. DuckDB returns it even if no row is read; Spark does not.

The query gets one additional row, which all aggregates ignore. Without other rows, it makes the grand total; the other
groups that consist of it alone are removed.
"""

from __future__ import annotations

from sqlglot import exp

from lakeconf.engines.spark.sql.aggregates import AGGREGATES
from lakeconf.engines.spark.sql.coercion import refused
from lakeconf.engines.spark.sql.typed_tree import COLUMNS, set_type, type_of
from lakeconf.engines.spark.sql.value_types import BOOLEAN

_ROWS, _PRESENT, _KEY = "lakeconf_rows", "lakeconf_present", "lakeconf_key"
_MOVED = ("from_", "joins", "laterals", "where")
_ANALYTICS = (exp.Rollup, exp.Cube, exp.GroupingSets)


def keep_grand_total(select: exp.Select) -> None:
    """Changes a SELECT so that Spark returns the row of its grand total, if it has one, for any rows.

    Raises:
        UnsupportedError: The SELECT depends on a query around it, or a subquery has an alias of this SELECT.
    """
    group = select.args.get("group")
    if group is None or select.args.get("from_") is None or not _has_grand_total(group):
        return
    _check_scopes(select)
    rows = _Rows(select)
    if not rows.keys:
        _group_by_nothing(select)
        return
    if any(sum(map(_can_be_nothing, part.expressions)) > 1 for part in group.args.get("grouping_sets") or ()):
        raise refused(group, "with two grand totals")
    for part in _parts_after_grouping(select):
        rows.take_values(part)
    rows.move()
    _remove_other_groups(select, len(rows.keys))


def _has_grand_total(group: exp.Expr) -> bool:
    keys = [key for key in group.expressions if not _is_nothing(key)]
    sets = group.args.get("grouping_sets") or ()
    return not keys and not group.args.get("all") and all(any(map(_can_be_nothing, part.expressions)) for part in sets)


def _is_nothing(key: exp.Expr) -> bool:
    return isinstance(key, exp.Tuple) and not key.expressions


def _can_be_nothing(key: exp.Expr) -> bool:
    nested = isinstance(key, exp.GroupingSets) and any(map(_can_be_nothing, key.expressions))
    return _is_nothing(key) or isinstance(key, exp.Rollup | exp.Cube) or nested


def _group_by_nothing(select: exp.Select) -> None:
    """Removes `GROUP BY ()`, which the aggregates of the SELECT mean without it."""
    if len(list(select.args["group"].find_all(exp.Tuple))) > 1:
        raise refused(select.args["group"])
    aggregates = [node for node in select.find_all(*AGGREGATES) if node.find_ancestor(exp.Select) is select]
    if all(map(_is_window_function, aggregates)):
        raise refused(select.args["group"], "without an aggregate")
    select.set("group", None)


def _check_scopes(select: exp.Select) -> None:
    """Refuses queries in which a name of a column does not tell its table."""
    known = {part.alias_or_name for part in select.find_all(exp.Table, exp.Subquery)}
    if any(column.table and column.table not in known for column in select.find_all(exp.Column)):
        raise refused(select.args["group"], "in a correlated subquery")
    for part in _parts_after_grouping(select):
        if any(query.alias_or_name in _sources(select) for query in part.find_all(exp.Table, exp.Subquery)):
            raise refused(select.args["group"], "with a subquery that has an equal alias")


def _sources(select: exp.Select) -> set[str]:
    tables = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or ())]
    return {table.alias_or_name for table in tables}


def _parts_after_grouping(select: exp.Select) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    for name, part in select.args.items():
        children = part if isinstance(part, list) else [part]
        if name not in (*_MOVED, "with_"):
            found += [child for child in children if isinstance(child, exp.Expr)]
    return found


def _is_window_function(node: exp.Expr) -> bool:
    outer = node.parent if isinstance(node.parent, exp.Filter) else node
    return isinstance(outer.parent, exp.Window) and outer.arg_key == "this"


class _Rows:
    """The rows that a SELECT groups, with one more.

    Keys have columns of their own. Spark sets them to NULL for the total, and it finds only plain columns in HAVING.
    """

    def __init__(self, select: exp.Select) -> None:
        self._select = select
        self._sources = _sources(select)
        self.keys: list[exp.Expr] = []
        for analytics in select.args["group"].find_all(*_ANALYTICS):
            for part in analytics.expressions:
                for key in part.expressions if isinstance(part, exp.Tuple) else [part]:
                    if not isinstance(key, _ANALYTICS) and key.unnest() not in self.keys:
                        self.keys.append(key.unnest().copy())
        self._values: dict[str, exp.Expr] = {f"{_KEY}{number}": key for number, key in enumerate(self.keys)}

    def take_values(self, node: exp.Expr, *, aggregated: bool = False) -> None:
        """Replaces keys and columns by columns of the rows, and makes aggregates ignore the additional row."""
        aggregates = isinstance(node, AGGREGATES) and not _is_window_function(node)
        aggregates = aggregates and node.find_ancestor(exp.Select) is self._select
        if not aggregated and node in self.keys:
            self._replace(node, f"{_KEY}{self.keys.index(node)}")
        elif isinstance(node, exp.Column):
            if node.table in self._sources:
                self._replace(node, f"{_ROWS}.{node.table}.{node.name}")
        else:
            inside = aggregated or aggregates or (isinstance(node, exp.Filter) and not _is_window_function(node.this))
            for child in list(node.iter_expressions()):
                self.take_values(child, aggregated=inside)
            if aggregates:
                _ignore_additional_row(node)

    def _replace(self, node: exp.Expr, name: str) -> None:
        self._values.setdefault(name, node.copy())
        node.replace(_column(name, type_of(node).name))

    def move(self) -> None:
        """Makes the SELECT read these rows instead of its tables."""
        read, row = exp.Select(), exp.Select()
        for name, value in self._values.items():
            read.select(exp.alias_(value, name, quoted=True), copy=False)
            row.select(exp.alias_(exp.Null(), name, quoted=True), copy=False)
        read.select(exp.alias_(_boolean(value=True), _PRESENT, quoted=True), copy=False)
        row.select(exp.alias_(_boolean(value=False), _PRESENT, quoted=True), copy=False)
        for name in _MOVED:
            part = self._select.args.get(name)
            self._select.set(name, None)
            read.set(name, part)
        both = exp.Union(this=read, expression=row, distinct=False)
        types = [(name, type_of(value).name) for name, value in self._values.items()]
        for query in (read, row, both):
            query.meta[COLUMNS] = [*types, (_PRESENT, BOOLEAN)]
        alias = exp.TableAlias(this=exp.to_identifier(_ROWS, quoted=True))
        self._select.set("from_", exp.From(this=exp.Subquery(this=both, alias=alias)))


def _ignore_additional_row(aggregate: exp.Expr) -> None:
    present = _column(_PRESENT, BOOLEAN)
    if isinstance(aggregate.parent, exp.Filter):
        where = aggregate.parent.expression
        where.set("this", _connected(exp.And, present, where.this.copy()))
        return
    made = exp.Filter(this=aggregate.copy(), expression=exp.Where(this=present))
    aggregate.replace(set_type(made, type_of(aggregate).name))


def _remove_other_groups(select: exp.Select, keys: int) -> None:
    """Keeps groups that have a row, and the grand total, in which no key is used."""
    present = set_type(exp.LogicalOr(this=_column(_PRESENT, BOOLEAN)), BOOLEAN)
    numbers = (set_type(exp.func("grouping_id"), "BIGINT"), set_type(exp.Literal.number(2**keys - 1), "BIGINT"))
    is_total = set_type(exp.EQ(this=numbers[0], expression=numbers[1]), BOOLEAN)
    condition = _connected(exp.Or, present, is_total)
    having = select.args.get("having")
    if having is not None:
        _name_keys(select, having)
        condition = _connected(exp.And, condition, having.this.copy())
    select.set("having", exp.Having(this=condition))


def _name_keys(select: exp.Select, having: exp.Expr) -> None:
    """Replaces the keys in HAVING by columns of the result: with `grouping_id`, Spark finds only those."""
    for key in list(having.find_all(exp.Column)):
        if key.table == _ROWS and key.name.startswith(_KEY) and key.find_ancestor(exp.Grouping) is None:
            named = [item for item in select.expressions if item.unalias() == key]
            if not named:
                raise refused(select.args["group"], "HAVING uses a key that is not selected")
            key.replace(set_type(exp.column(named[0].alias_or_name, quoted=True), type_of(key).name))


def _connected(kind: type[exp.And | exp.Or], one: exp.Expr, other: exp.Expr) -> exp.Expr:
    sides = [set_type(exp.Paren(this=side), BOOLEAN) for side in (one, other)]
    return set_type(kind(this=sides[0], expression=sides[1]), BOOLEAN)


def _column(name: str, type_name: str) -> exp.Expr:
    return set_type(exp.column(name, table=_ROWS, quoted=True), type_name)


def _boolean(*, value: bool) -> exp.Expr:
    return set_type(exp.Boolean(this=value), BOOLEAN)
