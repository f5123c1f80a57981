"""The idempotency key of a write in a staged commit: a file of `lakeconf.commits` with one row."""

from __future__ import annotations

from pathlib import Path

from lakeconf.catalog.table import TableInfo, load_table
from lakeconf.commit import journal
from lakeconf.commit.change import Change
from lakeconf.commit.staged_commit import FileChange
from lakeconf.commit.transaction import Transaction
from lakeconf.engines.base import Staged
from lakeconf.engines.staging import announce, staging_folder
from lakeconf.errors import TableNotFoundError
from lakeconf.sql import identifier, literal


def add_key(transaction: Transaction) -> None:
    """Adds the change that records the key of a transaction's write, if it has one; see `key_refusal`."""
    info = None if transaction.key is None else table_of_keys(transaction)
    if transaction.key is None or info is None:
        return
    session, token = transaction.session, transaction.next_token()
    folder = staging_folder(info, token)
    announce(session.writer, folder, session.reader.lake_id)
    path = f"{folder}key.parquet"
    # First the change, so that a failure below removes the file.
    staged = Staged("", files=(path,), folder=folder, row_count=0)
    by_files = FileChange(info, staged.files)
    transaction.add(Change((), info.full_name, staged, written_for=info, by_files=by_files))
    if "://" not in folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
    ids = ", ".join(f"{identifier(column.name)}: {column.field_id}" for column in info.columns)
    row = journal.key_row(transaction.token, transaction.key)
    session.writer.execute(f"COPY ({row}) TO {literal(path)} (FORMAT parquet, FIELD_IDS {{{ids}}})")


def table_of_keys(transaction: Transaction) -> TableInfo | None:
    """The table of keys, if it has the columns of the current version of lakeconf."""
    try:
        info = load_table(transaction.session.reader, journal.TABLE, transaction.snapshot_id)
    except TableNotFoundError:
        return None
    found = {column.name: column.type for column in info.columns}
    return info if found == journal.STORED_TYPES and all(column.nullable for column in info.columns) else None
