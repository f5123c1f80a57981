"""A model of DuckLake's catalog: the metadata tables of each state, and the commits that make the next state.

The metadata tables are those that DuckLake itself created on SQLite. A committed state never changes, so a transaction
reads the state at which it began.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import duckdb

from simulator.bucket import Bucket

State = sqlite3.Connection


@dataclass(frozen=True)
class Added:
    """A data file that a transaction adds; `own` is True if DuckLake wrote it, so that it removes it as well."""

    table_id: int
    path: str
    rows: tuple[Any, ...]
    own: bool = True


@dataclass
class LakeTransaction:
    """The changes of a transaction of DuckLake."""

    base: State  # the state that it reads
    added: list[Added] = field(default_factory=list)  # the data files
    dropped: dict[int, int] = field(default_factory=dict)  # data files without remaining rows: the table of each, by id
    # New delete files: the table, the path and the deleted positions, by id of the data file.
    deletes: dict[int, tuple[int, str, dict[int, int | None]]] = field(default_factory=dict)
    info: tuple[Any, Any, Any] = (None, None, None)  # author, message and extra info of the commit

    @property
    def changes_rows(self) -> bool:
        """True if COMMIT creates a snapshot."""
        return bool(self.added or self.dropped or self.deletes)

    @property
    def own_files(self) -> list[str]:
        """The files that DuckLake has written, and removes if the transaction fails."""
        return [one.path for one in self.added if one.own] + [path for _, path, _ in self.deletes.values()]


class Catalog:
    """The current state of the catalog, first that of a template, which DuckLake created."""

    def __init__(self, template: State, bucket: Bucket, data_path: str) -> None:
        self.bucket, self.data_path = bucket, data_path
        self.state = _copy(template)

    def newest(self, state: State | None = None) -> int:
        """The newest snapshot of a state."""
        return int(self._one(state, "SELECT max(snapshot_id) FROM ducklake_snapshot"))

    def has(self, snapshot_id: int) -> bool:
        """True if a snapshot exists and has not expired."""
        return bool(self._one(None, "SELECT count(*) FROM ducklake_snapshot WHERE snapshot_id = ?", snapshot_id))

    def table_id(self, table: str) -> int:
        """The id of a table, by its name without the schema."""
        return int(self._one(None, "SELECT table_id FROM ducklake_table WHERE table_name = ?", table))

    def folder(self, table_id: int) -> str:
        """The folder of a table, relative to the data path."""
        return str(self._one(None, f"SELECT s.path || t.path {_OF_TABLE}", table_id))

    def rows(self, table_id: int, snapshot_id: int, state: State | None = None) -> Iterator[tuple[int, int, Any, int]]:
        """The rows of a table: data file, position, row, and the first snapshot with the row."""
        state, folder = state or self.state, self.data_path + self.folder(table_id)
        files = state.execute(
            "SELECT d.data_file_id, d.path, d.begin_snapshot, x.path, x.begin_snapshot FROM ducklake_data_file AS d "
            "LEFT JOIN ducklake_delete_file AS x ON x.data_file_id = d.data_file_id AND x.begin_snapshot <= ?1 AND "
            "(x.end_snapshot IS NULL OR x.end_snapshot > ?1) WHERE d.table_id = ?2 AND d.begin_snapshot <= ?1 "
            "AND (d.end_snapshot IS NULL OR d.end_snapshot > ?1) ORDER BY d.data_file_id",
            (snapshot_id, table_id),
        ).fetchall()
        for file_id, path, begin, delete_path, _ in files:
            deleted = self.bucket.read(folder + delete_path) if delete_path else {}
            for position, row in enumerate(self.bucket.read(folder + path)):
                if deleted.get(position, snapshot_id + 1) > snapshot_id:
                    yield file_id, position, row, begin

    def commit(self, transaction: LakeTransaction, now: float, *, retries: int, at: int | None = None) -> int | None:
        """Commits a transaction at `now` and returns the new snapshot, or None if there is nothing to commit.

        `at` is the number that it must get if its statements are already on the server. Without `retries`, it fails
        if another commit was faster, as in DuckLake.
        """
        if not transaction.changes_rows:
            return None
        newest, begun = self.newest(), self.newest(transaction.base)
        overtaken = newest != begun and (retries == 0 or bool(transaction.dropped or transaction.deletes))
        if overtaken or (at is not None and at != newest + 1):
            raise duckdb.TransactionException(
                "TransactionContext Error: Failed to commit: Failed to commit DuckLake transaction.\nExceeded the "
                f"maximum retry count of {retries} set by the ducklake_max_retry_count setting.\n. Failed to commit: "
                'duplicate key value violates unique constraint "ducklake_snapshot_pkey"'
            )
        state = _copy(self.state)
        _apply(state, transaction, newest + 1, now, self)
        self.state = state
        return newest + 1

    def expire(self, versions: Sequence[int], now: float) -> None:
        """Removes snapshots, and schedules the files that only they need for deletion."""
        state = _copy(self.state)
        listed = ", ".join(map(str, versions))
        for table in ("ducklake_snapshot", "ducklake_snapshot_changes"):
            state.execute(f"DELETE FROM {table} WHERE snapshot_id IN ({listed})")
        unneeded = (
            "end_snapshot IS NOT NULL AND NOT EXISTS (SELECT 1 FROM ducklake_snapshot AS s "
            "WHERE s.snapshot_id >= begin_snapshot AND s.snapshot_id < end_snapshot)"
        )
        gone = [one for (one,) in state.execute(f"SELECT data_file_id FROM ducklake_data_file WHERE {unneeded}")]
        files = ", ".join(map(str, gone))
        deletes = f"data_file_id IN ({files}) OR ({unneeded})"
        for table, column, where in (
            ("ducklake_delete_file", "delete_file_id", deletes),
            ("ducklake_data_file", "data_file_id", f"data_file_id IN ({files})"),
        ):
            found = state.execute(f"SELECT {column}, table_id, path FROM {table} WHERE {where}").fetchall()
            for file_id, table_id, path in found:
                self.schedule(state, file_id, self.folder(table_id) + path, now)
            state.execute(f"DELETE FROM {table} WHERE {where}")
        self.state = state

    def schedule(self, state: State, file_id: int, path: str, now: float) -> None:
        """Schedules a file, by its path relative to the data path, for deletion."""
        values = (file_id, path, 1, moment(now))
        state.execute("INSERT INTO ducklake_files_scheduled_for_deletion VALUES (?, ?, ?, ?)", values)

    def scheduled(self, before: float) -> list[str]:
        """The full paths of files that were scheduled before a time."""
        rows = self.state.execute("SELECT path, schedule_start FROM ducklake_files_scheduled_for_deletion").fetchall()
        return [self.data_path + path for path, start in rows if microseconds(start) < before * 1e6]

    def forget(self, paths: Sequence[str]) -> None:
        """Removes files from the list of scheduled files."""
        state = _copy(self.state)
        relative = [(path.removeprefix(self.data_path),) for path in paths]
        state.executemany("DELETE FROM ducklake_files_scheduled_for_deletion WHERE path = ?", relative)
        self.state = state

    def known_files(self) -> list[str]:
        """The full paths of all data and delete files of all snapshots."""
        found = self.state.execute(
            "SELECT table_id, path FROM ducklake_data_file UNION SELECT table_id, path FROM ducklake_delete_file"
        ).fetchall()
        return sorted(self.data_path + self.folder(table_id) + path for table_id, path in found)

    def _one(self, state: State | None, sql: str, *parameters: Any) -> Any:
        return (state or self.state).execute(sql, parameters).fetchone()[0]


_OF_TABLE = "FROM ducklake_table AS t JOIN ducklake_schema AS s USING (schema_id) WHERE t.table_id = ?"


def _apply(state: State, transaction: LakeTransaction, snapshot: int, now: float, catalog: Catalog) -> None:
    before = state.execute(
        "SELECT schema_version, next_catalog_id, next_file_id FROM ducklake_snapshot ORDER BY snapshot_id DESC LIMIT 1"
    ).fetchone()
    number = before[2]
    for file_id in transaction.dropped:
        state.execute("UPDATE ducklake_data_file SET end_snapshot = ? WHERE data_file_id = ?", (snapshot, file_id))
    for one in transaction.added:
        path = one.path.removeprefix(catalog.data_path + catalog.folder(one.table_id))
        values = (number, one.table_id, snapshot, path, len(one.rows))
        state.execute(
            "INSERT INTO ducklake_data_file (data_file_id, table_id, begin_snapshot, path, path_is_relative, "
            "file_format, record_count) VALUES (?, ?, ?, ?, 1, 'parquet', ?)",
            values,
        )
        number += 1
    for file_id, (table_id, path, positions) in transaction.deletes.items():
        where = "WHERE data_file_id = ? AND end_snapshot IS NULL"
        earlier = state.execute(
            f"SELECT delete_file_id, path, begin_snapshot FROM ducklake_delete_file {where}", (file_id,)
        )
        begin, partial = snapshot, None
        for old_id, old_path, begin in earlier.fetchall():  # noqa: B007 - the one earlier file gives its first snapshot
            state.execute("DELETE FROM ducklake_delete_file WHERE delete_file_id = ?", (old_id,))
            catalog.schedule(state, old_id, catalog.folder(table_id) + old_path, now)
            partial = snapshot
        for position, since in positions.items():
            positions[position] = snapshot if since is None else since
        name = path.removeprefix(catalog.data_path + catalog.folder(table_id))
        state.execute(
            "INSERT INTO ducklake_delete_file (delete_file_id, table_id, begin_snapshot, data_file_id, path, "
            "path_is_relative, format, delete_count, partial_max) VALUES (?, ?, ?, ?, ?, 1, 'parquet', ?, ?)",
            (number, table_id, begin, file_id, name, len(positions), partial),
        )
        number += 1
    state.execute("INSERT INTO ducklake_snapshot VALUES (?, ?, ?, ?, ?)", (snapshot, moment(now), *before[:2], number))
    inserted = sorted({one.table_id for one in transaction.added})
    deleted = sorted({*transaction.dropped.values(), *(table_id for table_id, *_ in transaction.deletes.values())})
    made = [f"inserted_into_table:{table}" for table in inserted] + [f"deleted_from_table:{table}" for table in deleted]
    state.execute(
        "INSERT INTO ducklake_snapshot_changes VALUES (?, ?, ?, ?, ?)", (snapshot, ",".join(made), *transaction.info)
    )


def moment(now: float) -> str:
    """A time in the form of DuckLake on SQLite."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S.%f+00")


