"""What doctor checks in a lake: its catalog, its files, and what a write needs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lakeconf.backends.server import CatalogServer
from lakeconf.catalog.health import lost_deletes
from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.catalog.table_statistics import hiding_bounds
from lakeconf.catalog.tables import joined_name
from lakeconf.connection.connection import Connection, remove_files
from lakeconf.errors import CatalogError, CatalogRestoredError, LakeconfError, storage_errors
from lakeconf.guard.guard import marker_of
from lakeconf.inspection.catalog_files import data_path_files
from lakeconf.logs import escaped
from lakeconf.sql import files_sql, listing_sql
from lakeconf.store import Store
from lakeconf.wording import counted

# S3 refuses every request beyond the second limit: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
_CLOCK_WARNING, _CLOCK_LIMIT = timedelta(minutes=1), timedelta(minutes=15)
# A commit of many files can take this long on a busy server.
_SHORTEST_TIMEOUT_SECONDS = 60
_SHOWN = 3
# DuckLake cannot open a lake with such a column, which it makes of an added column that the same transaction changes.
_DAMAGED = """
    SELECT t.table_name, c.column_name FROM ducklake_column AS c
    JOIN ducklake_table AS t ON t.table_id = c.table_id AND t.end_snapshot IS NULL
    LEFT JOIN ducklake_column AS p
        ON p.table_id = c.table_id AND p.parent_column = c.column_id AND p.end_snapshot IS NULL
    WHERE c.end_snapshot IS NULL AND lower(c.column_type) IN ('struct', 'list', 'map')
    GROUP BY t.table_name, c.column_name, c.table_id, c.column_id, c.column_type
    HAVING count(DISTINCT lower(p.column_name)) <> CASE lower(c.column_type) WHEN 'list' THEN 1 WHEN 'map' THEN 2
        ELSE greatest(count(p.column_id), 1) END OR count(p.column_id) <> count(DISTINCT lower(p.column_name))
"""


class Skip(Exception):  # noqa: N818 - no error
    """A step with nothing to do, with the reason."""


class Warn(Exception):  # noqa: N818 - no error
    """A step with a warning, with the finding and the fix."""


def examine_columns(transaction: MetadataTransaction) -> None:
    """Rejects a catalog with a nested column whose fields are missing or doubled."""
    for table, column in transaction.rows(_DAMAGED):
        raise CatalogError(
            f"the column {column!r} of {table} has lost its fields, or has one twice, so no tool can open the lake",
            hint="restore a backup of the catalog from before the last change of the column (docs/operations.md)",
        )


def examine_clock(store: Store, reader: CatalogReader) -> str:
    """Compares the clock of this machine with the clock of the catalog's server."""
    ((server,),) = reader.connection.rows(_server(store).clock(reader.metadata_database))
    difference = timedelta(seconds=abs(datetime.now(UTC).timestamp() - float(server)))
    message = f"this machine and the catalog's server differ by {difference.total_seconds():.0f} s"
    if difference > _CLOCK_LIMIT:
        raise LakeconfError(
            message, hint="set the clock: object storage refuses requests that are signed at another time"
        )
    if difference > _CLOCK_WARNING:
        raise Warn(message, "set the clock")
    return message


def examine_timeout(store: Store, reader: CatalogReader) -> str:
    """Looks for a timeout of the catalog's server that could end a transaction before its commit is complete."""
    ((milliseconds,),) = reader.connection.rows(_server(store).idle_timeout(reader.metadata_database))
    if 0 < milliseconds < _SHORTEST_TIMEOUT_SECONDS * 1000:
        raise Warn(
            f"the server ends transactions that are idle for {milliseconds / 1000:g} s: a long commit would fail",
            "ALTER ROLE … SET idle_in_transaction_session_timeout = 0 for the role of the metadata backend",
        )
    return "no timeout that would end a commit"


