"""What a transaction collects: its steps, and the tables as it will leave them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakeconf.catalog.table import TableInfo
from lakeconf.commit.conflicts import Reliance
from lakeconf.commit.journal import CommitKey
from lakeconf.engines.base import Staged


@dataclass(frozen=True)
class Change:
    """A step of a commit.

    Attributes:
        statements: SQL, run in order inside the commit's transaction.
        table: The table's full name.
        staged: Rows that the step commits; removed where it does not.
        relies_on: What nobody may have changed since the read snapshot; None for a plain append.
        key: What it may be done once for: a step whose key has been committed is left out.
        defines: True where the statements make a table or change its columns.
        deletes: True where rows go.
        written_for: The table as the rows were written for it; None where this transaction makes or changes it.
        counts: How many rows each statement must change; empty if that cannot be known before.
    """

    statements: tuple[str, ...]
    table: str
    staged: Staged | None = None
    relies_on: Reliance | None = None
    key: CommitKey | None = None
    defines: bool = False
    deletes: bool = False
    written_for: TableInfo | None = None
    counts: tuple[int, ...] = ()

    @property
    def is_registered(self) -> bool:
        """True where the files that were staged become those of the table, and DuckLake itself writes none."""
        return self.staged is not None and self.staged.keeps_files and bool(self.staged.files) and not self.deletes


@dataclass(frozen=True)
class Target:
    """A table as a transaction will leave it.

    Attributes:
        info: The table; its columns are those that rows are written with.
        types: Its columns and their types, in DuckDB's names.
    """

    info: TableInfo
    types: Mapping[str, str]
