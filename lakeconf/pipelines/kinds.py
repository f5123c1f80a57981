"""The kinds of models: what a run of one does to its table. `identity` is what decides whether two are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import ClassVar, Literal, TypeAlias

Interval: TypeAlias = Literal["hour", "day", "month", "year"]


@dataclass(frozen=True)
class Full:
    """Every run replaces all rows."""

    name: ClassVar[str] = "full"

    def identity(self) -> str:
        return self.name


@dataclass(frozen=True)
class Append:
    """Every run adds rows: those of the input's new rows, or of files that were not loaded before.

    Attributes:
        new_rows_of: The input of which the model is given new rows alone; the only input unless given.
        files: A pattern of paths, such as `landing/users/*.parquet`, or of URIs that the store's secret reaches; the
            model is given the rows of the new ones, or they are taken as they are where it is no function. Parquet,
            CSV and JSON are told by their ending.
        columns: The columns of the files and their types, in DuckDB's names; told from the files unless given.
    """

    name: ClassVar[str] = "append"
    new_rows_of: str | None = None
    files: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    def identity(self) -> str:
        return f"{self.name} {self.new_rows_of} {dict(self.columns)}"


@dataclass(frozen=True)
class Incremental:
    """Every run replaces the rows of the time intervals that are missing, and of a few before them.

    Attributes:
        time_column: The column of the result that tells the interval; a DATE or a TIMESTAMP, in UTC.
        interval: How long an interval is.
        start: When the first one begins.
        lookback: How many intervals before new ones are done again.
        batch: How many intervals are one snapshot at most; all that are missing in a row unless given.
        partial: True to do an interval that has not ended as well; it is done again next time.
        late: What happens to intervals that are done and whose inputs have changed since: `warn` about them, `redo`
            them, or `ignore` them.
    """

    name: ClassVar[str] = "incremental"
    time_column: str
    interval: Interval = "day"
    start: date | datetime | None = None
    lookback: int = 0
    batch: int | None = None
    partial: bool = False
    late: Literal["warn", "redo", "ignore"] = "warn"

    def identity(self) -> str:
        return f"{self.name} {self.time_column} {self.interval}"


@dataclass(frozen=True)
class Merge:
    """Every run updates the rows with the same key, and adds the others.

    Attributes:
        on: The key.
        changes_of: The input of which the model is given what changed since the last run, as `Table.changes` gives it:
            with `change_type`, `snapshot_id` and `rowid`. Else it is given all its inputs whole.
        deleted: A column of the result, true for a row whose key is to be deleted; the table does not get it.
        update: False to leave rows as they are whose key is there already: each key is added once.
    """

    name: ClassVar[str] = "merge"
    on: str | Sequence[str]
    changes_of: str | None = None
    deleted: str | None = None
    update: bool = True

    def identity(self) -> str:
        return f"{self.name} {self.on} {self.changes_of} {self.deleted} {self.update}"


@dataclass(frozen=True)
class View:
    """Nothing is stored: models that take it compute it. One in SQL is a view of the lake as well."""

    name: ClassVar[str] = "view"

    def identity(self) -> str:
        return self.name


@dataclass(frozen=True)
class Seed:
    """The rows of a CSV file, loaded again whenever it changes.

    Attributes:
        csv: The file, with a header.
        columns: The columns and their types, in DuckDB's names; told from the values unless given.
    """

    name: ClassVar[str] = "seed"
    csv: str
    columns: Mapping[str, str] = field(default_factory=dict)

    def identity(self) -> str:
        return f"{self.name} {dict(self.columns)}"


Kind: TypeAlias = Full | Append | Incremental | Merge | View | Seed
KINDS: Mapping[str, type[Kind]] = {kind.name: kind for kind in (Full, Append, Incremental, Merge, View, Seed)}
