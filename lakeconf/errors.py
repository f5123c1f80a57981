"""Every error that lakeconf raises.

LakeconfError
├── ConfigError              the configuration is wrong: one or more problems, each with its place and a hint
├── MissingDependencyError   an optional package is not installed
├── ConnectionFailed         a server or a file of the store cannot be reached or refuses the credentials
│   └── CatalogLockedError   another process holds the catalog's write lock
├── CatalogError             the catalog answers, but is not the lake that the store describes
│   ├── CatalogMissingError  there is no lake yet, and the statement must not create one
│   ├── CatalogMovedError    the catalog is a copy, or was moved: its files may belong to the original
│   └── CatalogVersionError  the catalog has a version that the extension does not support
├── StorageError             a data file or the data path cannot be read or written
│   └── FileMissingError     the file does not exist
├── TableNotFoundError       no such table or schema at this snapshot
├── SnapshotNotFoundError    no such version, or no snapshot at that time
├── SchemaError              a frame, a column or a type does not fit the table
├── PredicateError           a `where` that cannot be understood or that rows do not satisfy
├── QueryError               DuckDB refuses a statement
│   ├── UnknownNameError     a table, view, function or other name does not exist
│   └── UnsafeQueryError     the query, or a view or macro of the lake that it reaches, may do more than read the lake
├── UnsupportedError         lakeconf refuses rather than return wrong rows; says what to run instead
├── SparkError               Java, the session or one of its settings does not fit
│   └── SparkVersionError    the session has a version of Spark that lakeconf does not support
├── PipelineError            a model is declared wrongly, or fails
├── AuditError               an audit of a transaction does not hold on the new state
├── DataLossError            a change would delete rows or columns without consent; nothing was changed
└── CommitError              a write did not become a snapshot; the lake is as it was
    ├── CommitConflictError  another writer changed what this write has read
    └── CommitUnknownError   the reply was lost: the write may have become a snapshot
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

# A hostile configuration has many names, and long ones; to compare or to list them all would take minutes.
_LISTED, _COMPARED, _LONGEST = 20, 200, 200


class LakeconfError(Exception):
    """The root of all errors of lakeconf.

    Attributes:
        message: What is wrong and where, in one sentence or a few.
        hint: What would be right, or what to run; None where the message says it all.
        retryable: True where the same call may succeed when it is made again.
        overtaken: True where another commit came first, and DuckLake did not try again.
    """

    retryable = False
    overtaken = False

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.args, self.__dict__))


def _rebuild(cls: type[LakeconfError], args: tuple[object, ...], state: dict[str, object]) -> LakeconfError:
    error = cls.__new__(cls, *args)
    Exception.__init__(error, *args)
    error.__dict__.update(state)
    return error


class Problem(NamedTuple):
    """One thing that is wrong in a configuration.

    Attributes:
        code: The stable code of the kind of problem, such as `LC101`.
        message: What is wrong; never holds a secret value.
        hint: What would be right.
        key: The dotted key, such as `stores.prod.storage_backend.region`.
        store: The store's name, where the problem belongs to one.
        file: The file, or None for a configuration given as a dict.
        line: 1-based line of the key in the file.
        column: 1-based column of the key in the line.
    """

    code: str
    message: str
    hint: str | None = None
    key: str | None = None
    store: str | None = None
    file: Path | None = None
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        place = str(self.file) if self.file else "<configuration>"
        if self.line is not None:
            place += f":{self.line}:{self.column or 1}"
        key = f" {self.key}:" if self.key else ""
        text = f"{place}:{key} {self.message} [{self.code}]"
        return f"{text}\n  hint: {self.hint}" if self.hint else text


class ConfigError(LakeconfError, ValueError):
    """The configuration is wrong.

    Attributes:
        problems: All that was found, in the order of the file.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class MissingDependencyError(LakeconfError, ImportError):
    """An optional package is not installed."""

    def __init__(self, package: str, *, extra: str, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs the package {package!r}, which is not installed",
            hint=f"pip install 'lakeconf[{extra}]'",
        )