def examine_marker(store: Store, reader: CatalogReader) -> str:
    """Checks that the marker below the data path names the catalog of a store."""
    marker = marker_of(reader, store.metadata_backend)
    if marker.check_free():
        raise Skip("none yet: the first write creates it")
    try:
        marker.before_cleanup()
    except CatalogRestoredError:
        raise  # later writes are lost: somebody has to decide
    except CatalogError as error:
        raise Warn(error.message, error.hint) from error
    return f"{marker.path} names this catalog"


def examine_files(reader: CatalogReader) -> str:
    """Compares the files that the catalog knows with those below the data path."""
    files = data_path_files(reader)
    root = files.root
    if files.missing:
        raise CatalogError(
            f"snapshots need {_some(files.missing)}, missing below {root}",
            hint="check `path`, or `bucket` and `prefix`, of the storage backend; or restore the files from a backup",
        )
    if files.damaged:
        raise CatalogError(
            f"{_some(files.damaged)} have another size than in the catalog: they are incomplete or were changed",
            hint="restore the files from a backup; `lakeconf verify` reads all rows",
        )
    lost = lost_deletes(reader)
    if lost:
        listed_tables = ", ".join(f"{rows:,} of {escaped(joined_name(*table))}" for table, rows in lost.items())
        raise Warn(
            f"deleted rows are visible again: {listed_tables}",
            "another tool rewrote their files while they were deleted (see docs/writing.md): repeat the deletes",
        )
    if files.unknown:
        raise Warn(
            f"the catalog does not know {_some(files.unknown)}",
            "a write is running or was killed (`lakeconf maintain` removes its files); or the catalog was restored "
            "from a backup, and they have rows of later commits (docs/operations.md: Back up); or they are of another "
            "program",
        )
    more = f"; {len(files.outside):,} more outside the data path were not looked for" if files.outside else ""
    return f"{root} has all files of the catalog ({len(files.needed):,}), and no others{more}"


def examine_statistics(reader: CatalogReader) -> str:
    """Looks for columns whose statistics hide rows from DuckDB."""
    columns_by_table = hiding_bounds(reader)
    if columns_by_table:
        tables = [f"{joined_name(*table)} ({', '.join(columns)})" for table, columns in columns_by_table.items()]
        raise Warn(
            f"outside lakeconf, DuckDB may hide rows from filters on columns of {escaped('; '.join(tables))}",
            "run: lakeconf verify --catalog --repair --backup-to PLACE",
        )
    return "the bounds of all columns cover their files"


def _some(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:_SHOWN]) + (", …" if len(paths) > _SHOWN else "")
    return f"{counted(len(paths), 'file')} ({shown})"


def _server(store: Store) -> CatalogServer:
    server = store.metadata_backend.server()
    if server is None:
        raise Skip("only PostgreSQL catalogs have a server to ask")
    return server


def read_and_remove(connection: Connection, probe: str) -> None:
    """Reads the file and removes it."""
    try:
        connection.rows(f"FROM {files_sql('read_parquet', probe)}")
    except LakeconfError as error:
        hint = f"remove it; {error.hint or 'check what the credentials permit'}"
        raise LakeconfError(f"{probe} was written, but could not be read: {error.message}", hint=hint) from error
    try:
        remove_files(connection, [probe])
        reason = ": it is still there" if connection.rows(listing_sql(probe, "*")) else ""
    except LakeconfError as error:
        reason = f": {error.message}"
    if reason:
        raise Warn(
            f"{probe} was written and read, but could not be removed{reason}",
            "enough for a role that only writes (`lakeconf grants --role writer`): a maintainer's `lakeconf maintain` "
            "removes it",
        )


def make_folders(folder: Path) -> list[Path]:
    """Creates a folder and its parents, and returns the ones that did not exist."""
    missing = [path for path in (*reversed(folder.parents), folder) if not path.exists()]
    hint = "check its owner and its permissions"
    with storage_errors(f"the folder {folder.parent} cannot be written", hint=hint):
        folder.mkdir(parents=True)
    return missing
