"""Reads parts of a lake with DuckDB on an executor, or on the driver."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import LongType, StringType, StructField, StructType

from lakeconf import __version__
from lakeconf.catalog.changes_plan import BEGIN, END, ChangesPlan, Deletes
from lakeconf.catalog.changes_plan import ROW_ID as CHANGED_ROW_ID
from lakeconf.catalog.data_file import DataFile, DeleteFile
from lakeconf.catalog.file_footers import files_with
from lakeconf.catalog.partial_lake import ALL, attach_partial_lake, name_in_lake
from lakeconf.catalog.pruning.predicates import to_duckdb_sql
from lakeconf.catalog.pruning.scan_plan import ScanPlan
from lakeconf.catalog.tables import Column
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import INTERNAL_SNAPSHOT_ID
from lakeconf.engines.engine import FILE_ID, FILE_ROW_NUMBER, FILENAME, ROW_ID
from lakeconf.engines.spark.spark_types import duckdb_type, exact_cast
from lakeconf.engines.spark.versions import arrow_schema
from lakeconf.errors import SchemaError, SparkError
from lakeconf.secret import Secret
from lakeconf.sql import files_sql, identifier, literal

# The files of one task: small ones are read together.
_BYTES, _FILES = 64 * 2**20, 200
_INLINED = "lakeconf_inlined"
_DELETED, _ENDED = "lakeconf_deleted", "lakeconf_ended"
# The columns of `FilePart.row_ids`, each with its SQL.
SNAPSHOT_ID = "__lakeconf_snapshot_id"
_ROWS = 10_000


class FileAccess(Protocol):
    """How an executor reaches the files of a lake; it is pickled and contains no secret."""

    def connect(self) -> Connection:
        """Opens an in-memory DuckDB instance that reaches the files."""
        ...


@dataclass(frozen=True)
class FilePart:
    """Files to read."""

    access: FileAccess  # how to reach them
    plan: ScanPlan  # A plan that consists of these files
    row_ids: bool = False  # True to add the columns of `engines.engine` that identify rows, and `SNAPSHOT_ID`


@dataclass(frozen=True)
class RowPart:
    """Rows that were read on the driver."""

    stream: bytes = field(repr=False)  # the rows with the types of the frame, as an Arrow stream


@dataclass(frozen=True)
class ChangePart:
    """The changes of a table in a range of snapshots."""

    access: FileAccess  # how to reach the files
    plan: ChangesPlan
    # The rows in the catalog, as `changed_inlined_rows` returns them, as an Arrow stream.
    inlined: bytes = field(repr=False)
    columns: tuple[Column, ...]  # the columns to return, which may be older or newer than those of the plan
    kinds: bool  # True to return all changes with their key and kind; False for inserted rows only


Part: TypeAlias = FilePart | RowPart | ChangePart


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


def changes_sql(connection: Connection, part: ChangePart) -> str:
    """The query for the changes of a part, with the types of Spark."""
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


def check_mapped(columns: Sequence[Column], existing: Sequence[Column]) -> None:
    """Checks that rows with some columns can be returned with other columns of the same table."""
    by_id = {column.field_id: column for column in existing}
    for column in columns:
        now = by_id.get(column.field_id)
        if now is not None and now.type != column.type and now.type not in column.former_types:
            raise SchemaError(f"the column {column.name!r} has changed its type from {now.type} to {column.type}")
        if now is not None and _fields(now) != _fields(column):
            raise SchemaError(f"the fields of the column {column.name!r} have changed")


def _fields(column: Column) -> Sequence[object]:
    return [child.shape for child in column.children]


def constant_sql(text: str | None, column: Column) -> str:
    """Casts a string from the catalog to the column's type."""
    # DuckDB does not validate this JSON; a cast would.
    type_ = "VARCHAR" if column.type == "json" else duckdb_type(column, for_spark=False)
    return f"CAST({'NULL' if text is None else literal(text)} AS {type_})"


def _value(column: Column, end_columns: Sequence[Column]) -> str:
    """A column of the query, from the columns that the table had at the end of the range."""
    now = next((end_column for end_column in end_columns if end_column.field_id == column.field_id), None)
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
    names = _names(plan.inserted.columns)
    source = attach_partial_lake(connection, "inserted", plan.inserted)
    parts = [f"(SELECT snapshot_id, rowid, {names} FROM {source} LIMIT {ALL})"]
    if has_inlined:
        parts.append(_in_catalog(plan, BEGIN))
    return f"SELECT * FROM ({' UNION ALL '.join(parts)}) WHERE {_in_range(plan)}"


