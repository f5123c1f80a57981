"""The exceptions of lakeconf, all derived from `LakeconfError`; docs/errors.md lists them with what to do."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from lakeconf.logs import escaped

# A hostile configuration may contain many long names; comparing or listing all of them would take minutes.
_LISTED, _COMPARED, _LONGEST = 20, 200, 200


class LakeconfError(Exception):
    """The base class of all lakeconf errors.

    Attributes:
        message: What is wrong, and where.
        hint: How to fix it, or None.
        retryable: True if the same call may succeed later.
        overtaken: True if another commit came first, and DuckLake did not retry.
    """

    retryable = False
    overtaken = False

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.message}\n  hint: {self.hint}" if self.hint else self.message
        return "\n".join(map(escaped, text.split("\n")))  # names of a lake are in tracebacks, too

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.args, self.__dict__))


def _rebuild(cls: type[LakeconfError], args: tuple[object, ...], state: dict[str, object]) -> LakeconfError:
    error = cls.__new__(cls, *args)
    Exception.__init__(error, *args)
    error.__dict__.update(state)
    return error


class Problem(NamedTuple):
    """A problem in a configuration.

    Attributes:
        code: The stable code of the kind of problem, such as `LC012`.
        message: What is wrong; never contains a secret value.
        hint: How to fix it.
        key: The dotted key, such as `stores.prod.storage_backend.region`.
        store: The store's name, if the problem belongs to a store.
        file: The file; None for a configuration given as a dict.
        line: 1-based line of the key in the file.
        column: 1-based column of the key in the line.
        excerpt: The line without its values, and a caret below the column.
    """

    code: str
    message: str
    hint: str | None = None
    key: str | None = None
    store: str | None = None
    file: Path | None = None
    line: int | None = None
    column: int | None = None
    excerpt: str | None = None

    def __str__(self) -> str:
        place = str(self.file) if self.file else "<configuration>"
        if self.line is not None:
            place += f":{self.line}:{self.column or 1}"
        key = f" {self.key}:" if self.key else ""
        lines = (f"{place}:{key} {self.message} [{self.code}]", self.excerpt, self.hint and f"  hint: {self.hint}")
        return "\n".join(filter(None, lines))


class ConfigError(LakeconfError, ValueError):
    """The configuration is invalid.

    Attributes:
        problems: All problems found, in the order of the file.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class MissingDependencyError(LakeconfError, ImportError):
    """An optional package is not installed."""

    def __init__(self, package: str, *, extra: str | None, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs the module {package!r}, which is not installed",
            hint="run: pip install " + (package if extra is None else f"'lakeconf[{extra}]'"),
        )


@contextlib.contextmanager
def required(package: str, *, extra: str | None, needed_for: str) -> Iterator[None]:
    """Reports which extra to install if an import in the block does not find an optional package.

    `extra` is None if no extra installs it; `needed_for` is the feature that needs it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise MissingDependencyError(package, extra=extra, needed_for=needed_for) from error


class ConnectionFailed(LakeconfError, ConnectionError):  # noqa: N818 - the built-in name is ConnectionError
    """A server or file of the store cannot be reached, or rejects the credentials."""


class CatalogLockedError(ConnectionFailed):
    """Another process holds the write lock of the catalog; the statement had no effect."""

    retryable = True


class CatalogError(LakeconfError):
    """The catalog can be reached, but is not the lake that the store describes."""


class CatalogMissingError(CatalogError):
    """The lake does not exist, and the statement must not create it."""


class CatalogLostError(CatalogError):
    """The catalog does not exist, but the data path has the files of a lake."""


class CatalogMovedError(CatalogError):
    """The files belong to this lake's catalog at another location: this catalog is a copy or was moved."""


class CatalogRestoredError(CatalogError):
    """The catalog lacks snapshots that a cleanup knew: it was restored from an older backup."""


class CatalogChangedError(CatalogError):
    """Another process changed the catalog while it was read, and again at each repetition; nothing was returned."""

    retryable = True


class BranchError(CatalogError):
    """A branch does not exist, or the snapshot that it reads is not kept, has expired, or is that of another lake."""


class CatalogVersionError(CatalogError):
    """The ducklake extension does not support the version of the catalog.

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
    """The table or schema does not exist at this snapshot."""


class SnapshotNotFoundError(LakeconfError, LookupError):
    """The version does not exist, or no snapshot existed at that time."""


class SchemaError(LakeconfError, ValueError):
    """A frame, column or type does not fit the table.

    Attributes:
        column: The column whose type in the table cannot hold its values, if that is what is wrong.
        wanted: This type.
    """

    column: str | None = None
    wanted: str | None = None


class PredicateError(LakeconfError, ValueError):
    """A `where` is invalid, or rows do not satisfy it."""


class QueryError(LakeconfError):
    """DuckDB rejects a statement."""


class UnknownNameError(QueryError):
    """A table, view, function or other name does not exist."""


class UnsafeQueryError(QueryError):
    """The query, or a view or macro of the lake that it uses, may do more than read the lake; it did not run."""


class UnsupportedError(LakeconfError):
    """lakeconf does not support the operation exactly; it fails instead of returning wrong rows."""


class SparkError(LakeconfError):
    """Java, the Spark session or one of its settings is unsuitable."""


class SparkVersionError(SparkError):
    """lakeconf does not support the Spark session's version of Spark."""


class PipelineError(LakeconfError):
    """A model is invalid, or fails.

    Attributes:
        model: The table of the model; None if the error is about no single model.
    """

    def __init__(self, message: str, *, hint: str | None = None, model: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.model = model


class UntestedVersionWarning(UserWarning):
    """The tests of lakeconf do not run this version of DuckDB."""


class AuditError(LakeconfError):
    """The new state violates an audit of a transaction."""


class DataLossError(LakeconfError):
    """A change would delete rows or columns without consent. Nothing was changed."""


class CommitError(LakeconfError):
    """A write was not committed; the lake is unchanged."""


class CommitConflictError(CommitError):
    """Another writer changed what this write read."""

    retryable = True


class CommitUnknownError(CommitError):
    """The reply to a commit was lost and could not be recovered: the write may have been committed.

    Its files were kept. Before repeating the write, look for its token in the snapshots' `extra_info`.
    """


@contextlib.contextmanager
def storage_errors(what: str, *, hint: str) -> Iterator[None]:
    """Raises StorageError for errors of the operating system in the block, with the reason."""
    try:
        yield
    except LakeconfError:  # some are errors of the operating system, too
        raise
    except OSError as error:
        raise StorageError(f"{what}: {error.strerror or error}", hint=hint) from error


def exists(path: str | Path) -> bool:
    """True if there is a file, folder or link; an OSError if that cannot be found out, which Python takes for a no."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def listed(names: Collection[str], most: int = _LISTED) -> str:
    """Joins names with commas; lists only the first names if there are more than `most`."""
    first = ", ".join(itertools.islice(names, most))
    return first if len(names) <= most else f"{first} and {len(names) - most} more"


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """Returns the candidate most similar to `word`, or None if none is similar."""
    import difflib  # only an error needs it

    compared = list(itertools.islice(candidates, _COMPARED))
    return next(iter(difflib.get_close_matches(word[:_LONGEST], compared, n=1, cutoff=0.6)), None)


def suggestion(word: str, candidates: Iterable[str], otherwise: str = "") -> str:
    """The hint for an unknown name: the most similar known name, ignoring case, or `otherwise`."""
    names = {name.lower(): name for name in candidates}
    near = nearest(word.lower(), names)
    return otherwise if near is None else f'did you mean "{names[near]}"?'
