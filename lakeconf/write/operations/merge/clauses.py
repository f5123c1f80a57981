"""The clauses of a merge: actions for rows that match and for rows that do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from math import isnan
from types import NoneType
from typing import Any, cast

import narwhals as nw

from lakeconf.catalog.pruning.where import check_constants
from lakeconf.catalog.tables import Column
from lakeconf.engines.engine import ROW_ID
from lakeconf.engines.spark.column_expressions import SparkColumn, as_narwhals
from lakeconf.errors import LakeconfError, PredicateError, SchemaError
from lakeconf.sql import folded
from lakeconf.write.changed_rows import DELETE, INSERT, NOTHING, UPDATE

# A column of the join, in addition to those of the frame and the table: NULL if no row of the frame matches.
IN_SOURCE = "__lakeconf_in_source"


class _Checked:
    def __post_init__(self) -> None:
        clause: Any = self
        object.__setattr__(clause, "when", as_narwhals(clause.when))
        if not isinstance(clause, Delete):
            if isinstance(clause.values, Mapping):
                values = {name: as_narwhals(value) for name, value in clause.values.items()}
                object.__setattr__(clause, "values", values)
            _check_values(clause)
        _check_condition(clause)


@dataclass(frozen=True)
class Update(_Checked):
    """Sets columns of a matched row.

    Attributes:
        values: New values by column name: a constant, or a narwhals expression over `source_<name>` and
            `target_<name>`. None sets every column of the frame to the frame's value.
        when: The condition; None means always.
    """

    values: Mapping[str, object] | None = None
    when: nw.Expr | SparkColumn | None = None


@dataclass(frozen=True)
class Delete(_Checked):
    """Deletes a row of the table.

    Attributes:
        when: The condition; None means always.
    """

    when: nw.Expr | SparkColumn | None = None


@dataclass(frozen=True)
class Insert(_Checked):
    """Inserts a row of the frame; columns without a value get their default, or NULL.

    Attributes:
        values: Values by column name: a constant, or a narwhals expression over `source_<name>`. None inserts the
            columns of the frame.
        when: The condition; None means always.
    """

    values: Mapping[str, object] | None = None
    when: nw.Expr | SparkColumn | None = None


def _check_values(clause: Update | Insert) -> None:
    values: object = clause.values
    if not isinstance(values, Mapping | None):
        kind = type(clause).__name__
        raise SchemaError(
            f"the values of an {kind} are {values!r}, and not a dictionary",
            hint=f'write {kind}({{"kind": nw.col("source_kind")}}), or {kind}() for all columns of the frame',
        )
    check_constants([value for value in (values or {}).values() if isinstance(value, nw.Expr)])


def _check_condition(clause: Update | Delete | Insert) -> None:
    when: object = clause.when
    if when is not None and not isinstance(when, nw.Expr):
        kind = type(clause).__name__
        raise PredicateError(
            f"the condition of {'a Delete' if kind == 'Delete' else f'an {kind}'} is {when!r}, and not an "
            "expression of narwhals",
            hint=f'write {kind}(when=nw.col("source_id") > 1)',
        )
    check_constants(when)


@dataclass(frozen=True)
class Clauses:
    """The clauses of a merge; see `Table.merge`."""

    on: tuple[str, ...]
    matched: tuple[Update | Delete, ...]
    not_matched: Insert | None
    not_matched_by_source: Delete | None

    def __post_init__(self) -> None:
        """Checks the types of the clauses."""
        clauses: tuple[tuple[str, Sequence[object], tuple[type, ...]], ...] = (
            ("matched", self.matched, (Update, Delete)),
            ("not_matched", (self.not_matched,), (Insert, NoneType)),
            ("not_matched_by_source", (self.not_matched_by_source,), (Delete, NoneType)),
        )
        for name, written, kinds in clauses:
            for clause in written:
                if not isinstance(clause, kinds):
                    raise LakeconfError(
                        f"{name} of a merge is {clause!r}", hint=f"write {name}={kinds[0].__name__}() or {name}=None"
                    )

    @property
    def deletes_matches(self) -> bool:
        """True if the merge only deletes all rows that match."""
        if len(self.matched) != 1 or self.not_matched is not None or self.not_matched_by_source is not None:
            return False
        (clause,) = self.matched
        return isinstance(clause, Delete) and clause.when is None


def action_of(clauses: Clauses) -> nw.Expr:
    """The action for a row of the join: `UPDATE`, `DELETE`, `INSERT` or `NOTHING`."""
    in_source, in_target = ~nw.col(IN_SOURCE).is_null(), ~nw.col(ROW_ID).is_null()
    cases: list[tuple[nw.Expr, str]] = []
    for clause in clauses.matched:
        matched = in_source & in_target
        name = DELETE if isinstance(clause, Delete) else UPDATE
        cases.append((matched if clause.when is None else matched & clause.when, name))
    if clauses.not_matched:
        when = clauses.not_matched.when
        cases.append((~in_target if when is None else ~in_target & when, INSERT))
    if clauses.not_matched_by_source:
        when = clauses.not_matched_by_source.when
        cases.append((~in_source if when is None else ~in_source & when, DELETE))
    return _first(cases, nw.lit(NOTHING))


def is_inserted(column: Column, in_frame: Sequence[Column], clauses: Clauses) -> bool:
    """True if inserted rows get a value of the merge for a column, and not its default."""
    inserted = clauses.not_matched.values if clauses.not_matched else None
    return column in in_frame if inserted is None else folded(column.name) in map(folded, inserted)


def value_after(
    column: Column, in_frame: Sequence[Column], clauses: Clauses, default: nw.Expr | None = None
) -> nw.Expr:
    """The value of a column after the merge; `default` is that of rows to insert, unless `is_inserted`."""
    ours, theirs = nw.col(f"target_{column.name}"), nw.col(f"source_{column.name}")
    cases: list[tuple[nw.Expr, object]] = []
    matched = ~nw.col(IN_SOURCE).is_null() & ~nw.col(ROW_ID).is_null()
    of_frame = theirs if column in in_frame else ours
    for clause in clauses.matched:
        values = clause.values if isinstance(clause, Update) else None
        new = of_frame if values is None else _named(values, column, ours)
        cases.append((matched if clause.when is None else matched & clause.when, new))
    inserted = clauses.not_matched.values if clauses.not_matched else None
    absent = ours if default is None else default
    # The table's value is NULL in a row that it does not have, and has the type of the column.
    rest = _named(inserted, column, absent) if inserted is not None else theirs if column in in_frame else absent
    return of_frame if all(new is of_frame for new in (rest, *(new for _, new in cases))) else _first(cases, rest)


def _named(values: Mapping[str, object], column: Column, other: nw.Expr) -> object:
    """The value for a column; `other` if there is none."""
    return {folded(name): value for name, value in values.items()}.get(folded(column.name), other)


def _first(cases: Sequence[tuple[nw.Expr, object]], default: object) -> nw.Expr:
    """The value of the first case whose condition is true."""

    def otherwise(rest: nw.Expr, case: tuple[nw.Expr, object]) -> nw.Expr:
        condition, value = case
        return nw.when(condition).then(_expression(value)).otherwise(rest)

    return reduce(otherwise, reversed(cases), _expression(default))


def _expression(value: object) -> nw.Expr:
    """A constant as an expression: DuckDB's Python client takes NaN for NULL, and `Decimal("1E+3")` for 1.000."""
    if isinstance(value, float) and isnan(value):
        return nw.lit("nan").cast(nw.Float64())
    if isinstance(value, Decimal):
        value = Decimal(format(value, "f"))
    return value if isinstance(value, nw.Expr) else nw.lit(cast("Any", value))
