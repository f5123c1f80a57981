"""The protocol of a commit by statements: DuckDB runs them in one transaction, and DuckLake writes the files."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from lakeconf.catalog.admission import compose_path
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.table_options import table_folder
from lakeconf.catalog.tables import joined_name, split_name
from lakeconf.commit import journal
from lakeconf.commit.journal import CommitKey, Event
from lakeconf.commit.lost_reply import KeptFiles, await_commits, check_written, find_commit
from lakeconf.commit.moved_values import AddedRows, check_structs, has_added
from lakeconf.connection.connection import Connection
from lakeconf.engines.file_names import written_by_ducklake
from lakeconf.errors import CatalogError, LakeconfError, UnsupportedError
from lakeconf.sql import folded, literal, qualified

if TYPE_CHECKING:
    from lakeconf.commit.actions import Action
    from lakeconf.commit.staging import StagingArea

# DuckDB settings for reading a lake and committing to it.
SETTINGS: Mapping[str, str | int | float] = {
    # DuckDB applies today's statistics to filters on older snapshots, which is wrong after files were rewritten.
    "disabled_optimizers": "statistics_propagation",
    # Retries of a commit that another commit overtook: 10 are too few for 8 writers. Pauses grow to 6 seconds.
    "ducklake_max_retry_count": 100,
    "ducklake_retry_wait_ms": 50,
    "ducklake_retry_backoff": 1.05,
}
# The most files of a table to list in the folders of its partitions, which takes a request for each thousand.
_MOST_LISTED = 5000
_FOLDERS = """
    SELECT s.schema_name, t.table_name, s.path, s.path_is_relative, t.path, t.path_is_relative, t.table_id,
        EXISTS (SELECT 1 FROM ducklake_partition_info AS p WHERE p.table_id = t.table_id)
    FROM ducklake_table AS t JOIN ducklake_schema AS s ON s.schema_id = t.schema_id
    WHERE t.end_snapshot IS NULL AND s.end_snapshot IS NULL
"""
_FILES = "SELECT count(*) FROM ducklake_data_file WHERE table_id = ?"
# Files and delete files have one series of ids. These are more than a busy lake commits in a minute or two.
_NEWEST_FILES = """
    WITH newest AS (SELECT max(next_file_id) - 1000 AS since FROM ducklake_snapshot)
    SELECT path FROM ducklake_data_file, newest WHERE data_file_id >= since
    UNION ALL SELECT path FROM ducklake_delete_file, newest WHERE delete_file_id >= since
