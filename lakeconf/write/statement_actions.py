"""MERGE INTO as a table of actions: DuckLake's own MERGE INTO runs at most one UPDATE or DELETE."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from lakeconf.engines.base import ROW_ID
from lakeconf.errors import UnsupportedError
from lakeconf.sql import folded, identifier
from lakeconf.write.merge_clauses import ACTION, IN_SOURCE
from lakeconf.write.statement import Statement

# The temporary table with a row for each row that the statement changes or inserts.
ACTIONS = "temp.main.__lakeconf_actions"
_NOTHING = "DO NOTHING"


@dataclass(frozen=True)
class Actions:
    """The steps of a MERGE INTO.

    Attributes:
        computed: The statement that creates the table of actions.
        twice: The query for rows of the table with more than one action.
        statements: The statements that change the table, in order.
        dropped: The statement that removes the table of actions.
    """

    computed: str
    twice: str
    statements: tuple[str, ...]
    dropped: str = f"DROP TABLE {ACTIONS}"


def is_supported(statement: Statement) -> bool:
    """True if DuckLake runs the statement as it is."""
    changing = [when for when in _whens(statement) if _kind(when) in ("update", "delete")]
    return len(changing) < 2


def actions_of(statement: Statement, table: str, types: Mapping[str, str], source_columns: Sequence[str]) -> Actions:
    """The steps of a MERGE INTO that DuckLake does not support.

    Args:
        statement: The statement.
        table: The quoted full name of the table.
        types: The columns of the table and the DuckDB names of their types.
        source_columns: The columns of the source; empty if they are unknown.

    Raises:
        UnsupportedError: A clause uses `*` without known columns, or ERROR.
    """
    whens, target, columns = _whens(statement), statement.target, list(types)
    name = target.alias or target.name
    values = [dict(_values(when, statement, columns, source_columns)) for when in whens]
    row_id = exp.column("rowid", table=name)
    chosen = exp.Case()
    for index, when in enumerate(whens):
        chosen = chosen.when(_applies(when, row_id), exp.convert(-1 if _kind(when) == "nothing" else index))
    selected: list[exp.Expr] = [row_id.as_(ROW_ID), chosen.as_(ACTION)]
    for position, column in enumerate(columns):
        new = exp.Case(this=exp.column(ACTION))
        for index, given in enumerate(values):
            if folded(column) in given:
                # Without casts, all values of the column would become the widest type of its values, such as DOUBLE.
                new = new.when(exp.convert(index), exp.cast(given[folded(column)], types[column], dialect="duckdb"))
        kept = exp.column(exp.to_identifier(column, quoted=True), table=name)
        selected.append((new.else_(kept) if new.args.get("ifs") else kept).as_(f"__lakeconf_{position}"))
    query = _joined(statement, selected).sql(dialect="duckdb")
    computed = f"CREATE TEMP TABLE {ACTIONS.rpartition('.')[2]} AS SELECT * FROM ({query}) WHERE {ACTION} >= 0"
    twice = f"SELECT {ROW_ID} FROM {ACTIONS} WHERE {ROW_ID} IS NOT NULL GROUP BY {ROW_ID} HAVING count(*) > 1 LIMIT 1"
    return Actions(computed, twice, tuple(_steps(statement, values, table, columns)))


def _whens(statement: Statement) -> list[exp.Expr]:
    return list(statement.tree.args["whens"].expressions)


def _kind(when: exp.Expr) -> str:
    """`update`, `delete`, `insert` or `nothing`.

    Raises:
        UnsupportedError: It is another action.
    """
    then = when.args["then"]
    if isinstance(then, exp.Update):
        return "update"
    if isinstance(then, exp.Insert):
        return "insert"
    kinds = {"DELETE": "delete", _NOTHING: "nothing"}
    if not isinstance(then, exp.Var) or then.name.upper() not in kinds:
        raise UnsupportedError(
            f"the action {then.sql('duckdb')} of the MERGE INTO is not supported",
            hint="write UPDATE, DELETE, INSERT or DO NOTHING; use an audit to refuse rows",
        )
    return kinds[then.name.upper()]


def _applies(when: exp.Expr, row_id: exp.Column) -> exp.Expr:
    """The condition of a clause for a row of the join."""
    found, given = row_id.is_(exp.null()).not_(), exp.column(IN_SOURCE).is_(exp.null()).not_()
    side = found.and_(given) if when.args["matched"] else (given.not_() if when.args["source"] else found.not_())
    condition = when.args.get("condition")
    return side if condition is None else side.and_(condition.copy())


def _joined(statement: Statement, selected: Sequence[exp.Expr]) -> exp.Select:
    """The query for the actions: the source, joined with the table."""
    tree, whens = statement.tree, _whens(statement)
    source = tree.args["using"].copy()
    alias = source.alias or source.name
    if source.alias and not source.args["alias"].args.get("columns"):
        source.set("alias", None)
    marked = exp.select("*", exp.convert(1).as_(IN_SOURCE)).from_(source).subquery(alias)
    by_source, by_target = (
        any(not when.args["matched"] and bool(when.args["source"]) is side for when in whens) for side in (True, False)
    )
    how = "full" if by_source and by_target else "right" if by_source else "left" if by_target else "inner"
    on = tree.args["using_cond"] if tree.args.get("using_cond") else tree.args["on"].copy()
    query = exp.select(*selected).from_(marked)
    target = statement.target.copy()
    query = (
        query.join(target, join_type=how, using=on)
        if tree.args.get("using_cond")
        else query.join(target, join_type=how, on=on)
    )
    with_ = tree.args.get("with_")
    if with_ is not None:
        query.set("with_", with_.copy())
    return query


def _values(
    when: exp.Expr, statement: Statement, columns: Sequence[str], source_columns: Sequence[str]
) -> Iterator[tuple[str, exp.Expr]]:
    """The columns that a clause sets, in lower case, with their values."""
    then, source = when.args["then"], statement.tree.args["using"]
    listed = {"update": _settings, "insert": _inserted}.get(_kind(when))
    if listed is None:
        return
    pairs = listed(then, columns)
    if pairs is None:
        if len(source_columns) != len(columns):
            raise UnsupportedError(
                "a MERGE INTO with several actions uses `*`, and the columns of its source are not those of the table",
                hint="list the columns: UPDATE SET a = s.a, INSERT (a) VALUES (s.a)",
            )
        table = source.alias or source.name
        names = (exp.column(exp.to_identifier(name, quoted=True), table=table) for name in source_columns)
        pairs = list(zip(columns, names, strict=True))
    for column, value in pairs:
        yield folded(column), value.copy()


_Pairs = list[tuple[str, exp.Expr]]


def _settings(then: exp.Expr, _columns: Sequence[str]) -> _Pairs | None:
    """The settings of an UPDATE; None for `*`."""
    settings = then.expressions
    if not settings or isinstance(settings[0], exp.Star):
        return None
    pairs: _Pairs = []
    for setting in settings:
        left, right = setting.this, setting.expression
        if isinstance(left, exp.Tuple):
            values = right.expressions if isinstance(right, exp.Tuple) else []
            if len(values) != len(left.expressions):
                raise UnsupportedError("an UPDATE sets several columns to one value", hint="set each column")
            pairs += [(column.name, value) for column, value in zip(left.expressions, values, strict=True)]
        else:
            pairs.append((left.name, right))
    return pairs


def _inserted(then: exp.Expr, columns: Sequence[str]) -> _Pairs | None:
    """The values of an INSERT; None for `*`."""
    if not then.expression:
        return None
    names = [column.name for column in then.this.expressions] if isinstance(then.this, exp.Tuple) else list(columns)
    values = then.expression.expressions
    if len(values) != len(names):
        raise UnsupportedError(f"an INSERT sets {len(names)} columns to {len(values)} values")
    return list(zip(names, values, strict=True))


def _steps(
    statement: Statement, values: Sequence[dict[str, exp.Expr]], table: str, columns: Sequence[str]
) -> Iterator[str]:
    """The statements that carry out the actions."""
    kinds = [_kind(when) for when in _whens(statement)]
    numbers = {kind: [index for index, found in enumerate(kinds) if found == kind] for kind in kinds}
    if "delete" in numbers:
        rows = f"SELECT {ROW_ID} FROM {ACTIONS} WHERE {ACTION} IN ({_listed(numbers['delete'])})"
        yield f"DELETE FROM {table} WHERE rowid IN ({rows})"
    if "update" in numbers:
        changed = {column for index in numbers["update"] for column in values[index]}
        settings = ", ".join(
            f"{identifier(name)} = __lakeconf_a.__lakeconf_{position}"
            for position, name in enumerate(columns)
            if folded(name) in changed
        )
        own = identifier(statement.target.name)
        where = f"{own}.rowid = __lakeconf_a.{ROW_ID} AND __lakeconf_a.{ACTION} IN ({_listed(numbers['update'])})"
        yield f"UPDATE {table} SET {settings} FROM {ACTIONS} AS __lakeconf_a WHERE {where}"
    for index in numbers.get("insert", ()):
        given = [position for position, name in enumerate(columns) if folded(name) in values[index]]
        names = _listed(identifier(columns[position]) for position in given)
        found = _listed(f"__lakeconf_{position}" for position in given)
        yield f"INSERT INTO {table} ({names}) SELECT {found} FROM {ACTIONS} WHERE {ACTION} = {index}"


def _listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))
