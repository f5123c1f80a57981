"""Checks of `lakeconf doctor` on an existing lake: marker, files, statistics, and clock and timeouts of its server."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from lakeconf.backends.server import CatalogServer
from lakeconf.catalog.lost_deletes import lost_deletes
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.stale_bounds import stale_bounds
from lakeconf.catalog.table_name import joined_name
from lakeconf.counted import counted
from lakeconf.errors import CatalogError, LakeconfError
from lakeconf.guard.guard import marker_of
from lakeconf.inspection.data_path_files import data_path_files
from lakeconf.logs import escaped
from lakeconf.store import Store

# S3 refuses every request beyond the second limit: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
_CLOCK_WARNING, _CLOCK_LIMIT = timedelta(minutes=1), timedelta(minutes=15)
# A commit of many files can take this long on a busy server.
_SHORTEST_TIMEOUT_SECONDS = 60
_SHOWN = 3


class Skip(Exception):  # noqa: N818 - no error
    """A step with nothing to do, with the reason."""


class Warn(Exception):  # noqa: N818 - no error
    """A step with a warning, with the finding and the fix."""


def examine_clock(store: Store, reader: CatalogReader) -> str:
    """Compares the clock of this machine with the clock of the catalog's server.

    Args:
        store: The store.
        reader: Reads the catalog of its lake.

    Raises:
        LakeconfError: Object storage refuses requests with this difference.
    """
    ((server,),) = reader.connection.rows(_server(store).clock(reader.metadata_database))
    difference = timedelta(seconds=abs(datetime.now(UTC).timestamp() - float(server)))
    found = f"this machine and the catalog's server differ by {difference.total_seconds():.0f} s"
    if difference > _CLOCK_LIMIT:
        raise LakeconfError(
            found, hint="set the clock: object storage refuses requests that are signed at another time"
        )
    if difference > _CLOCK_WARNING:
        raise Warn(found, "set the clock")
    return found


def examine_timeout(store: Store, reader: CatalogReader) -> str:
    """Looks for a timeout of the catalog's server that could end a transaction before its commit is complete.

    Args:
        store: The store.
        reader: Reads the catalog of its lake.
    """
    ((milliseconds,),) = reader.connection.rows(_server(store).idle_timeout(reader.metadata_database))
    if 0 < milliseconds < _SHORTEST_TIMEOUT_SECONDS * 1000:
        raise Warn(
            f"the server ends transactions that are idle for {milliseconds / 1000:g} s: a long commit would fail",
            "ALTER ROLE … SET idle_in_transaction_session_timeout = 0 for the role of the metadata backend",
        )
    return "no timeout that would end a commit"


def examine_marker(store: Store, reader: CatalogReader) -> str:
    """Checks that the marker below the data path names the catalog of a store.

    Args:
        store: The store.
        reader: Reads the catalog of its lake.
    """
    marker = marker_of(reader, store.metadata_backend)
    if not marker.exists() and not marker.knows_files():
        raise Skip("none yet: the first write creates it")
    try:
        marker.before_cleanup()
    except CatalogError as error:
        raise Warn(error.message, error.hint) from error
    return f"{marker.path} names this catalog"


def examine_files(reader: CatalogReader) -> str:
    """Compares the files that the catalog knows with those below the data path.

    Args:
        reader: Reads the catalog of the lake.

    Raises:
        CatalogError: Files of the catalog do not exist.
        Warn: A rewrite has undone deletes, or there are unknown files.
    """
    files = data_path_files(reader)
    root = files.root
    if files.missing:
        raise CatalogError(
            f"snapshots need {_some(files.missing)}, missing below {root}",
            hint="check `path`, or `bucket` and `prefix`, of the storage backend; or restore the files from a backup",
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
            "a write is running or was killed (`lakeconf maintain` removes its files), or they are not the lake's",
        )
    more = f"; {len(files.outside):,} more outside the data path were not looked for" if files.outside else ""
    return f"{root} has all files of the catalog ({len(files.needed):,}), and no others{more}"


def examine_statistics(reader: CatalogReader) -> str:
    """Looks for columns whose statistics hide rows from DuckDB.

    Args:
        reader: Reads the catalog of the lake.

    Raises:
        Warn: There are such columns.
    """
    found = stale_bounds(reader)
    if found:
        tables = [f"{joined_name(*table)} ({', '.join(columns)})" for table, columns in found.items()]
        first = joined_name(*next(iter(found)))
        raise Warn(
            f"outside lakeconf, DuckDB may hide rows from filters on columns of {escaped('; '.join(tables))}",
            f"a file has no bounds; write the rows of each table again: table = lake.table({escaped(repr(first))}); "
            "table.overwrite(table.scan())",
        )
    return "the bounds of all columns cover their files"


def _some(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:_SHOWN]) + (", …" if len(paths) > _SHOWN else "")
    return f"{counted(len(paths), 'file')} ({shown})"


def _server(store: Store) -> CatalogServer:
    server = store.metadata_backend.server()
    if server is None:
        raise Skip("the metadata backend has no server that can be asked")
    return server
