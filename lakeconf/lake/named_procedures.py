"""Procedures of a lake that Spark's SQL calls, and what it reads about a table: its history, files and changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lakeconf.catalog.history import TableFile, history, stored_rows
from lakeconf.catalog.tables import joined_name
from lakeconf.errors import LakeconfError, SnapshotNotFoundError, UnsupportedError
from lakeconf.lake.maintenance import Maintenance
from lakeconf.lake.restore import Restores

if TYPE_CHECKING:
    import pyarrow

    from lakeconf.catalog.reader import CatalogReader
    from lakeconf.commit.scope import Scope

Arguments = Mapping[str, Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NULL = "NULL"
# The columns of the facts about a table, by kind.
_HISTORY = {
    "snapshot_id": "number",
    "time": "time",
    "changes": "strings",
    "author": "string",
    "message": "string",
    "extra_info": "string",
}
_FILES = {
    "path": "string",
    "rows": "number",
    "bytes": "number",
    "begin_snapshot": "number",
    "delete_file": "string",
    "deleted_rows": "number",
    "partition": "strings",
    "partition_keys": "strings",
}


@dataclass(frozen=True)
class Parameter:
    """A parameter of a procedure, with its type and its default in Spark's SQL; None if it has no default."""

    name: str
    type: str
    default: str | None = None


@dataclass(frozen=True)
class Procedure:
    """A procedure: its parameters, and what carries it out and returns the rows of its result."""

    parameters: Sequence[Parameter]
    run: Callable[[Scope, Arguments], pyarrow.Table]


def described_procedures() -> Mapping[str, Any]:
    """The name, the type and the default of each parameter, by procedure."""
    return {
        name: [(parameter.name, parameter.type, parameter.default) for parameter in procedure.parameters]
        for name, procedure in PROCEDURES.items()
    }


def called(scope: Scope, name: str, arguments: Arguments) -> pyarrow.Table:
    """Carries out a procedure, and returns the rows of its result."""
    procedure = PROCEDURES.get(name)
    if procedure is None:
        raise UnsupportedError(f"a lake has no procedure {name!r}", hint=f"call system.{', system.'.join(PROCEDURES)}")
    for parameter in procedure.parameters:
        if arguments[parameter.name] is None and parameter.default != _NULL:
            raise LakeconfError(f"{parameter.name} of {name} is NULL", hint="pass a value")
    return procedure.run(scope, arguments)


def moment(micros: int) -> datetime:
    """A time of Spark, whose years go beyond those of Python."""
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        raise SnapshotNotFoundError(
            f"the time is {micros:,} microseconds after 1970", hint="write a year from 1 to 9999"
        ) from None


def _compact(scope: Scope, arguments: Arguments) -> pyarrow.Table:
    result = Maintenance(scope).compact(_table(arguments))
    columns = dict.fromkeys(("files_before", "files_after", "bytes_before", "bytes_after"), "number")
    return _rows({**columns, "complete": "flag"}, [asdict(result)])


def _expire_snapshots(scope: Scope, arguments: Arguments) -> pyarrow.Table:
    dry_run = arguments["dry_run"]
    versions = Maintenance(scope).expire_snapshots(
        older_than=moment(arguments["older_than"]), keep=arguments["keep"], dry_run=dry_run, force=arguments["force"]
    )
    columns = {"snapshot_id": "number", "expired": "flag"}
    return _rows(columns, [{"snapshot_id": version, "expired": not dry_run} for version in versions])


def _cleanup(scope: Scope, arguments: Arguments) -> pyarrow.Table:
    maintenance, dry_run = Maintenance(scope), arguments["dry_run"]
    limits: Mapping[str, Any] = {"older_than": moment(arguments["older_than"]), "force": arguments["force"]}
    paths = maintenance.plan_cleanup(**limits).paths if dry_run else maintenance.cleanup(**limits)
    return _rows({"path": "string", "removed": "flag"}, [{"path": path, "removed": not dry_run} for path in paths])


def _restore(scope: Scope, arguments: Arguments) -> pyarrow.Table:
    time = arguments["timestamp"]
    timestamp = None if time is None else moment(time)
    snapshot_id = Restores(scope).restore(str(_table(arguments)), arguments["version"], timestamp)
    return _rows({"snapshot_id": "number"}, [{"snapshot_id": snapshot_id}])


def _table(arguments: Arguments) -> str | None:
    return None if arguments["table"] is None else joined_name(*arguments["table"])


_FORCE, _DRY_RUN = Parameter("force", "BOOLEAN", "false"), Parameter("dry_run", "BOOLEAN", "true")
_OLDER_THAN = Parameter("older_than", "TIMESTAMP")
# Without `dry_run => false`, those that delete only return what they would delete.
PROCEDURES: Mapping[str, Procedure] = {
    "compact": Procedure((Parameter("table", "STRING", _NULL),), _compact),
    "expire_snapshots": Procedure((_OLDER_THAN, Parameter("keep", "BIGINT", "1"), _DRY_RUN, _FORCE), _expire_snapshots),
    "cleanup": Procedure((_OLDER_THAN, _DRY_RUN, _FORCE), _cleanup),
    "restore": Procedure(
        (
            Parameter("table", "STRING"),
            Parameter("version", "BIGINT", _NULL),
            Parameter("timestamp", "TIMESTAMP", _NULL),
        ),
        _restore,
    ),
}


def is_part(name: str) -> bool:
    """True for the name of facts about a table that can be read like a table: its history or its files."""
    return name in _PARTS


def part_of(reader: CatalogReader, table: str, snapshot_id: int, name: str) -> pyarrow.Table:
    """The facts about a table at a snapshot, as rows."""
    columns, read = _PARTS[name]
    return _rows(columns, list(map(asdict, read(reader, table, snapshot_id))))


def _files_of(reader: CatalogReader, table: str, snapshot_id: int) -> Sequence[TableFile]:
    return stored_rows(reader, table, snapshot_id)[0]


_PARTS: Mapping[str, tuple[Mapping[str, str], Callable[[CatalogReader, str, int], Sequence[Any]]]] = {
    "history": (_HISTORY, history),
    "files": (_FILES, _files_of),
}


def _rows(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> pyarrow.Table:
    import pyarrow as pa

    types = {
        "number": pa.int64(),
        "flag": pa.bool_(),
        "string": pa.string(),
        "strings": pa.list_(pa.string()),
        "time": pa.timestamp("us", "UTC"),
    }
    return pa.Table.from_pylist(list(rows), pa.schema([(name, types[kind]) for name, kind in columns.items()]))
