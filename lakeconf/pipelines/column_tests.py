"""Tests of a model's columns, which each run of the model checks before it commits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from lakeconf.catalog.table_name import split_name
from lakeconf.errors import PipelineError
from lakeconf.sql import identifier, literal, qualified

Value = str | bool | int | float


@dataclass(frozen=True)
class ColumnTest:
    """A test; rows that violate it prevent the commit.

    Attributes:
        name: The name that errors show.
        query: Given the quoted name of the table, the SQL for the rows that violate it.
        refers_to: The other table that it reads, as `schema.table`; None if it reads none.
    """

    name: str
    query: Callable[[str], str]
    refers_to: str | None = None


def not_null(column: str) -> ColumnTest:
    """A column has no NULL."""
    return ColumnTest(f"not_null {column}", lambda table: f"FROM {table} WHERE {identifier(column)} IS NULL")


def unique(*columns: str) -> ColumnTest:
    """No two rows have the same values in the columns; rows with a NULL in one of them do not count.

    Raises:
        PipelineError: No column is given.
    """
    if not columns:
        raise PipelineError("the test unique names no column", hint='write unique("id")')
    names = ", ".join(map(identifier, columns))
    known = " AND ".join(f"{identifier(column)} IS NOT NULL" for column in columns)
    return ColumnTest(
        f"unique {', '.join(columns)}",
        lambda table: (
            f"SELECT {names}, count(*) AS lakeconf_rows FROM {table} WHERE {known} GROUP BY {names} HAVING count(*) > 1"
        ),
    )


def accepted_values(column: str, values: Sequence[Value]) -> ColumnTest:
    """A column has only these values, or NULL.

    Raises:
        PipelineError: There are no values, or one is NULL.
    """
    if not values or any(value is None for value in values):
        raise PipelineError(
            f"the test accepted_values of {column!r} needs values other than NULL",
            hint="list values other than NULL, which is always accepted",
        )
    listed = ", ".join(map(_constant, values))
    name = identifier(column)
    # NULL is neither in the list nor outside it.
    return ColumnTest(f"accepted_values {column}", lambda table: f"FROM {table} WHERE {name} NOT IN ({listed})")


def relationships(column: str, table: str, to: str) -> ColumnTest:
    """Every value of a column is in a column of another table of the same store; NULL is accepted.

    Args:
        column: The column of the model.
        table: The other table, as `schema.table`.
        to: Its column.

    Raises:
        TableNotFoundError: The name of the other table is invalid.
    """
    parts = split_name(table)
    other = qualified(*parts)
    own, there = identifier(column), f"lakeconf_other.{identifier(to)}"
    # Every column has its table: a column that only one of the tables has must not be taken from the other.
    return ColumnTest(
        f"relationships {column} → {table}.{to}",
        lambda source: (
            f"SELECT lakeconf_own.{own} FROM {source} AS lakeconf_own WHERE lakeconf_own.{own} IS NOT NULL "
            f"AND NOT EXISTS (SELECT 1 FROM {other} AS lakeconf_other WHERE {there} = lakeconf_own.{own})"
        ),
        ".".join(parts),
    )


class DeclaredTests(BaseModel):
    """The table `tests` of a model in the configuration."""

    model_config = ConfigDict(extra="forbid")

    not_null: list[str] = Field(default_factory=list)
    unique: list[str | list[str]] = Field(default_factory=list)
    accepted_values: dict[str, list[Value]] = Field(default_factory=dict)
    relationships: dict[str, str] = Field(default_factory=dict)

    def tests(self) -> list[ColumnTest]:
        """The declared tests.

        Raises:
            PipelineError: A test is incomplete.
        """
        found = [*map(not_null, self.not_null)]
        found += [unique(*([one] if isinstance(one, str) else one)) for one in self.unique]
        found += [accepted_values(column, values) for column, values in self.accepted_values.items()]
        for column, target in self.relationships.items():
            table, _, to = target.rpartition(".")
            if table.count(".") != 1 or not to:
                hint = f'write {column} = "schema.table.column"'
                raise PipelineError(f"the test relationships of {column!r} names no column: {target!r}", hint=hint)
            found.append(relationships(column, table, to))
        return found


def _constant(value: Value) -> str:
    return literal(value) if isinstance(value, str) else str(value).lower()
