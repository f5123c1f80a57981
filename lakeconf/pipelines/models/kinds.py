"""Kinds of models: how a run changes the table. `identity` enters the hash of a model's definition.

The types, limits, meanings and examples of the fields are those of the keys in the configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, Field, Strict, WithJsonSchema
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

Interval: TypeAlias = Literal["hour", "day", "month", "year"]
# A format such as `date` is not checked by default.
_TIME = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d([Tt _]\d\d:\d\d(:\d\d([.,]\d+)?)? ?([Zz]|[+-]\d\d:?\d\d)?)?$"}
Count: TypeAlias = Annotated[int, Strict()]
Flag: TypeAlias = Annotated[bool, Strict()]
Name: TypeAlias = Annotated[str, Field(min_length=1)]


def key(meaning: str, example: Any, **limits: Any) -> FieldInfo:
    """A key: the checks, the JSON Schema, the reference of keys and the hints come from here."""
    field: FieldInfo = Field(description=meaning, examples=[example], **limits)
    return field


def _not_a_number(value: Any) -> Any:
    """Rejects seconds since 1970, which pydantic accepts: `2024` would be a time on the first of January 1970."""
    try:
        float(value)
    except (TypeError, ValueError):
        return value
    raise PydanticCustomError("number", "Input should be a date or a time, not a number")


# Types of values in a configuration, where `true` is not a number and 1 is not true.
Time: TypeAlias = Annotated[date | datetime, BeforeValidator(_not_a_number), WithJsonSchema(_TIME)]
Types: TypeAlias = Annotated[
    Mapping[str, str], key("The columns of the files and their types; default: inferred.", {"price": "DECIMAL(18, 2)"})
]


@dataclass(frozen=True)
class Full:
    """Every run replaces all rows."""

    name: ClassVar[str] = "full"

    def identity(self) -> str:
        return self.name


@dataclass(frozen=True)
class Append:
    """Every run adds rows, computed from the input's new rows or loaded from new files.

    With `files`, the model receives the rows of new files; without a body, their rows are appended unchanged. The file
    extension selects Parquet, CSV or JSON.
    """

    name: ClassVar[str] = "append"
    new_rows_of: Annotated[
        str | None, key("The input whose new rows the query receives; default: the only input.", "raw.events")
    ] = None
    files: Annotated[
        Name | None, key("The pattern of the files to load, relative to this file, or of URIs.", "landing/*.parquet")
    ] = None
    columns: Types = field(default_factory=dict)

    def identity(self) -> str:
        return f"{self.name} {self.new_rows_of} {dict(self.columns)}"


@dataclass(frozen=True)
class Incremental:
    """Every run replaces the rows of the missing time intervals and of the `lookback` intervals before them.

    The time column is a DATE or a TIMESTAMP, in UTC. With `partial`, the next run processes the last interval again.
    """

    name: ClassVar[str] = "incremental"
    time_column: Annotated[str, key("The column of the result that assigns a row to an interval.", "day")]
    interval: Annotated[Interval, key("The length of an interval.", "day")] = "day"
    start: Annotated[Time | None, key("The start of the first interval.", date(2026, 1, 1))] = None
    lookback: Annotated[Count, key("The number of intervals before new ones to process again.", 3, ge=0)] = 0
    batch: Annotated[
        Annotated[Count, Field(ge=1)] | None, key("The maximum number of intervals in a snapshot; default: all.", 30)
    ] = None
    partial: Annotated[Flag, key("Also process an interval that has not ended.", example=True)] = False
    late: Annotated[
        Literal["warn", "ignore"], key("Whether runs look for changes of inputs in done intervals.", "ignore")
    ] = "warn"

    def identity(self) -> str:
        return f"{self.name} {self.time_column} {self.interval}"


@dataclass(frozen=True)
class Merge:
    """Every run updates the rows with the same key and inserts the others.

    The changes of an input are those since the last run, as from `Table.changes`: with `change_type`, `snapshot_id` and
    `rowid`. The column `deleted` is not stored in the table.
    """

    name: ClassVar[str] = "merge"
    on: Annotated[Name | Annotated[Sequence[str], Field(min_length=1)], key("The key columns.", "id")]
    changes_of: Annotated[
        str | None, key("The input whose changes the query receives; default: all rows of all inputs.", "raw.events")
    ] = None
    deleted: Annotated[str | None, key("A column of the result that is true for keys to delete.", "is_deleted")] = None
    update: Annotated[Flag, key("Set to false to keep rows with existing keys unchanged.", example=False)] = True

    @property
    def keys(self) -> list[str]:
        """The key columns."""
        return [self.on] if isinstance(self.on, str) else [*self.on]

    def identity(self) -> str:
        return f"{self.name} {self.keys} {self.changes_of} {self.deleted} {self.update}"


@dataclass(frozen=True)
class View:
    """Nothing is stored: models that read it compute it. A view in SQL also becomes a view of the lake."""

    name: ClassVar[str] = "view"

    def identity(self) -> str:
        return self.name


@dataclass(frozen=True)
class Seed:
    """The rows of a CSV file, loaded again when the file changes."""

    name: ClassVar[str] = "seed"
    csv: Annotated[Name, key("The CSV file, with a header, relative to this file.", "seeds/prices.csv")]
    columns: Types = field(default_factory=dict)

    def identity(self) -> str:
        return f"{self.name} {dict(self.columns)}"


Kind: TypeAlias = Full | Append | Incremental | Merge | View | Seed
KINDS: Mapping[str, type[Kind]] = {kind.name: kind for kind in (Full, Append, Incremental, Merge, View, Seed)}