@contextlib.contextmanager
def required(package: str, *, extra: str, needed_for: str) -> Iterator[None]:
    """Names the extra that brings an optional package, where an import in the block does not find the package.

    Args:
        package: The package that the block imports.
        extra: The extra of lakeconf that installs it.
        needed_for: What needs it; begins the message.

    Raises:
        MissingDependencyError: The package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise MissingDependencyError(package, extra=extra, needed_for=needed_for) from error


class ConnectionFailed(LakeconfError, ConnectionError):  # noqa: N818 - the built-in name is ConnectionError
    """A server or a file of the store cannot be reached or refuses the credentials."""


class CatalogLockedError(ConnectionFailed):
    """Another process holds the write lock of the catalog; the statement had no effect."""

    retryable = True


class CatalogError(LakeconfError):
    """The catalog answers, but is not the lake that the store describes."""


class CatalogMissingError(CatalogError):
    """There is no lake yet, and the statement must not create one."""


class CatalogMovedError(CatalogError):
    """The files belong to this lake's catalog at another place: this catalog is a copy, or it was moved."""


class CatalogVersionError(CatalogError):
    """The catalog has a version that the ducklake extension does not support.

    Attributes:
        can_migrate: True if the extension can migrate the catalog to its own version.
    """

    can_migrate = False


class StorageError(LakeconfError, OSError):
    """A data file or the data path cannot be read or written."""

    def __str__(self) -> str:
        return LakeconfError.__str__(self)


class FileMissingError(StorageError):
    """The file does not exist."""


class TableNotFoundError(LakeconfError, LookupError):
    """No such table or schema at this snapshot."""


class SnapshotNotFoundError(LakeconfError, LookupError):
    """No such version, or no snapshot at that time."""


class SchemaError(LakeconfError, ValueError):
    """A frame, a column or a type does not fit the table."""


class PredicateError(LakeconfError, ValueError):
    """A `where` that cannot be understood, or that rows do not satisfy."""


class QueryError(LakeconfError):
    """DuckDB refuses a statement."""


class UnknownNameError(QueryError):
    """A table, view, function or other name does not exist."""


class UnsafeQueryError(QueryError):
    """The query, or a view or macro of the lake that it reaches, may do more than read the lake; it did not run."""


class UnsupportedError(LakeconfError):
    """lakeconf refuses rather than return wrong rows."""


class SparkError(LakeconfError):
    """Java, the Spark session or one of its settings does not fit."""


class SparkVersionError(SparkError):
    """The Spark session has a version of Spark that lakeconf does not support."""


class PipelineError(LakeconfError):
    """A model is declared wrongly, or fails."""


class AuditError(LakeconfError):
    """An audit of a transaction does not hold on the new state."""


class DataLossError(LakeconfError):
    """A change would delete rows or columns without consent. Nothing was changed."""


class CommitError(LakeconfError):
    """A write did not become a snapshot; the lake is as it was."""


class CommitConflictError(CommitError):
    """Somebody else changed what this write has read."""

    retryable = True


class CommitUnknownError(CommitError):
    """The reply to a commit was lost and could not be looked up: the write may have become a snapshot.

    Its files were kept. Before the write is repeated, look for its token in the snapshots' `extra_info`.
    """


def listed(names: Collection[str]) -> str:
    """Names with commas between them, the first of them if they are many."""
    first = ", ".join(itertools.islice(names, _LISTED))
    return first if len(names) <= _LISTED else f"{first} and {len(names) - _LISTED} more"


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `word` was most likely meant to be, or None where none is near."""
    import difflib  # only an error needs it

    known = list(itertools.islice(candidates, _COMPARED))
    return next(iter(difflib.get_close_matches(word[:_LONGEST], known, n=1, cutoff=0.6)), None)


def suggestion(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """The hint for an unknown name: the known name that is nearest, whatever its case.

    Args:
        word: The unknown name.
        known: The names that exist.
        otherwise: The hint where none is near.
    """
    names = {name.lower(): name for name in known}
    near = nearest(word.lower(), names)
    return otherwise if near is None else f'did you mean "{names[near]}"?'
