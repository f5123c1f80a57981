"""MERGE INTO as a table of actions: DuckLake's own MERGE INTO runs at most one UPDATE or DELETE."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakeconf.engines.base import ROW_ID
from lakeconf.errors import QueryError, UnsupportedError
from lakeconf.sql import folded, identifier
from lakeconf.write.merge_clauses import ACTION, IN_SOURCE
from lakeconf.write.merge_text import Clause
from lakeconf.write.statement import Statement

# The temporary table with a row for each row that the statement changes or inserts.
ACTIONS = "temp.main.__lakeconf_actions"
_DEFAULT = "a MERGE INTO with several actions sets a column to its default value"
_LIST = "list the columns: UPDATE SET a = s.a, INSERT (a) VALUES (s.a)"


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
    return sum(clause.kind in ("update", "delete") for clause in statement.merge.clauses) < 2


def actions_of(statement: Statement, table: str, types: Mapping[str, str], source_columns: Sequence[str]) -> Actions:
    """The steps of a MERGE INTO that DuckLake does not support.

    Args:
        statement: The statement.
        table: The quoted full name of the table.
        types: The columns of the table and the DuckDB names of their types.
        source_columns: The columns of the source; empty if they are unknown.

    Raises:
        UnsupportedError: A clause uses `*` without known columns, or DEFAULT.
    """
    clauses, columns = statement.merge.clauses, list(types)
    own = identifier(statement.target.alias or statement.target.name)
    row_id = f"{own}.rowid"
    values = [dict(_values(clause, statement, columns, source_columns)) for clause in clauses]
    chosen = " ".join(
        f"WHEN {_applies(clause, row_id)} THEN {-1 if clause.kind == 'nothing' else index}"
        for index, clause in enumerate(clauses)
    )
    selected = [f"{row_id} AS {ROW_ID}", f"CASE {chosen} END AS {ACTION}"]
    for position, column in enumerate(columns):
        # Without casts, all values of the column would become the widest type of its values, such as DOUBLE.
        new = " ".join(
            f"WHEN {index} THEN CAST(({given[folded(column)]}) AS {types[column]})"
            for index, given in enumerate(values)
            if folded(column) in given
        )
        kept = f"{own}.{identifier(column)}"
        value = f"CASE {ACTION} {new} ELSE {kept} END" if new else kept
        selected.append(f"{value} AS __lakeconf_{position}")
    query = _joined(statement, selected)
    computed = f"CREATE TEMP TABLE {ACTIONS.rpartition('.')[2]} AS SELECT * FROM ({query}) WHERE {ACTION} >= 0"
    twice = f"SELECT {ROW_ID} FROM {ACTIONS} WHERE {ROW_ID} IS NOT NULL GROUP BY {ROW_ID} HAVING count(*) > 1 LIMIT 1"
    return Actions(computed, twice, tuple(_steps(statement, values, table, columns)))


def _applies(clause: Clause, row_id: str) -> str:
    """The condition of a clause for a row of the join."""
    found, given = f"{row_id} IS NOT NULL", f"{IN_SOURCE} IS NOT NULL"
    side = {"matched": f"{found} AND {given}", "target": f"{row_id} IS NULL", "source": f"{IN_SOURCE} IS NULL"}
    return side[clause.side] if clause.condition is None else f"{side[clause.side]} AND ({clause.condition})"


def _joined(statement: Statement, selected: Sequence[str]) -> str:
    """The query for the actions: the source, joined with the table."""
    merge, source = statement.merge, statement.tree.args["using"]
    alias = source.alias or source.name
    if not alias:
        raise UnsupportedError("the source of the MERGE INTO has no name", hint="write USING (SELECT …) AS s")
    sides = {clause.side for clause in merge.clauses}
    both = {"source", "target"} <= sides
    how = "FULL" if both else "RIGHT" if "source" in sides else "LEFT" if "target" in sides else "INNER"
    marked = f"(SELECT *, 1 AS {IN_SOURCE} FROM {merge.source}) AS {identifier(alias)}"
    return f"{merge.with_} SELECT {', '.join(selected)} FROM {marked} {how} JOIN {merge.target} {merge.join}"


def _values(
    clause: Clause, statement: Statement, columns: Sequence[str], source_columns: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """The columns that a clause sets, in lower case, with their values."""
    if clause.kind not in ("update", "insert"):
        return
    if clause.defaults:
        raise UnsupportedError(_DEFAULT, hint=_LIST)
    if clause.values is None:
        yield from _all_values(clause, statement, columns, source_columns)
        return
    names = columns if clause.columns is None else clause.columns
    if len(names) != len(clause.values):
        raise UnsupportedError(
            f"an INSERT sets {len(names)} columns to {len(clause.values)} values",
            hint="write one value for each column",
        )
    known = set(map(folded, columns))
    for name, value in zip(names, clause.values, strict=True):
        if folded(name) not in known:
            raise QueryError(
                f"{statement.target.name} has no column {name!r}, which the MERGE INTO sets",
                hint="set columns of the table",
            )
        if value.strip().lower() == "default":
            raise UnsupportedError(_DEFAULT, hint=_LIST)
        yield folded(name), value


def _all_values(
    clause: Clause, statement: Statement, columns: Sequence[str], source_columns: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """The values of a clause that sets all columns."""
    source = statement.tree.args["using"]
    name = identifier(source.alias or source.name)
    known = {folded(column) for column in columns}
    fits = known.issuperset(map(folded, source_columns)) if clause.by_name else len(source_columns) == len(columns)
    if not source_columns or not fits:
        raise UnsupportedError(
            "a MERGE INTO with several actions uses `*`, and the columns of its source are not those of the table",
            hint=_LIST,
        )
    targets = source_columns if clause.by_name else columns
    for column, given in zip(targets, source_columns, strict=True):
        yield folded(column), f"{name}.{identifier(given)}"


def _steps(
    statement: Statement, values: Sequence[Mapping[str, str]], table: str, columns: Sequence[str]
) -> Iterator[str]:
    """The statements that carry out the actions."""
    kinds = [clause.kind for clause in statement.merge.clauses]
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