def microseconds(text: str) -> int:
    """A time as DuckDB's `epoch_us` returns it."""
    found = datetime.fromisoformat(text)
    return round(found.timestamp() * 1_000_000)


class _ArgMax:
    """DuckDB's aggregate `arg_max`."""

    def __init__(self) -> None:
        self.best: tuple[Any, Any] | None = None

    def step(self, value: Any, by: Any) -> None:
        if self.best is None or by > self.best[1]:
            self.best = (value, by)

    def finalize(self) -> Any:
        return self.best and self.best[0]


class InMemory(sqlite3.Connection):
    """A database that is closed when nothing uses it any more; Python 3.13 and later warn of others."""

    def __del__(self) -> None:
        self.close()


def in_memory() -> InMemory:
    return sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None, factory=InMemory)


def _copy(state: State) -> State:
    """A copy of a state, with the functions of DuckDB that lakeconf uses."""
    made = in_memory()
    state.backup(made)
    made.create_function("timestamptz", 1, microseconds, deterministic=True)
    made.create_function("epoch_us", 1, lambda moment: moment, deterministic=True)
    made.create_function("contains", 2, lambda text, part: text is not None and part in text, deterministic=True)
    made.create_function("concat", -1, lambda *parts: "".join(map(str, parts)), deterministic=True)
    made.create_aggregate("arg_max", 2, _ArgMax)  # type: ignore[arg-type]
    return made
