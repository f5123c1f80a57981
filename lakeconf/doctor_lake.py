"""What `lakeconf doctor` looks at in a lake that exists: its marker, and the clock and timeouts of its server."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import partial

from lakeconf.connection import Connection
from lakeconf.errors import CatalogError, LakeconfError
from lakeconf.marker import LakeMarker
from lakeconf.places import places, reader_of
from lakeconf.sql import literal
from lakeconf.store import Store

# Beyond the second, S3 refuses every request: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
_CLOCK_WARNING, _CLOCK_LIMIT = timedelta(minutes=1), timedelta(minutes=15)
# A commit of many files takes this long on a busy server.
_SHORTEST_TIMEOUT_SECONDS = 60
_TIMEOUT = """
    SELECT coalesce(max(setting::bigint), 0)::bigint AS milliseconds FROM pg_settings
    WHERE name = 'idle_in_transaction_session_timeout'
"""


class Skip(Exception):  # noqa: N818 - no error
    """A step that has nothing to do; says why."""


class Warn(Exception):  # noqa: N818 - no error
    """A step that found something to look at; says what, and what to do."""


def examine_clock(store: Store, connection: Connection) -> str:
    """Compares this machine's clock with that of the catalog's server.

    Args:
        store: The store.
        connection: Where its lake is attached.

    Raises:
        LakeconfError: Object storage refuses requests at this difference.
    """
    ((server,),) = _ask(store, connection, "SELECT extract(epoch FROM clock_timestamp())::float8 AS now")
    difference = timedelta(seconds=abs(datetime.now(timezone.utc).timestamp() - float(server)))
    found = f"this machine and the catalog's server differ by {difference.total_seconds():.0f} s"
    if difference > _CLOCK_LIMIT:
        raise LakeconfError(found, hint="set the clock: object storage refuses what is signed at another time")
    if difference > _CLOCK_WARNING:
        raise Warn(found, "set the clock")
    return found


def examine_timeout(store: Store, connection: Connection) -> str:
    """Looks for a timeout of the catalog's server that ends a transaction before its commit is complete.

    Args:
        store: The store.
        connection: Where its lake is attached.
    """
    ((milliseconds,),) = _ask(store, connection, _TIMEOUT)
    if 0 < milliseconds < _SHORTEST_TIMEOUT_SECONDS * 1000:
        raise Warn(
            f"the server ends transactions that are idle for {milliseconds / 1000:g} s: a long commit would fail",
            "ALTER ROLE … SET idle_in_transaction_session_timeout = 0 for the role of the metadata backend",
        )
    return "no timeout that would end a commit"


def examine_marker(store: Store, connection: Connection) -> str:
    """Checks that the marker below the data path names the catalog of a store.

    Args:
        store: The store.
        connection: Where its lake is attached.
    """
    reader = reader_of(store, connection)
    marker = LakeMarker(reader, partial(places, store, reader))
    if not marker.exists() and not marker.knows_files():
        raise Skip("none yet: the first write creates it")
    try:
        marker.before_cleanup()
    except CatalogError as error:
        raise Warn(error.message, error.hint) from error
    return f"{marker.path} names this catalog"


def _ask(store: Store, connection: Connection, query: str) -> list[tuple[float]]:
    if store.metadata_backend.lock_sql(0) is None:
        raise Skip("the metadata backend has no server that can be asked")
    database = str(store.attach_options.get("metadata_catalog") or f"__ducklake_metadata_{store.alias}")
    return connection.rows(f"FROM postgres_query({literal(database)}, {literal(query)})")