"""


class Committing(Enum):
    """What commits, if it is not a server that can wait for commits in progress."""

    THIS_PROCESS = "this process"
    UNKNOWN = "unknown"


class SqlCommit:
    """Commits a transaction of the writing connection; implements `driver.CommitProtocol`.

    Args:
        writer: The connection that commits.
        reader: Reads the catalog.
        reconnect: Opens a new connection with the lake attached.
        barrier: The statement that waits for commits in progress on a server, or what commits instead of a server.
        token: The id of the commit, which identifies its snapshot.
    """

    name = "public"
    keeps_positions = False

    def __init__(
        self,
        writer: Connection,
        reader: CatalogReader,
        reconnect: Callable[[], Connection],
        barrier: str | Committing,
        token: str,
    ) -> None:
        self.writer, self.reader, self.reconnect = writer, reader, reconnect
        self.barrier, self.token = barrier, token
        # No reply can be lost where this process commits.
        self._kept = None if barrier is Committing.THIS_PROCESS else KeptFiles(reader.connection)

    @property
    def key_files(self) -> Sequence[str]:
        return ()

    def begin(self) -> int:
        self.writer.execute("BEGIN")
        # From here on the transaction reads this snapshot; DuckLake itself detects later changes.
        ((begun,),) = self.writer.rows("FROM ducklake_current_snapshot(?)", [self.reader.alias])
        return int(begun)

    def carry_out(self, actions: Iterable[Action], begun: int) -> int:
        inserted, changed, created, nested = 0, set[str](), set[str](), set[str]()
        for action in actions:
            added = None
            if action.adds_rows and action.table in nested:
                raise UnsupportedError(
                    f"the transaction has put rows of {action.table} into the catalog before it added a column with "
                    "fields or elements, and DuckLake cannot add others after that: nothing was written",
                    hint="add the column first, or in another transaction",
                )
            if action.deletes and action.table in changed:
                added = AddedRows(self.writer, self.reader.alias, action.table)
            if action.creates:
                created.add(action.table)
            if action.adds_rows:
                changed.add(action.table)
            inserted += action.run(self.writer, self.reader, begun)
            if action.adds_nested and has_added(self.writer, self.reader.alias, action.table):
                nested.add(action.table)
            if added is not None:
                added.check()
            if action.adds_rows and action.writes_files and action.may_add_structs:
                check_structs(self.writer, self.reader, split_name(action.table), is_new=action.table in created)
        return inserted

    def record(self, keys: Collection[CommitKey], events: Sequence[Event], staging: StagingArea) -> None:
        del staging
        if keys or events:
            for statement in journal.statements(self.reader.alias, self.token, tuple(keys), events):
                self.writer.execute(statement)

    def describe(self, author: str | None, message: str | None, info: str) -> bool:
        # Do not write `alias.set_commit_message`: DuckDB could read the alias as the name of a schema.
        # And bind no parameter: the first one of a process makes duckdb import pandas.
        header = ", ".join("NULL" if text is None else literal(text) for text in (author, message))
        alias = literal(self.reader.alias)
        self.writer.execute(f"CALL ducklake_set_commit_message({alias}, {header}, extra_info => {literal(info)})")
        return True

    def written_tables(self, actions: Iterable[Action], *, records: bool) -> set[str]:
        return {action.table for action in actions if action.writes_files} | ({journal.TABLE} if records else set())

    def keep_written(self, tables: Collection[str], created: Collection[str], begun: int) -> None:
        if self._kept is None or not tables:
            return
        unknown = {folded(table): table for table in sorted(tables)}
        others = {folded(table) for table in created}
        folders: dict[str, str] = {}
        with self.reader.transaction() as transaction:
            for *names, schema, in_root, table, in_schema, table_id, partitioned in transaction.rows(_FOLDERS):
                name = folded(joined_name(*names))
                if name in others or unknown.pop(name, None) is None:
                    continue
                parent = compose_path(transaction.data_path, schema, is_relative=in_root)
                folder = compose_path(parent, table, is_relative=in_schema)
                if not (partitioned and "://" in folder):
                    folders[folder] = ""
                elif transaction.rows(_FILES, [table_id])[0][0] <= _MOST_LISTED:
                    folders[folder] = "**/"
            known = {str(path).rpartition("/")[2] for (path,) in transaction.rows(_NEWEST_FILES)}
        for parts in map(split_name, unknown.values()):
            folders |= self._folders_of(*parts) or {table_folder(self.reader, *parts, begun): "**/"}
        self._kept.keep(folders, known)

    def _folders_of(self, schema: str, table: str) -> dict[str, str]:
        """The folders of a table that this transaction creates; none if it renames it, or a column hides the paths."""
        named = "lower(schema_name) = lower(?) AND lower(table_name) = lower(?)"
        exists = f"SELECT 1 FROM duckdb_tables() WHERE database_name = ? AND {named}"
        alias = self.reader.alias
        if not self.writer.rows(exists, [alias, schema, table]):
            return {}
        rows = self.writer.rows(f"SELECT DISTINCT filename FROM {qualified(alias, schema, table)}")
        paths = (re.fullmatch(r"(.*?/)((?:[^/]*=[^/]*/)*)([^/]+)", str(file)) for (file,) in rows)
        return {
            path[1]: "**/" if path[2] else ""
            for path in paths
            if path is not None
            and written_by_ducklake(path[3]) is not None
            and path[1].startswith(self.reader.data_path)
        }

    def restore_written(self) -> None:
        if self._kept is not None:
            self._kept.restore()

    def release_written(self) -> None:
        if self._kept is not None:
            self._kept.close()

    def commit(self) -> None:
        self.writer.execute("COMMIT")

    def roll_back(self) -> None:
        with contextlib.suppress(LakeconfError):
            self.writer.execute("ROLLBACK")

    def last_committed(self, begun: int) -> int:
        # DuckLake stores the number when the server answers COMMIT, so this needs no server, and the number is exact
        # even if the server is lost afterwards. A commit without changes creates no snapshot.
        ((last,),) = self.writer.rows("FROM ducklake_last_committed_snapshot(?)", [self.reader.alias])
        return max(begun, int(last or 0))

    def find(self, begun: int, *, answered: bool) -> int | None:
        if answered:
            return find_commit(self.reader, self.token, begun)
        with self.reconnect() as connection:
            reader = self.reader.on(connection)
            if isinstance(self.barrier, str):
                await_commits(reader, self.barrier)
            snapshot_id = find_commit(reader, self.token, begun)
        if snapshot_id is None and self.barrier is Committing.UNKNOWN:
            raise CatalogError("the metadata backend cannot tell whether a commit is still in progress")
        return snapshot_id

    def check_written(self, snapshot_id: int) -> None:
        with self.reconnect() as connection:
            check_written(self.reader.on(connection), snapshot_id)


@contextlib.contextmanager
def without_retries(writer: Connection) -> Iterator[None]:
    """Disables DuckLake's own retries of a commit that another commit overtook."""
    setting = "ducklake_max_retry_count"
    ((retries,),) = writer.rows(f"SELECT system.main.current_setting('{setting}')")
    writer.execute(f"SET {setting} = 0")
    try:
        yield
    finally:
        writer.execute(f"SET {setting} = {retries}")


@contextlib.contextmanager
def changed_settings(writer: Connection, settings: Mapping[str, str]) -> Iterator[None]:
    """Changes settings of the DuckDB instance that otherwise have their defaults, inside a `with` block.

    The caller holds the session's writer lock.
    """
    try:
        for name, value in settings.items():
            writer.execute(f"SET {name} = {literal(value)}")
        yield
    finally:
        for name in settings:
            writer.execute(f"RESET {name}")