def _deleted(connection: Connection, plan: ChangesPlan, *, has_inlined: bool) -> str | None:
    """The query for deleted rows, like `_inserted`; None if there are none."""
    names, parts = _names(plan.inserted.columns), []
    if plan.deleted.files:
        _place_deletes(connection, plan)
        source = attach_partial_lake(connection, "deleted", plan.deleted)
        inner = ", ".join(name_in_lake(column) for column in plan.deleted.columns)
        rows = f"(SELECT rowid, filename, file_row_number, {inner} FROM {source} LIMIT {ALL})"
        # A row that was deleted before its file ended was not deleted by the end of the file.
        at = f"least({_DELETED}.deleted_at, {_ENDED}.ended_at)"
        parts.append(
            f"(SELECT {at} AS snapshot_id, rows.rowid, {names} FROM {rows} AS rows "
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
    return f"(SELECT {snapshot} AS snapshot_id, {CHANGED_ROW_ID} AS rowid, {values} FROM {_INLINED})"


def _names(columns: Sequence[Column]) -> str:
    """The columns of a partial lake, under their names."""
    return ", ".join(f"{name_in_lake(column)} AS {identifier(column.name)}" for column in columns)


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
    positions = " UNION ALL ".join(queries) or "SELECT '' AS filename, 0 AS position, 0 AS deleted_at LIMIT 0"
    connection.execute(
        f"CREATE TEMP TABLE {_DELETED} AS SELECT filename, CAST(position AS BIGINT) AS "
        f"file_row_number, CAST(min(deleted_at) AS BIGINT) AS deleted_at FROM ({positions}) GROUP BY ALL"
    )
    connection.execute(f"CREATE TEMP TABLE {_ENDED} (filename VARCHAR, ended_at BIGINT)")
    ends = [
        f"({literal(deletes.path)}, {deletes.end_snapshot})"
        for deletes in plan.deletes
        if deletes.end_snapshot is not None
    ]
    if ends:
        connection.execute(f"INSERT INTO temp.main.{_ENDED} VALUES {', '.join(ends)}")


def _in_file(connection: Connection, deletes: Deletes, path: str, begin: int) -> str:
    """The query for the positions in a delete file; some of its rows may have an own snapshot."""
    stored = INTERNAL_SNAPSHOT_ID.name
    at = f"coalesce({stored}, {begin})" if files_with(connection, [path], stored) else str(begin)
    return (
        f"SELECT {literal(deletes.path)} AS filename, pos AS position, {at} AS deleted_at "
        f"FROM {files_sql('read_parquet', path)}"
    )


def virtual_fields() -> list[StructField]:
    """The columns that identify rows, after those of the table."""
    longs = dict.fromkeys((ROW_ID, SNAPSHOT_ID, FILE_ID, FILE_ROW_NUMBER), LongType())
    names = (ROW_ID, SNAPSHOT_ID, FILENAME, FILE_ID, FILE_ROW_NUMBER)
    return [StructField(name, longs.get(name, StringType())) for name in names]


def read_part(part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a part."""
    if isinstance(part, RowPart):
        with pa.ipc.open_stream(part.stream) as stream:
            yield from conforming(stream, schema)
        return
    with part.access.connect() as connection:
        if isinstance(part, FilePart):
            files = with_deletes(part.plan.files)
            connection.secrets += tuple(Secret(file.encryption_key) for file in files if file.encryption_key)
            query = _scan_sql(part, attach_partial_lake(connection, "part", part.plan))
        else:
            query = changes_sql(connection, part)
        yield from conforming(connection.batches(query, _ROWS), schema)


def with_deletes(files: Sequence[DataFile]) -> list[DataFile | DeleteFile]:
    """Data files and their delete files."""
    return [*files, *(file.delete_file for file in files if file.delete_file is not None)]


def _scan_sql(part: FilePart, source: str) -> str:
    """The query for the rows of a plan, with the types of Spark."""
    plan = part.plan
    values = [f"{exact_cast(identifier(column.name), column)} AS {identifier(column.name)}" for column in plan.columns]
    inner = [_names(plan.table.columns)]
    if part.row_ids:
        ids = ", ".join(f"{literal(file.path)}: {file.data_file_id}" for file in plan.files)
        file_id = f"coalesce(MAP {{{ids}}}[filename], error('an unknown file: ' || filename))::BIGINT"
        sources = {ROW_ID: "rowid", SNAPSHOT_ID: "snapshot_id", FILENAME: "filename", FILE_ID: file_id}
        sources[FILE_ROW_NUMBER] = "file_row_number"
        inner += [f"{sql} AS {name}" for name, sql in sources.items()]
        values += sources
    condition = to_duckdb_sql(plan.predicate) if plan.predicate else "true"
    rows = f"(SELECT {', '.join(inner)} FROM {source} LIMIT {ALL})"
    return f"SELECT {', '.join(values)} FROM {rows} WHERE {condition}"


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


@dataclass(frozen=True)
class Sent:
    """Pickled tasks that are a part of the plan of a job, for sessions without broadcasts."""

    value: bytes = field(repr=False)  # the pickled function and its arguments


def pickled(part: FilePart | ChangePart, keys: Mapping[Any, DataFile], schema: StructType) -> bytes:
    """A part as executors receive it."""
    return pickle.dumps((_run, __version__, part, keys, schema))


def in_executors(keys: DataFrame, sent: Any, schema: StructType) -> DataFrame:
    """The rows of a part as a frame: each task reads the data files of its rows of `keys`, a frame of one column."""
    version = __version__

    # Spark sends this function by value: executors may have no lakeconf.
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            run, *task = pickle.loads(sent.value)  # noqa: S301 - the driver wrote it
            yield from run(*task, batches)
        except (ImportError, AttributeError) as error:
            raise RuntimeError(
                "lakeconf: DuckDB must read files of this scan inside Spark's executors, and their Python "
                f"{sys.executable} cannot import what it needs ({error!r}); install lakeconf[spark,bundled]=={version} "
                "there, or read the table with DuckDB: store.open()"
            ) from None

    # Spark estimates the size of the frame from that of the files and the width of these columns. Without a wide one,
    # it would send large tables to all executors in a join.
    return keys.select("*", F.lit(None).cast("binary").alias("content")).mapInArrow(read, schema)


def _run(
    version: str,
    part: FilePart | ChangePart,
    keys: Mapping[Any, DataFile],
    schema: StructType,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Reads the rows of one task."""
    if version != __version__:
        raise SparkError(f"the driver has lakeconf {version}, and {sys.executable} has {__version__}")
    chosen = [key for batch in batches for key in batch.column(0).to_pylist()]
    if isinstance(part, FilePart):
        files = tuple(keys[key] for key in chosen if key in keys)
        for plan in divided(replace(part.plan, files=files)):
            yield from read_part(replace(part, plan=plan), arrow_schema(schema))
    elif chosen:
        yield from read_part(part, arrow_schema(schema))
