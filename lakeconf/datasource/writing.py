"""Appends or overwrites with the rows of a frame: executors write files, a process on the driver's machine commits.

These processes share no memory. The files have a manifest, so that a cleanup finds them after a crash, and the commit
has a key, so that a repeated commit adds nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pyarrow as pa

from lakeconf.backends.access import Access
from lakeconf.catalog.column_types import Fact, has
from lakeconf.catalog.file_footers import chunks_sql
from lakeconf.catalog.tables import TableInfo, refuse_internal
from lakeconf.commit.actions import Action, AddFiles
from lakeconf.commit.scope import Scope
from lakeconf.commit.session import Session
from lakeconf.connection.connection import Connection, remove_files
from lakeconf.connection.duckdb_errors import REFUSED_VALUE
from lakeconf.datasource.planning import Options, store_of
from lakeconf.engines.engine import Staged
from lakeconf.engines.file_names import announce, manifest_path, staging_folder
from lakeconf.engines.lossless import exact_casts
from lakeconf.engines.schema_check import check_fit, not_null_violation
from lakeconf.engines.spark.write.files import staged_source
from lakeconf.engines.spark.write.parquet_options import parquet_options
from lakeconf.lake.branches.first_write import own_table
from lakeconf.lake.opening import open_session
from lakeconf.sql import identifier, listing_sql, literal
from lakeconf.store import Store
from lakeconf.write import context
from lakeconf.write.operations.delete import Deletion, delete_rows

# Footers with values but without exact bounds: DuckLake would take them for files without values. Bytes that DuckDB
# shows with a backslash would become other bounds.
_UNBOUNDED = r"""
    SELECT count(*) FROM ({}) WHERE row_count > coalesce(nulls, 0)
      AND (nulls IS NULL OR low IS NULL OR high IS NULL
           OR low_is_exact IS DISTINCT FROM true OR high_is_exact IS DISTINCT FROM true
           OR contains(low, '\') OR contains(high, '\'))
"""
# A file in the staging folder of a write whose commit has begun.
_COMMITTING = "committing.parquet"


@dataclass(frozen=True)
class Write:
    """An append or an overwrite; plain data without secrets."""

    options: Options
    access: Access  # how executors reach the files of the lake
    token: str  # the id of the write
    table: TableInfo  # the table as it was when the write began
    types: Mapping[str, str]  # the columns of the table and their types
    frame: Mapping[str, str]  # the columns of the frame and their types in DuckDB
    codec: str  # the compression of files
    replaces: int | None  # the snapshot whose rows an overwrite replaces; None for an append

    @property
    def folder(self) -> str:
        """The folder of the files."""
        return staging_folder(self.table, self.token)


@dataclass(frozen=True)
class AddWritten:
    """Adds the files that executors have written; an overwrite deletes all rows of before."""

    write: Write
    files: Sequence[str]

    def plan(self, context: context.WriteContext) -> Sequence[Action]:
        """Registers the files, or inserts their rows."""
        writer, table = context.session.writer, self.write.table
        if not self.files:
            return [delete_rows(context, context.target(), Deletion(None, None))]
        source = staged_source(writer, self.files, self.write.types)
        ((count,),) = writer.rows(f"SELECT count(*) FROM ({source})")
        registered = tuple(self.files) if _can_register(writer, table, self.files) else ()
        staged = Staged(source, registered, folder=self.write.folder, row_count=count, keeps_files=bool(registered))
        staged = context.staging.own(staged)
        added = AddFiles(table=table.full_name, info=table, staged=staged, written_for=table)
        if self.write.replaces is None:
            return [added]
        return [delete_rows(context, context.target(), Deletion(None, None), staged), added]


def begin(options: Options, frame: Mapping[str, str], *, overwrite: bool = False) -> Write:
    """Begins a write: checks the columns, and announces its files."""
    store, session = _open(options)
    try:
        scope = Scope(session)
        scope.check_writable()
        refuse_internal(options.table)
        own_table(scope, options.table)
        target = context.current_table(scope, options.table)
        check_fit(target.info.full_name, frame, target.types)
        codec = parquet_options(session.writer, target.info, 1)["compression"]
        access = Access.of(store)
        replaces = session.snapshot_id if overwrite else None
        write = Write(options, access, uuid.uuid4().hex, target.info, target.types, frame, codec, replaces)
        with scope.writing():
            announce(session.writer, write.folder, session.reader.lake_id)
        return write
    finally:
        session.close()


def write_rows(write: Write, batches: Iterator[pa.RecordBatch]) -> str | None:
    """Writes the rows of a task to a file."""
    first = next(batches, None)
    if first is None:
        return None
    path = f"{write.folder}{uuid.uuid4().hex}.parquet"
    if "://" not in path:
        Path(write.folder).mkdir(parents=True, exist_ok=True)
    values = ", ".join(_checked(write.table, column.name, nullable=column.nullable) for column in write.table.columns)
    codec = "uncompressed" if write.codec == "none" else write.codec
    with write.access.connect() as connection:
        connection.register("lakeconf_rows", pa.RecordBatchReader.from_batches(first.schema, chain([first], batches)))
        rows = f"SELECT {exact_casts(write.frame, write.types)} FROM lakeconf_rows"
        target = f"{literal(path)} (FORMAT parquet, COMPRESSION {codec})"
        connection.execute(f"COPY (SELECT {values} FROM ({rows})) TO {target}")
    return path


def commit(write: Write, files: Sequence[str]) -> None:
    """Commits the files of a write as one snapshot; does nothing if it was committed before.

    Its files remain for a cleanup after an error: whether a later commit succeeds may not be known.
    """
    _, session = _open(write.options)
    try:
        if files:
            session.writer.execute(
                f"COPY (SELECT 1 AS begun) TO {literal(write.folder + _COMMITTING)} (FORMAT parquet)"
            )
        if write.replaces is not None:
            # Rows that other writers have added since the write began would be lost.
            session.base.add_read(write.table.full_name, write.replaces)
        if files or write.replaces is not None:
            key = write.options.idempotency_key or f"data source {write.token}"
            table, operation = context.quoted_name(write.table), AddWritten(write, files)
            context.perform(Scope(session), table, operation, idempotency_key=key)
        _remove_files(session, write)
    finally:
        session.close()


def abort(write: Write) -> None:
    """Removes the files of a write whose tasks failed; those of a write whose commit has begun are kept."""
    _, session = _open(write.options)
    try:
        if not any(path.endswith(f"/{_COMMITTING}") for path in _files(session.writer, write)):
            _remove_files(session, write)
    finally:
        session.close()


def _open(options: Options) -> tuple[Store, Session]:
    store = store_of(options, "write the frame")
    return store, open_session(store)


def _checked(table: TableInfo, name: str, *, nullable: bool) -> str:
    column = identifier(name)
    if nullable:
        return column
    message = f"{REFUSED_VALUE} {not_null_violation(name, table.full_name).message}"
    return f"CASE WHEN {column} IS NULL THEN error({literal(message)}) ELSE {column} END AS {column}"


def _can_register(writer: Connection, table: TableInfo, files: Sequence[str]) -> bool:
    """True if DuckLake can use the files as they are; otherwise DuckDB inserts their rows."""
    # The bounds in a footer are not those of floating-point numbers, because of NaN.
    if table.partition_fields or not all(
        has(column.type, Fact.AS_SPARK) and not has(column.type, Fact.FLOAT) for column in table.columns
    ):
        return False
    return writer.rows(_UNBOUNDED.format(chunks_sql(files))) == [(0,)]


def _files(connection: Connection, write: Write) -> list[str]:
    return [path for (path,) in connection.rows(listing_sql(write.folder, "*.parquet"))]


def _remove_files(session: Session, write: Write) -> None:
    """Removes the files of a write that do not belong to the table, and its manifest."""
    with session.reader.transaction() as transaction:
        query = "SELECT path FROM ducklake_data_file WHERE table_id = ?"
        registered = {path.rpartition("/")[2] for (path,) in transaction.rows(query, [write.table.table_id])}
    left = [path for path in _files(session.writer, write) if path.rpartition("/")[2] not in registered]
    remove_files(session.reader.connection, [*left, manifest_path(write.folder)])
