"""Kinds of models: how a run changes the table. `identity` enters the hash of a model's definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, Strict
from pydantic_core import PydanticCustomError

Interval: TypeAlias = Literal["hour", "day", "month", "year"]


def _not_a_number(value: Any) -> Any:
    """Refuses seconds since 1970, which pydantic accepts: `2024` would be a time on the first of January 1970."""
    try:
        float(value)
    except (TypeError, ValueError):
        return value
    raise PydanticCustomError("number", "Input should be a date or a time, not a number")


# Types of values in a configuration, where `true` is no number and 1 is not true.
Time: TypeAlias = Annotated[date | datetime, BeforeValidator(_not_a_number)]
Count: TypeAlias = Annotated[int, Strict()]
Flag: TypeAlias = Annotated[bool, Strict()]


@dataclass(frozen=True)
class Full:
    """Every run replaces all rows."""

    name: ClassVar[str] = "full"

    def identity(self) -> str:
        return self.name


@dataclass(frozen=True)
class Append:
    """Every run adds rows, computed from the input's new rows or loaded from new files.

    Attributes:
        new_rows_of: The input whose new rows the model receives; default: the only input.
        files: A pattern of paths, such as `landing/users/*.parquet`, or of URIs that the store's secret can access. The
            model receives the rows of new files; without a body, their rows are appended unchanged. The file extension
            selects Parquet, CSV or JSON.
        columns: The columns of the files and their DuckDB types; default: inferred from the files.
    """

    name: ClassVar[str] = "append"
    new_rows_of: str | None = None
    files: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    def identity(self) -> str:
        return f"{self.name} {self.new_rows_of} {dict(self.columns)}"


@dataclass(frozen=True)
class Incremental:
    """Every run replaces the rows of the missing time intervals and of the `lookback` intervals before them.

    Attributes:
        time_column: The column of the result that assigns a row to an interval; a DATE or a TIMESTAMP, in UTC.
        interval: The length of an interval.
        start: Start of the first interval.
        lookback: The number of intervals before new ones to process again.
        batch: The maximum number of intervals per snapshot; default: all consecutive missing intervals.
        partial: True to also process an interval that has not ended; the next run processes it again.
        late: The treatment of done intervals whose inputs have changed since: `warn` about them, `redo` them, or
            `ignore` them.
    """

    name: ClassVar[str] = "incremental"
    time_column: str
    interval: Interval = "day"
    start: Time | None = None
    lookback: Count = 0
    batch: Count | None = None
    partial: Flag = False
    late: Literal["warn", "redo", "ignore"] = "warn"

    def identity(self) -> str:
        return f"{self.name} {self.time_column} {self.interval}"


@dataclass(frozen=True)
class Merge:
    """Every run updates the rows with the same key and inserts the others.

    Attributes:
        on: The key columns.
        changes_of: The input whose changes since the last run the model receives, as from `Table.changes`: with
            `change_type`, `snapshot_id` and `rowid`. Without it, the model receives all rows of all inputs.
        deleted: A column of the result that is true for keys to delete; it is not stored in the table.
        update: False to keep rows with existing keys unchanged: each key is inserted once.
    """

    name: ClassVar[str] = "merge"
    on: str | Sequence[str]
    changes_of: str | None = None
    deleted: str | None = None
    update: Flag = True

    def identity(self) -> str:
        on = [self.on] if isinstance(self.on, str) else [*self.on]
        return f"{self.name} {on} {self.changes_of} {self.deleted} {self.update}"


@dataclass(frozen=True)
class View:
    """Nothing is stored: models that read it compute it. A view in SQL also becomes a view of the lake."""

    name: ClassVar[str] = "view"

    def identity(self) -> str:
        return self.name


@dataclass(frozen=True)
class Seed:
    """The rows of a CSV file, loaded again when the file changes.

    Attributes:
        csv: The file, with a header.
        columns: The columns and their DuckDB types; default: inferred from the values.
    """

    name: ClassVar[str] = "seed"
    csv: str
    columns: Mapping[str, str] = field(default_factory=dict)

    def identity(self) -> str:
        return f"{self.name} {dict(self.columns)}"


Kind: TypeAlias = Full | Append | Incremental | Merge | View | Seed
KINDS: Mapping[str, type[Kind]] = {kind.name: kind for kind in (Full, Append, Incremental, Merge, View, Seed)}
