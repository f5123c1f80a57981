"""Writes the rows and deletes in the catalog to files.

If the catalog is PostgreSQL, DuckLake's flush may restore deleted rows of a table that is or was partitioned by a text
with a quote, a backslash or a character that is not ASCII: it compares the text with the text form of its bytes, finds
no file for the delete, and drops the delete. So row ids are compared before and after a flush.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.table import TableInfo, tables
from lakeconf.commit.maintenance_commit import RowsChangedError, run_step
from lakeconf.commit.moved_values import ValuesChangedError
from lakeconf.commit.session import Session
from lakeconf.errors import CommitUnknownError, LakeconfError
from lakeconf.logs import EventLogger
from lakeconf.sql import identifier, literal

_log = EventLogger("maintenance")
_HINT = "create a new table with these rows if they must be in files"


def flush_lake(session: Session) -> None:
    """Flushes all tables in one commit. If that fails or would change rows, each table is flushed alone.

    Raises:
        LakeconfError: No table can be flushed.
    """
    try:
        _flush(session, None)
    except CommitUnknownError:
        raise
    except LakeconfError as error:
        found = tables(session.reader, latest(session.reader).snapshot_id)
        done = [_is_flushed(session, info) for info in found]
        if not (any(done) or isinstance(error, (RowsChangedError, ValuesChangedError))):
            raise


def _is_flushed(session: Session, info: TableInfo) -> bool:
    try:
        flush_table(session, info)
    except CommitUnknownError:
        raise
    except (RowsChangedError, ValuesChangedError) as error:
        _log.warning("%s", error.message)
    except LakeconfError as error:
        _log.warning("the rows of %s in the catalog cannot be flushed: %s", info.full_name, error.message)
    else:
        return True
    return False


def flush_table(session: Session, info: TableInfo) -> None:
    """Flushes a table.

    Args:
        session: The lake.
        info: The table.

    Raises:
        RowsChangedError: DuckLake would restore deleted rows; the table is as before.
        ValuesChangedError: Files cannot hold a value; the table is as before.
    """
    _flush(session, info)


def _flush(session: Session, info: TableInfo | None) -> None:
    """Flushes a table, or all tables."""

    def moved(snapshot_id: int) -> Sequence[TableInfo]:
        return tables(session.reader, snapshot_id) if info is None else (info,)

    def unchanged(snapshot_id: int) -> list[TableInfo]:
        dead = _tables_with_dead_rows(session.reader)
        return [one for one in moved(snapshot_id) if one.table_id in dead]

    named = "" if info is None else f", schema_name => {literal(info.schema_name)}, table_name => {literal(info.name)}"
    try:
        call = f"CALL ducklake_flush_inlined_data({literal(session.alias)}{named})"
        run_step(session, call, unchanged=unchanged, moved=moved)
    except RowsChangedError as error:
        raise RowsChangedError(
            f"{error.message}: DuckLake's flush would restore deleted rows, so its rows stay in the catalog", hint=_HINT
        ) from error


def _tables_with_dead_rows(reader: CatalogReader) -> set[int]:
    """The ids of the tables of which the catalog contains deleted rows."""
    query = "SELECT 1 FROM {} WHERE end_snapshot IS NOT NULL LIMIT 1"
    with reader.transaction() as transaction:
        inlined = transaction.rows("SELECT table_id, table_name FROM ducklake_inlined_data_tables")
        return {table_id for table_id, name in inlined if transaction.rows(query.format(identifier(name)))}
