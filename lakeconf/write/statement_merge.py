"""MERGE INTO as the clauses of `Table.merge`, and the check that one row of the source matches each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import narwhals as nw
from sqlglot import exp

from lakeconf.sql import folded, identifier
from lakeconf.write.merge_clauses import Clauses, Delete, Insert, Update
from lakeconf.write.statement import Statement, is_plain


@dataclass(frozen=True)
class _Sides:
    """The columns of the table and of the frame, and the names by which the statement refers to both.

    Attributes:
        target: The alias of the table, or its name.
        source: The alias of the frame, or its name.
        columns: The columns of the table.
        given: The columns of the frame that the table has, as the table names them.
        positions: True if the frame has the columns of the table in the same order, so that a `*` means the same
            whether DuckDB matches by name or by position.
    """

    target: str
    source: str
    columns: Sequence[str]
    given: Sequence[str]
    positions: bool

    def of_source(self, value: exp.Expr) -> str | None:
        """The column of the table with the name of a column of the frame; None if the value is anything else."""
        return self._column(value, self.source, self.given)

    def of_target(self, value: exp.Expr) -> str | None:
        """The column of the table; None if the value is anything else."""
        return self._column(value, self.target, self.columns)

    def _column(self, value: exp.Expr, table: str, names: Sequence[str]) -> str | None:
        if not isinstance(value, exp.Column) or value.args.get("db") or folded(value.table) != table:
            return None
        return next((name for name in names if folded(name) == folded(value.name)), None)


def clauses_of(statement: Statement, columns: Sequence[str], found: Sequence[str]) -> Clauses | None:
    """The clauses of a merge with a frame.

    Args:
        statement: A MERGE INTO whose source is a frame.
        columns: The columns of the table.
        found: The columns of the frame.

    Returns:
        The clauses; None if they cannot express the statement, such as conditions or computed values.
    """
    tree = statement.tree
    source = tree.args["using"]
    if not is_plain(source) or any(clause.by_name or clause.defaults for clause in statement.merge.clauses):
        return None
    names = {folded(name) for name in found}
    given = [column for column in columns if folded(column) in names]
    positions = [folded(column) for column in columns] == [folded(name) for name in found]
    target_name = folded(statement.target.alias or statement.target.name)
    sides = _Sides(target_name, folded(source.alias or source.name), columns, given, positions)
    on = _keys(tree, sides)
    whens = tree.args["whens"].expressions
    actions = [_action(when, sides) for when in whens]
    if not on or None in actions:
        return None
    matched = tuple(
        action
        for when, action in zip(whens, actions, strict=True)
        if when.args["matched"] and isinstance(action, (Update, Delete))
    )
    # Without conditions, there is one clause of each kind.
    insert = next((action for action in actions if isinstance(action, Insert)), None)
    by_source = Delete() if any(when.args["source"] for when in whens) else None
    return Clauses(on, matched, insert, by_source)


def matched_twice(statement: Statement) -> str | None:
    """The query for rows of the table that the statement would change more than once; None if it cannot change any.

    DuckDB changes such a row several times, in any order.

    Args:
        statement: A MERGE INTO.
    """
    merge = statement.merge
    cases = [clause for clause in merge.clauses if clause.side == "matched"]
    if not cases:
        return None
    row_id = f"{identifier(statement.target.alias or statement.target.name)}.rowid"
    acts = " ".join(f"WHEN {clause.condition or 'true'} THEN {clause.kind != 'nothing'}" for clause in cases)
    return (
        f"{merge.with_} SELECT {row_id} FROM {merge.target} JOIN {merge.source} {merge.join} "
        f"WHERE CASE {acts} ELSE false END GROUP BY {row_id} HAVING count(*) > 1 LIMIT 1"
    )


def _keys(tree: exp.Expr, sides: _Sides) -> tuple[str, ...]:
    """The columns that the statement matches on; empty if it matches on anything else."""
    if tree.args.get("using_cond"):
        names = {folded(name.name) for name in tree.args["using_cond"]}
        found = tuple(name for name in sides.given if folded(name) in names)
        return found if len(found) == len(names) else ()
    keys = []
    for condition in tree.args["on"].unnest().flatten() if isinstance(tree.args["on"], exp.And) else [tree.args["on"]]:
        equal = condition.unnest()
        if not isinstance(equal, exp.EQ):
            return ()
        pair = {sides.of_target(equal.left) or sides.of_target(equal.right)}
        pair.add(sides.of_source(equal.right) or sides.of_source(equal.left))
        if len(pair) != 1 or None in pair:
            return ()
        keys += [name for name in pair if name is not None]
    return tuple(dict.fromkeys(keys))


def _action(when: exp.Expr, sides: _Sides) -> Update | Delete | Insert | None:
    """The action of a clause; None if it has a condition, or computes values."""
    then = when.args["then"]
    if when.args.get("condition") is not None:
        return None
    if isinstance(then, exp.Var) and then.name.upper() == "DELETE":
        return Delete()
    if isinstance(then, exp.Update) and when.args["matched"]:
        return _update(then, sides)
    if isinstance(then, exp.Insert) and not when.args["matched"] and not when.args["source"]:
        return _insert(then, sides)
    return None


def _update(then: exp.Update, sides: _Sides) -> Update | None:
    settings = then.expressions
    if not settings or (len(settings) == 1 and isinstance(settings[0], exp.Star)):
        return Update() if sides.positions else None
    named: dict[str, str] = {}
    for setting in settings:
        if not isinstance(setting, exp.EQ) or not isinstance(setting.left, exp.Column) or setting.left.table:
            return None
        name = next((name for name in sides.columns if folded(name) == folded(setting.left.name)), None)
        value = sides.of_source(setting.right)
        if name is None or value is None or name in named:
            return None
        named[name] = f"source_{value}"
    same = {name: f"source_{name}" for name in sides.given}
    return Update() if named == same else Update({name: nw.col(value) for name, value in named.items()})


def _insert(then: exp.Insert, sides: _Sides) -> Insert | None:
    if then.expression:
        listed = (
            then.this.expressions if isinstance(then.this, exp.Tuple) else [exp.column(one) for one in sides.columns]
        )
        values = then.expression.expressions
        names = [folded(column.name) for column in listed]
        given = [folded(sides.of_source(value) or "") for value in values]
        whole = sorted(names) == sorted(map(folded, sides.columns))
        return Insert() if whole and names == given else None
    return Insert() if sides.positions else None
