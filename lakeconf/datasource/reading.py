"""Reads parts of a lake on an executor, or on the driver."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from socket import gethostname
from typing import TypeAlias

import pyarrow as pa

from lakeconf.backends.base import StorageBackend, StoreNames
from lakeconf.catalog.changes import BEGIN, END, ROW_ID, ChangesPlan, Deletes
from lakeconf.catalog.partial_lake import attach_partial_lake
from lakeconf.catalog.predicates import to_duckdb_sql
from lakeconf.catalog.scan import ScanPlan
from lakeconf.catalog.table import Column
from lakeconf.config.config import init
from lakeconf.connection.connection import Connection, connect, load_extension
from lakeconf.ducklake import INTERNAL_SNAPSHOT_ID
from lakeconf.engines.spark.read.fallback import constant_sql
from lakeconf.engines.spark.types import duckdb_type, exact_cast
from lakeconf.errors import SchemaError, StorageError, UnsupportedError
from lakeconf.sql import files_sql, folded, identifier, literal
from lakeconf.store import Store

# The files of one task: small ones are read together.
_BYTES, _FILES = 64 * 2**20, 200


@dataclass(frozen=True)
class Access:
    """How an executor reaches the files of a lake, with credentials that it finds itself.

    Attributes:
        names: The names of the store.
        storage: The pickled storage backend, with the names of variables in place of secrets; None if a secret is
            written in the configuration.
        config: The configuration file that an executor reads in this case; None to find it.
    """

    names: StoreNames
    storage: bytes | None = field(repr=False)
    config: str | None = None

    @classmethod
    def of(cls, store: Store, config: str | None) -> Access:
        """The access to the files of a store."""
        try:
            pickled = pickle.dumps(store.storage_backend)
        except TypeError:  # a secret that does not come from a variable
            return cls(store.names, None, config)
        # Another text of the backend may contain the same value.
        shows = any(secret.reveal().encode() in pickled for secret in store.secrets)
        return cls(store.names, None, config) if shows else cls(store.names, pickled)

    def backend(self) -> StorageBackend:
        """The storage backend."""
        if self.storage is None:
            storage = init(self.config).get_store(self.names.store).storage_backend
        else:
            try:
                storage = pickle.loads(self.storage)  # noqa: S301 - the driver wrote it
            except KeyError as error:
                raise StorageError(
                    f"the variable {error.args[0]} is not set in the Python processes of Spark on {gethostname()}",
                    hint="set it on the machines of the cluster, or use a role; Spark passes on no variables by itself",
                ) from None
        if storage is None:
            raise StorageError(f"the store {self.names.store!r} has no storage_backend on {gethostname()}")
        return storage

    def connect(self) -> Connection:
        """Opens an in-memory DuckDB instance that reaches the files; errors are those of `backend`."""
        storage = self.backend()
        connection = connect(storage.secrets_held())
        try:
            # The other tasks of the executor use the other cores and the rest of the memory.
            connection.execute("SET threads = 1; SET memory_limit = '2GB'")
            for name in ("ducklake", *storage.extensions):
                load_extension(connection, name)
            for setting in storage.duckdb_settings:
                connection.run(setting)
            for secret in storage.secrets(self.names):
                connection.run(secret)
        except BaseException:
            connection.close()
            raise
        return connection


@dataclass(frozen=True)
class Files:
    """Files to read.

    Attributes:
        access: How to reach them.
        plan: A plan that consists of these files.
    """

    access: Access
    plan: ScanPlan


@dataclass(frozen=True)
class Rows:
    """Rows that were read on the driver.

    Attributes:
        stream: The rows with the types of the frame, as an Arrow stream.
    """

    stream: bytes = field(repr=False)


@dataclass(frozen=True)
class Changes:
    """The changes of a table in a range of snapshots.

    Attributes:
        access: How to reach the files.
        plan: The plan of the change feed.
        inlined: The rows in the catalog, as `catalog.inlined_changes` returns them, as an Arrow stream.
        columns: The columns to return, which may be older or newer than those of the plan.
        kinds: True to return all changes with their key and kind; False for inserted rows only.
    """

    access: Access
    plan: ChangesPlan
    inlined: bytes = field(repr=False)
    columns: tuple[Column, ...]
    kinds: bool


Part: TypeAlias = Files | Rows | Changes


def divided(plan: ScanPlan) -> Iterator[ScanPlan]:
    """Divides the files of a plan: large ones each for itself, small ones together."""
    start, size = 0, 0
    for number, file in enumerate(plan.files):
        if number > start and (size + file.file_size_bytes > _BYTES or number - start == _FILES):
            yield _between(plan, start, number)
            start, size = number, 0
        size += file.file_size_bytes
    if plan.files:
        yield _between(plan, start, len(plan.files))


def _between(plan: ScanPlan, start: int, end: int) -> ScanPlan:
    files = plan.files[start:end]
    used = {file.mapping_id for file in files}
    mappings = {number: mapping for number, mapping in plan.name_mappings.items() if number in used}
    return replace(plan, files=files, name_mappings=mappings)


# A LIMIT through which DuckDB pushes no filter; see `attach_partial_lake`.
ALL = 2**63 - 1


# The columns of a feed with kinds, before those of the table.
KEY = ("snapshot_id", "rowid", "change_type")


# DuckDB's columns that tell where a row is.
_PLACE = ("filename", "file_row_number")


_INLINED = "lakeconf_inlined"


_DELETED, _ENDED = "lakeconf_deleted", "lakeconf_ended"


def changes_sql(connection: Connection, part: Changes) -> str:
    """The query for the changes of a part, with the types of Spark.

    Args:
        connection: A connection with access to the files; the query runs on it.
    """
    with pa.ipc.open_stream(part.inlined) as stream:
        inlined = stream.read_all()
    if inlined.num_rows:
        connection.register(_INLINED, inlined)
    inserted = _inserted(connection, part.plan, has_inlined=bool(inlined.num_rows))
    deleted = _deleted(connection, part.plan, has_inlined=bool(inlined.num_rows))
    values = ", ".join(_value(column, part.plan.inserted.table.columns) for column in part.columns)
    if not part.kinds:
        alone = "" if deleted is None else f" ANTI JOIN ({deleted}) AS deleted USING (snapshot_id, rowid)"
        return f"SELECT {values} FROM ({inserted}) AS inserted{alone}"
    sides = [(inserted, deleted, "insert", "update_postimage")]
    sides += [] if deleted is None else [(deleted, inserted, "delete", "update_preimage")]
    return " UNION ALL ".join(
        f"SELECT snapshot_id, rowid, {_kind(other, alone, both)} AS change_type, {values} FROM ({rows}) AS rows"
        for rows, other, alone, both in sides
    )


def check_mapped(columns: Sequence[Column], found: Sequence[Column]) -> None:
    """Checks that rows with some columns can be returned with other columns of the same table."""
    by_id = {column.field_id: column for column in found}
    for column in columns:
        now = by_id.get(column.field_id)
        if now is not None and now.type != column.type and now.type not in column.former_types:
            raise SchemaError(f"the column {column.name!r} has changed its type from {now.type} to {column.type}")
        if now is not None and _fields(now) != _fields(column):
            raise SchemaError(f"the fields of the column {column.name!r} have changed")


def _fields(column: Column) -> Sequence[object]:
    return [child.shape for child in column.children]


def _value(column: Column, found: Sequence[Column]) -> str:
    """A column of the query, from the columns that the table had at the end of the range."""
    now = next((one for one in found if one.field_id == column.field_id), None)
    if now is None:
        value = constant_sql(column.initial_default, column)
    elif now.type != column.type:
        value = f"CAST({identifier(now.name)} AS {duckdb_type(column, for_spark=False)})"
    else:
        value = identifier(now.name)
    return f"{exact_cast(value, column)} AS {identifier(column.name)}"


def _kind(other: str | None, alone: str, both: str) -> str:
    """The kind of a change: a row that one snapshot deleted and inserted was updated."""
    if other is None:
        return literal(alone)
    keys = f"SELECT snapshot_id, rowid FROM ({other})"
    return f"CASE WHEN (snapshot_id, rowid) IN ({keys}) THEN {literal(both)} ELSE {literal(alone)} END"


def _inserted(connection: Connection, plan: ChangesPlan, *, has_inlined: bool) -> str:
    """The query for inserted rows: the key of the change, and the columns of the table."""
    names = _names(plan)
    source = attach_partial_lake(connection, "inserted", plan.inserted)
    parts = [f"(SELECT snapshot_id, rowid, {names} FROM {source} LIMIT {ALL})"]
    if has_inlined:
        parts.append(_in_catalog(plan, BEGIN))
    return f"SELECT * FROM ({' UNION ALL '.join(parts)}) WHERE {_in_range(plan)}"


def _deleted(connection: Connection, plan: ChangesPlan, *, has_inlined: bool) -> str | None:
    """The query for deleted rows, like `_inserted`; None if there are none."""
    names, parts = _names(plan), []
    if plan.deleted.files:
        hidden = [column.name for column in plan.deleted.columns if folded(column.name) in _PLACE]
        if hidden:
            raise UnsupportedError(
                f"{plan.deleted.table.full_name} has a column {hidden[0]!r}, which hides the place of deleted rows",
                hint="rename the column, or read the changes with lake.table(…).changes(…)",
            )
        _place_deletes(connection, plan)
        source = attach_partial_lake(connection, "deleted", plan.deleted)
        rows = f"(SELECT rowid, filename, file_row_number, {names} FROM {source} LIMIT {ALL})"
        # A row that was deleted before its file ended was not deleted by the end of the file.
        at = f"least({_DELETED}.deleted_at, {_ENDED}.ended_at)"
        parts.append(
            f"(SELECT {at} AS snapshot_id, rows.rowid, {_names(plan, 'rows.')} FROM {rows} AS rows "
            f"LEFT JOIN temp.main.{_DELETED} USING (filename, file_row_number) "
            f"LEFT JOIN temp.main.{_ENDED} USING (filename))"
        )
    if has_inlined:
        parts.append(_in_catalog(plan, END))
    return f"SELECT * FROM ({' UNION ALL '.join(parts)}) WHERE {_in_range(plan)}" if parts else None


def _in_catalog(plan: ChangesPlan, snapshot: str) -> str:
    """The query for rows in the catalog, with the types of the table: Arrow has no names for some of them."""
    values = ", ".join(
        f"CAST({identifier(column.name)} AS {duckdb_type(column, for_spark=False)}) AS {identifier(column.name)}"
        for column in plan.inserted.columns
    )
    return f"(SELECT {snapshot} AS snapshot_id, {ROW_ID} AS rowid, {values} FROM {_INLINED})"


def _names(plan: ChangesPlan, of: str = "") -> str:
    return ", ".join(f"{of}{identifier(column.name)}" for column in plan.inserted.columns)


def _in_range(plan: ChangesPlan) -> str:
    within = f"snapshot_id BETWEEN {plan.since} AND {plan.until}"
    return f"{within} AND snapshot_id NOT IN ({', '.join(map(str, plan.compactions))})" if plan.compactions else within


def _place_deletes(connection: Connection, plan: ChangesPlan) -> None:
    """Creates the tables of deleted positions and of ended files."""
    queries = [
        _in_file(connection, deletes, file.path, begin) for deletes in plan.deletes for file, begin in deletes.files
    ]
    places = [
        f"({literal(deletes.path)}, {position}, {snapshot})"
        for deletes in plan.deletes
        for position, snapshot in deletes.inlined
    ]
    queries += (
        [f"SELECT * FROM (VALUES {', '.join(places)}) AS places(filename, position, deleted_at)"] if places else []
    )
    found = " UNION ALL ".join(queries) or "SELECT '' AS filename, 0 AS position, 0 AS deleted_at LIMIT 0"
    connection.execute(
        f"CREATE TEMP TABLE {_DELETED} AS SELECT filename, CAST(position AS BIGINT) AS "
        f"file_row_number, CAST(min(deleted_at) AS BIGINT) AS deleted_at FROM ({found}) GROUP BY ALL"
    )
    connection.execute(f"CREATE TEMP TABLE {_ENDED} (filename VARCHAR, ended_at BIGINT)")
    ends = [f"({literal(one.path)}, {one.end_snapshot})" for one in plan.deletes if one.end_snapshot is not None]
    if ends:
        connection.execute(f"INSERT INTO temp.main.{_ENDED} VALUES {', '.join(ends)}")


def _in_file(connection: Connection, deletes: Deletes, path: str, begin: int) -> str:
    """The query for the positions in a delete file; some of its rows may have an own snapshot."""
    stored = INTERNAL_SNAPSHOT_ID.name
    has_snapshots = connection.rows(f"FROM {files_sql('parquet_schema', path)} WHERE name = {literal(stored)}")
    at = f"coalesce({stored}, {begin})" if has_snapshots else str(begin)
    return (
        f"SELECT {literal(deletes.path)} AS filename, pos AS position, {at} AS deleted_at "
        f"FROM {files_sql('read_parquet', path, 'hive_partitioning = false')}"
    )


_ROWS = 10_000


def read_part(part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a part.

    Args:
        schema: The Arrow schema that Spark expects.
    """
    if isinstance(part, Rows):
        with pa.ipc.open_stream(part.stream) as stream:
            yield from conforming(stream, schema)
        return
    with part.access.connect() as connection:
        if isinstance(part, Files):
            query = scan_sql(part.plan, attach_partial_lake(connection, "part", part.plan))
        else:
            query = changes_sql(connection, part)
        yield from conforming(connection.batches(query, _ROWS), schema)


def scan_sql(plan: ScanPlan, source: str) -> str:
    """The query for the rows of a plan, with the types of Spark."""
    values = ", ".join(
        f"{exact_cast(identifier(column.name), column)} AS {identifier(column.name)}" for column in plan.columns
    )
    condition = to_duckdb_sql(plan.predicate) if plan.predicate else "true"
    return f"SELECT {values} FROM (FROM {source} LIMIT {ALL}) WHERE {condition}"


def conforming(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches with the schema that Spark expects; Spark itself only checks the first one."""
    for batch in batches:
        yield from pa.Table.from_batches([batch]).cast(schema).to_batches()


def stream_of(rows: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())
