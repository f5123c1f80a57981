"""Failures of single tables during a compaction: the other tables are compacted, and each error names the file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from lakeconf.catalog.data_file import load_data_files
from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.tables import find_table, joined_name
from lakeconf.commit.session import Session
from lakeconf.connection.duckdb_errors import mentions
from lakeconf.errors import LakeconfError, QueryError, SchemaError, StorageError, TableNotFoundError
from lakeconf.lake.compaction import all_tables
from lakeconf.lake.compaction_step import of_table
from lakeconf.logs import event_logger
from lakeconf.sql import files_sql, qualified

_log = event_logger("maintenance")
# What a missing or damaged file raises; DuckDB has no class for it.
_OF_FILES = (StorageError, QueryError, SchemaError)
_DECRYPTED = "encryption_config = {footer_key_value: from_base64(?)}"
_HINT = (
    "restore the file from a backup; or drop the table, and bring it back with `lakeconf restore` at a snapshot before "
    "the file. The other tables are compacted; no snapshot expires before, because older ones may have the rows"
)


class FailedTables:
    """The tables of a lake that a compaction cannot change because of a file.

    Args:
        session: The lake.
        others: The tables that the compaction must leave, by schema and name.
    """

    def __init__(self, session: Session, others: Collection[tuple[str, str]] = ()) -> None:
        self._session = session
        self.others = frozenset(others)
        self._errors: dict[tuple[str, str], LakeconfError] = {}

    @contextmanager
    def apart(self, schema: str, name: str) -> Iterator[None]:
        """Keeps an error of the block, which works on one table, until `check`."""
        try:
            yield
        except _OF_FILES as error:
            _log.warning("%s cannot be compacted: %s", joined_name(schema, name), error.message)
            self._errors.setdefault((schema, name), error)

    def for_others(self, step: Callable[[str], None], left: Collection[tuple[str, str]]) -> None:
        """Runs a step, of the SQL arguments of a table, for all tables at once unless some are left, or for each."""
        if not left and not self._errors and not self.others:
            try:
                step("")
            except _OF_FILES as error:
                _log.info("each table is compacted alone: %s", error.message)
            else:
                return
        for table in all_tables(self._session.reader):
            if table not in left and table not in self._errors and table not in self.others:
                with self.apart(*table):
                    step(of_table(*table))

    def check(self) -> None:
        """Raises the errors of all tables, with their files; if no file is the cause, the first one as it is."""
        if not self._errors:
            return
        first = next(iter(self._errors.values()))
        paths = {table: self._unreadable(*table, error) for table, error in self._errors.items()}
        if not any(paths.values()):
            raise first
        messages = [_message(*table, error, paths[table]) for table, error in self._errors.items()]
        raise StorageError("\n".join(messages), hint=_HINT) from first

    def _unreadable(self, schema: str, name: str, error: LakeconfError) -> str | None:
        """The first file of a table that the error names, or else that DuckDB cannot read; None for another cause."""
        with self._session.reader.transaction() as transaction:
            newest = latest(self._session.reader).snapshot_id
            try:
                info = find_table(transaction, qualified(schema, name), newest)
            except TableNotFoundError:
                return None
            data_files = load_data_files(transaction, info, newest)
        keys = {file.path: file.encryption_key for file in data_files}
        deletes = (file.delete_file for file in data_files)
        keys |= {file.path: file.encryption_key for file in deletes if file is not None and file.format == "parquet"}
        named = next((path for path in keys if mentions(error, path)), None)
        return named or next((path for path, key in keys.items() if not self._is_readable(path, key)), None)

    def _is_readable(self, path: str, key: str | None) -> bool:
        source = files_sql("read_parquet", path, *([] if key is None else [_DECRYPTED]))
        try:
            self._session.writer.rows(f"SELECT count(COLUMNS(*)) FROM {source}", [] if key is None else [key])
        except _OF_FILES:
            return False
        return True


def _message(schema: str, name: str, error: LakeconfError, path: str | None) -> str:
    file = "" if path is None or mentions(error, path) else f"the file {path}: "
    return f"{joined_name(schema, name)} cannot be compacted: {file}{error.message}"
