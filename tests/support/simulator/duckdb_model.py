"""A model of DuckDB with a lake attached: it answers the statements that lakeconf sends during commits and cleanup."""

from __future__ import annotations

import functools
import json
import re
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import duckdb

from simulator.catalog import Added, Catalog, LakeTransaction, State

if TYPE_CHECKING:
    from simulator.server import Server

METADATA = re.compile(r'USE "?__ducklake_metadata_')
_OWN_QUERY = re.compile(r"FROM system\.main\.sqlite_query\('\w+', '((?:[^']|'')*)'\)")
_WITHOUT_EFFECT = re.compile(
    r"LOAD |INSTALL |CREATE OR REPLACE TEMPORARY SECRET |ATTACH |USE |SET (?!ducklake_max_retry)|CREATE SCHEMA IF NOT |"
    r"CREATE TABLE IF NOT |ALTER TABLE \S+ ADD COLUMN IF NOT |DETACH |CREATE SECRET |"
    r"FROM system\.main\.sqlite_query\('\w+', '\s*SELECT name FROM sqlite_master "
)


class Result:
    """The result of a statement, like a duckdb connection after `execute`."""

    def __init__(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self._rows = list(rows)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows


@dataclass(eq=False)
class Instance:
    """A DuckDB instance."""

    retries: int = 100  # the setting `ducklake_max_retry_count`
    last_committed: int | None = None  # the last snapshot that it committed
    # Files that an in-memory catalog would remove; see `remove_files`.
    scheduled: list[str] = field(default_factory=list)


@dataclass(eq=False)
class Session:
    """The state of one connection."""

    instance: Instance  # its DuckDB instance
    metadata: bool = False  # True if the metadata database is its default database
    begun: bool = False  # True in a transaction
    pinned: State | None = None  # the state that a transaction on the metadata reads
    changes: LakeTransaction | None = None  # the transaction of DuckLake
    failed: bool = False  # True if only ROLLBACK is possible
    lost: bool = False  # True if the server has closed the connection for good; its locks are free


class DuckDBModel:
    """Answers statements, with a catalog, and the locks and the clock of its server."""

    def __init__(self, catalog: Catalog, server: Server) -> None:
        self.catalog, self.bucket, self.server = catalog, catalog.bucket, server

    def run(self, session: Session, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Runs one statement, which has single spaces; NotImplementedError if the model does not know it."""
        if session.failed and sql != "ROLLBACK":
            raise duckdb.TransactionException("TransactionContext Error: Current transaction is aborted")
        if METADATA.match(sql):
            session.metadata = True
            return []
        if session.metadata and sql.startswith(("SELECT", "WITH")):
            return self.in_metadata(session, sql, parameters)
        if "ducklake_inlined_delete_" in sql and "sqlite_master" in sql:  # the model has no deletes in the catalog
            return []
        answer, found = _answer(sql)
        if answer is not None:
            return answer(self, session, found, parameters) or []
        if _WITHOUT_EFFECT.match(sql):
            return []
        raise NotImplementedError(f"the model of DuckDB does not know this statement: {sql} {parameters}")

    def in_metadata(self, session: Session, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Runs a query on the metadata tables, in the state that the transaction reads."""
        if session.pinned is None:
            session.pinned = self.catalog.state
        if "regexp_matches(tagged" in sql or "(DESCRIBE " in sql:  # no path of the model leads elsewhere
            return []
        sql = _OWN_QUERY.sub(lambda found: f"FROM ({found[1]})".replace("''", "'"), sql)
        sql = re.sub(r"\$(\d)", r"?\1", sql)
        sql = sql.replace("FILTER (", "FILTER (WHERE ")
        sql = re.sub(r"CAST\(([^()]+) AS TIMESTAMPTZ\)", r"timestamptz(\1)", sql)
        try:
            rows = session.pinned.execute(sql, tuple(parameters)).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                raise duckdb.CatalogException(f"Catalog Error: Table {error} does not exist!") from error
            raise
        # SQLite has no booleans.
        return [(*row[:-1], bool(row[-1])) for row in rows] if "schedule_start" in sql else rows

    def begin(self, session: Session, *_: Any) -> None:
        session.begun = True

    def commit(self, session: Session, *_: Any) -> None:
        changes, session.changes, session.begun, session.pinned = session.changes, None, False, None
        if changes is None:
            return
        try:
            made = self.catalog.commit(changes, self.server.now(), retries=session.instance.retries)
        except duckdb.TransactionException:
            self.bucket.remove(changes.own_files)
            raise
        session.instance.last_committed = made or session.instance.last_committed

    def roll_back(self, session: Session, *_: Any) -> None:
        if not session.begun:
            raise duckdb.TransactionException("TransactionContext Error: cannot rollback - no transaction is active")
        if session.changes is not None:
            self.bucket.remove(session.changes.own_files)
        self.end(session)

    def end(self, session: Session) -> None:
        """Ends a transaction without any effect, as if its process ended."""
        session.changes, session.begun, session.pinned, session.failed = None, False, None, False
        self.server.release(session)

    def changes_of(self, session: Session) -> LakeTransaction:
        """The open transaction of DuckLake; outside of BEGIN, one that reads the current state."""
        if not session.begun:
            return LakeTransaction(self.catalog.state)
        if session.changes is None:
            session.changes = LakeTransaction(self.catalog.state)
        return session.changes

    def current_snapshot(self, session: Session, *_: Any) -> list[tuple[Any, ...]]:
        return [(self.catalog.newest(self.changes_of(session).base),)]

    def last_committed(self, session: Session, *_: Any) -> list[tuple[Any, ...]]:
        return [(session.instance.last_committed,)]

    def insert(self, session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
        source = found["source"]
        files = re.search(r"read_parquet\(\[(.*?)\]", source)
        if files:
            rows = [row for path in re.findall(r"'([^']*)'", files[1]) for row in self.bucket.read(path)]
        else:
            rows = [int(value) for value in re.findall(r"\((-?\d+)\)", source)]
        self._write(session, found["table"], tuple(rows))

    def insert_keys(self, session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
        rows = []
        for row in re.findall(r"\(('[^()]*?), now\(\)((?:, NULL){7}), ([^()]*)\)", found["values"]):
            token, table, key = re.findall(r"'([^']*)'", row[0])
            rows.append((table, key, None if row[2] == "NULL" else row[2].strip("'"), token))
        self._write(session, "commits", tuple(rows))

    def _write(self, session: Session, table: str, rows: tuple[Any, ...]) -> None:
        if not rows:
            return
        table_id = self.catalog.table_id(table)
        changes = self.changes_of(session)
        path = self.server.new_file(self.catalog.data_path + self.catalog.folder(table_id), rows)
        changes.added.append(Added(table_id, path, rows))

    def register(self, session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
        table_id = self.catalog.table_id(found["table"])
        for path in re.findall(r"'([^']*)'", found["files"]):
            rows = self.bucket.read(path)
            self.changes_of(session).added.append(Added(table_id, path, tuple(rows), own=False))

    def delete(self, session: Session, found: re.Match[str], __: Sequence[Any]) -> list[tuple[Any, ...]]:
        table_id, changes = self.catalog.table_id(found["table"]), self.changes_of(session)
        if any(one.table_id == table_id for one in changes.added):
            raise NotImplementedError("the model of DuckDB does not delete rows of the same transaction")
        wanted = None if found["id"] is None else int(found["id"])
        rows = list(self.catalog.rows(table_id, self.catalog.newest(changes.base), changes.base))
        remaining = {file_id for file_id, _, row, _ in rows if wanted is not None and row != wanted}
        deleted: dict[int, list[int]] = {}
        for file_id, position, row, _ in rows:
            if wanted is None or row == wanted:
                deleted.setdefault(file_id, []).append(position)
        for file_id, positions in deleted.items():
            if file_id not in remaining:
                changes.dropped[file_id] = table_id
                continue
            all_positions = {**self._deleted_before(changes.base, file_id, table_id), **dict.fromkeys(positions)}
            path = self.server.new_file(
                self.catalog.data_path + self.catalog.folder(table_id), all_positions, "-delete"
            )
            changes.deletes[file_id] = (table_id, path, all_positions)
        return [(sum(map(len, deleted.values())),)]

    def _deleted_before(self, state: State, file_id: int, table_id: int) -> dict[int, int]:
        where = "WHERE data_file_id = ? AND end_snapshot IS NULL"
        found = state.execute(f"SELECT path FROM ducklake_delete_file {where}", (file_id,)).fetchone()
        if found is None:
            return {}
        return dict(self.bucket.read(self.catalog.data_path + self.catalog.folder(table_id) + found[0]))

    def describe_keys(self, *_: Any) -> list[tuple[Any, ...]]:
        types = {"committed_at": "TIMESTAMP WITH TIME ZONE", "interval_start": "TIMESTAMP", "interval_end": "TIMESTAMP"}
        names = "token table_name idempotency_key committed_at model definition run interval_start interval_end inputs"
        every = [*names.split(), "files", "table_uuid"]
        return [(name, types.get(name, "VARCHAR"), "YES", None, "NULL", None) for name in every]

    def find_keys(self, session: Session, found: re.Match[str], __: Sequence[Any]) -> list[tuple[Any, ...]]:
        wanted, base = set(re.findall(r"'([^']*)'", found["keys"])), self.changes_of(session).base
        rows = self.catalog.rows(self.catalog.table_id("commits"), self.catalog.newest(base), base)
        oldest: dict[tuple[Any, ...], int] = {}
        for _, _, (table, key, table_uuid, _), begin in rows:
            if key in wanted:
                oldest[table, key, table_uuid] = min(begin, oldest.get((table, key, table_uuid), begin))
        return sorted(((*key, begin) for key, begin in oldest.items()), key=lambda row: -row[3])

    def scan(self, session: Session, found: re.Match[str], __: Sequence[Any]) -> list[tuple[Any, ...]]:
        version = int(found["version"])
        if not self.catalog.has(version):
            raise duckdb.InvalidInputException(f"Invalid Input Error: No snapshot found at version {version}")
        rows = self.catalog.rows(self.catalog.table_id(found["table"]), version)
        return [(row,) for _, _, row, _ in rows]

    def set_message(self, session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
        author, message = (None if text == "NULL" else text[1:-1].replace("''", "'") for text in found.groups()[:2])
        self.changes_of(session).info = (author, message, found["info"].replace("''", "'"))

    def expire(self, session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
        self.catalog.expire([int(version) for version in found["versions"].split(",")], self.server.now())

    def forget_scheduled(self, session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
        self.catalog.forget(re.findall("'([^']*)'", found["paths"]))

    def list_orphans(self, session: Session, found: re.Match[str], _: Sequence[Any]) -> list[tuple[Any, ...]]:
        before = datetime.fromisoformat(found["time"]).timestamp()
        scheduled = self.catalog.scheduled(float("inf"))
        known = {*self.catalog.known_files(), *scheduled}
        files = self.bucket.parquet_files(self.catalog.data_path)
        return [(path,) for path, file in files.items() if path not in known and file.written < before]

    def schedule_removal(self, session: Session, found: re.Match[str], _: Sequence[Any]) -> None:
        session.instance.scheduled = re.findall(r"\(\d+, '([^']*)'", found["rows"])

    def remove_scheduled(self, session: Session, *_: Any) -> None:
        self.server.remove(session.instance.scheduled)

    def copy(self, _: Session, found: re.Match[str], parameters: Sequence[Any]) -> None:
        path, query = found["path"], found["query"]
        if "::BLOB" in query:
            self.server.put(path, parameters[0].content)
        elif path.endswith(".parquet"):
            manifest = re.search(r"'([^']*)' AS lake", query)
            self.server.put(
                path, [manifest[1]] if manifest else [int(row) for row in re.findall(r"\((-?\d+)\)", query)]
            )
        else:
            self.server.put(path, query.removeprefix("SELECT '").removesuffix("' AS marker").replace("''", "'"))

    def read_text(self, _: Session, found: re.Match[str], parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        return [(self.bucket.read(found["path"]),)]

    def read_manifest(self, _: Session, found: re.Match[str], parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        return [(row,) for row in self.bucket.read(found["path"])]

    def read_blob(self, _: Session, found: re.Match[str], parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        paths = re.findall(r"'([^']*)'", found["paths"])
        contents = [(path, Blob(self.bucket.read(path))) for path in paths]
        if found["columns"] == "filename, content":
            return [(path, content) for path, content in contents]
        return [
            (path, len(content)) if "filename" in found["columns"] else (len(content),) for path, content in contents
        ]

    def glob(self, _: Session, found: re.Match[str], parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        return [(path,) for path in self.bucket.glob(found["pattern"])]


class Blob(bytes):
    """The bytes of a file of the model, which also carry its content."""

    content: Any

    def __new__(cls, content: Any) -> Blob:
        made = super().__new__(cls, b"x" * 300)
        made.content = content
        return made


def _constant(*rows: tuple[Any, ...]) -> Callable[..., list[tuple[Any, ...]]]:
    return lambda *_: list(rows)


def _settings(model: DuckDBModel, *_: Any) -> list[tuple[Any, ...]]:
    return [("sqlite", model.catalog.data_path)]


def _retries(_: DuckDBModel, session: Session, found: re.Match[str], __: Any) -> list[tuple[Any, ...]]:
    return [(session.instance.retries,)]


def _set_retries(_: DuckDBModel, session: Session, found: re.Match[str], __: Any) -> None:
    session.instance.retries = int(found["count"])


def _on_server(model: DuckDBModel, session: Session, found: re.Match[str], _: Any) -> list[tuple[Any, ...]]:
    return model.server.query(session, found["query"].replace("''", "'"))


_EXTENSIONS = [(name,) for name in ("ducklake", "sqlite_scanner", "postgres_scanner", "httpfs")]
_TEXT = "NULL|'(?:[^']|'')*'"
_T = r'"dev"\."main"\."(?P<table>\w+)"'
_TIME = r"older_than => CAST\('(?P<time>[^']*)' AS TIMESTAMPTZ\), dry_run => (?P<dry>\w+)\)"
_STATEMENTS: list[tuple[re.Pattern[str], Callable[..., Any]]] = [
    (re.compile(pattern + r";?\s*$"), answer)
    for pattern, answer in (
        ("BEGIN", DuckDBModel.begin),
        ("COMMIT", DuckDBModel.commit),
        ("ROLLBACK", DuckDBModel.roll_back),
        (r"SELECT system\.main\.current_setting\('TimeZone'\)", _constant(("Etc/UTC",))),
        (r"SELECT system\.main\.current_setting\('ducklake_max_retry_count'\)", _retries),
        (r"SET ducklake_max_retry_count = (?P<count>\d+)", _set_retries),
        (r"FROM ducklake_current_snapshot\(\?\)", DuckDBModel.current_snapshot),
        (r"FROM ducklake_last_committed_snapshot\(\?\)", DuckDBModel.last_committed),
        (rf'INSERT INTO {_T} \("id"\) SELECT "id" FROM \((?P<source>.*)\)', DuckDBModel.insert),
        (r'INSERT INTO "dev"\.lakeconf\.commits \([^)]*\) VALUES (?P<values>.*)', DuckDBModel.insert_keys),
        (r"CALL ducklake_add_data_files\('dev', '(?P<table>\w+)', \[(?P<files>.*)\], .*\)", DuckDBModel.register),
        (rf"DELETE FROM {_T}(?: WHERE \(\"id\" = CAST\('(?P<id>-?\d+)' AS BIGINT\)\))?", DuckDBModel.delete),
        (r'DESCRIBE "dev"\.lakeconf\.commits', DuckDBModel.describe_keys),
        (
            r'SELECT table_name, idempotency_key, table_uuid, min\(snapshot_id\) FROM "dev"\.lakeconf\.commits '
            r"WHERE idempotency_key IN \((?P<keys>.*)\) GROUP BY ALL ORDER BY 4 DESC",
            DuckDBModel.find_keys,
        ),
        (
            rf"DESCRIBE SELECT \* FROM {_T} AT \(VERSION => \d+\)",
            _constant(("id", "BIGINT", "YES", None, "NULL", None)),
        ),
        (rf'SELECT "id" FROM {_T} AT \(VERSION => (?P<version>\d+)\)', DuckDBModel.scan),
        (
            rf"CALL ducklake_set_commit_message\('dev', (?P<author>{_TEXT}), (?P<message>{_TEXT}), "
            r"extra_info => '(?P<info>.*)'\)",
            DuckDBModel.set_message,
        ),
        (r"CALL ducklake_expire_snapshots\(\?, versions => \[(?P<versions>.*)\]\)", DuckDBModel.expire),
        (
            r"DELETE FROM \S+\.ducklake_files_scheduled_for_deletion WHERE .* AND path IN (?P<paths>.*)",
            DuckDBModel.forget_scheduled,
        ),
        (rf"FROM ducklake_delete_orphaned_files\('dev', {_TIME}", DuckDBModel.list_orphans),
        (r"INSERT INTO \S+\.ducklake_files_scheduled_for_deletion VALUES (?P<rows>.*)", DuckDBModel.schedule_removal),
        (r"CALL ducklake_cleanup_old_files\('__lakeconf_removal_\w+', .*\)", DuckDBModel.remove_scheduled),
        (r"COPY \((?P<query>.*)\) TO '(?P<path>[^']*)' \(FORMAT .*\)", DuckDBModel.copy),
        (r"SELECT content FROM read_text\('(?P<path>[^']*)'\)", DuckDBModel.read_text),
        (r"SELECT lake FROM read_parquet\('(?P<path>[^']*)', hive_partitioning = false\)", DuckDBModel.read_manifest),
        (r"SELECT (?P<columns>[a-z, ]+) FROM read_blob\(\[?(?P<paths>'.*')\]?\)", DuckDBModel.read_blob),
        (
            r"SELECT file FROM glob\('(?P<pattern>[^']*)'\)"
            r"(?: WHERE NOT regexp_matches\(substr\(file, \d+\), '[^']*'\))?(?: LIMIT 1)?",
            DuckDBModel.glob,
        ),
        (r"FROM postgres_query\('\w+', '(?P<query>.*)'\)", _on_server),
        (r"CALL postgres_execute\('\w+', '(?P<query>.*)'\)", _on_server),
        (r"SELECT 1 FROM duckdb_databases\(\) .*", _constant()),
        (r"SELECT extension_name FROM duckdb_extensions\(\) .*", _constant(*_EXTENSIONS)),
        (r"SELECT system\.main\.current_setting\('search_path'\)", _constant(("memory.main,system.main,dev.main",))),
        (r"SELECT name, secret_string FROM duckdb_secrets\(\)", _constant()),
        (r"SELECT 1 FROM duckdb_secrets\(\) .*", _constant()),
        (r"SELECT options\['metadata_catalog'\], options.*", _constant((None, None))),
        (r"SELECT catalog_type, data_path FROM ducklake_settings\(\?\)", _settings),
    )
]


@functools.lru_cache(10_000)
def _answer(sql: str) -> tuple[Callable[..., Any] | None, re.Match[str] | None]:
    for pattern, answer in _STATEMENTS:
        found = pattern.match(sql)
        if found is not None:
            return answer, found
    return None, None


TOUCHES_FILES = re.compile(
    r"INSERT INTO \"dev\"|DELETE FROM \"|CALL ducklake_add_data_files|COPY|SELECT .* FROM (read_|glob)|"
    r".*ducklake_(cleanup|delete)_o"
)


def token_of(info: str | None) -> str | None:
    """The token in the extra info of a commit."""
    return None if info is None else json.loads(info).get("token")
