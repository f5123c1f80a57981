"""A source of files to adopt: its columns, its files, and its own reader of their rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lakeconf.connection.connection import Connection
from lakeconf.errors import LakeconfError, QueryError
from lakeconf.lake.adoption.folder import Folder
from lakeconf.lake.adoption.footers import Field
from lakeconf.lake.adoption.tally import Tally


class SourceReader(Protocol):
    """Reads the rows of a source, independently of DuckLake."""

    def tally(self, paths: Sequence[str], types: Mapping[str, str], *, full: bool) -> Tally:
        """The counts and bounds of the columns in some files, as the types of the table; `full` also reads each row."""
        ...


@dataclass(frozen=True)
class Source:
    """Files to adopt, and what is known about them."""

    kind: str  # `Parquet file`, `Delta table` or `Iceberg table`
    folder: Folder
    types: Mapping[str, str]  # its columns, and the DuckDB names of their types
    paths: tuple[str, ...]  # its files, sorted
    reader: SourceReader
    schemas: Mapping[str, tuple[Field, ...]]  # the columns in each file
    version: int | None = None  # the version of a table; None for a folder
    # The columns whose values are in the paths of the files, and not in the files.
    partitions: tuple[str, ...] = ()
    # The values of columns by file, as text, that the source records or its paths show.
    values: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)

    @property
    def connection(self) -> Connection:
        """The connection that reads the files."""
        return self.folder.connection


@contextlib.contextmanager
def named_errors(what: str) -> Iterator[None]:
    """Gives the errors of another library, which reads something of a source, a name and a hint."""
    try:
        yield
    except LakeconfError:
        raise
    except Exception as error:
        raise QueryError(f"{what} cannot be read: {error}", hint="check the table with its own tools") from error
