"""Tests of a model's columns, which each run checks before it commits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from lakeconf.catalog.tables import split_name
from lakeconf.errors import PipelineError
from lakeconf.pipelines.models.kinds import key
from lakeconf.sql import identifier, literal, qualified

Value = str | bool | int | float
_COLUMNS = {"type": ["string", "array"], "items": {"type": "string"}, "minItems": 1}
Columns = Annotated[str | Annotated[list[str], Field(min_length=1)], WithJsonSchema(_COLUMNS)]


@dataclass(frozen=True)
class ColumnTest:
    """A test; rows that violate it prevent the commit."""

    name: str  # the name that errors show
    query: Callable[[str], str]  # given the quoted name of the table, the SQL for the rows that violate it
    refers_to: str | None = None  # the other table that it reads, as `schema.table`; None if it reads none


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
    are_set = " AND ".join(f"{identifier(column)} IS NOT NULL" for column in columns)
    return ColumnTest(
        f"unique {', '.join(columns)}",
        lambda table: (
            f"SELECT {names}, count(*) AS lakeconf_rows FROM {table} "
            f"WHERE {are_set} GROUP BY {names} HAVING count(*) > 1"
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
    listed = ", ".join(map(literal, values))
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

    not_null: Annotated[list[str], key("Columns without NULL.", ["id"])] = Field(default_factory=list)
    unique: Annotated[
        list[Columns],
        key("Columns, or lists of columns, whose values occur once; NULL may repeat.", ["id", ["day", "shop"]]),
    ] = Field(default_factory=list)
    accepted_values: Annotated[
        dict[str, Annotated[list[Value], Field(min_length=1)]],
        key("The only values of a column, apart from NULL.", {"kind": ["view", "sale"]}),
    ] = Field(default_factory=dict)
    relationships: Annotated[
        dict[str, Annotated[str, Field(pattern=r"^[^.]+\.[^.]+\.[^.]+$")]],
        key("The column of another table that has every value of a column.", {"shop": "raw.shops.id"}),
    ] = Field(default_factory=dict)

    def tests(self) -> list[ColumnTest]:
        """The declared tests."""
        tests = [*map(not_null, self.not_null)]
        tests += [
            unique(*([key_columns] if isinstance(key_columns, str) else key_columns)) for key_columns in self.unique
        ]
        tests += [accepted_values(column, values) for column, values in self.accepted_values.items()]
        for column, target in self.relationships.items():
            table, _, to = target.rpartition(".")
            tests.append(relationships(column, table, to))
        return tests
