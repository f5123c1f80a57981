"""The DuckDB engine: scans are relations of the lake's reading connection; staged rows are a table in memory."""

from __future__ import annotations

import contextlib
import importlib.util
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import duckdb
import narwhals as nw

from lakeconf.catalog.changes_plan import changes_sql, plan_changes
from lakeconf.catalog.data_file import check_doubled
from lakeconf.catalog.pruning.predicates import Predicate, is_misread_in_files, not_pushed_down, to_duckdb_sql
from lakeconf.catalog.pruning.where import Where, predicate_of
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.tables import Column, TableInfo, load_table
from lakeconf.connection.connection import Connection, remove_files
from lakeconf.engines import frames as foreign
from lakeconf.engines.engine import ROW_ID, Staged, StagingRequest
from lakeconf.engines.file_names import manifest_path
from lakeconf.engines.lossless import exact_casts
from lakeconf.engines.schema_check import check_distinct, not_null_violation, selected
from lakeconf.errors import LakeconfError
from lakeconf.sql import identifier, qualified

# The name of a relation in a statement about its rows.
_ROWS = "lakeconf_rows"


class DuckDBEngine:
    """Reads and writes the Parquet files with DuckDB."""

    name = "duckdb"

    def __init__(self, reader: CatalogReader, writer: Connection) -> None:
        self._reader = reader
        self._connection = reader.connection
        self._writer = writer

    def details(self) -> Mapping[str, str]:
        return {}

    def for_small_merges(self) -> None:
        return None

    def reading(self) -> AbstractContextManager[None]:
        return self._connection.errors()

    def scan(
        self, table: str, snapshot_id: int, columns: Sequence[str] | None = None, where: Where | None = None
    ) -> nw.LazyFrame[Any]:
        info = load_table(self._reader, table, snapshot_id)
        check_doubled(self._reader, info, snapshot_id)
        return self._scan(info, snapshot_id, list(map(_value, selected(info, columns))), where)

    def scan_rows(
        self, table: TableInfo, snapshot_id: int, where: Where | Predicate | None = None
    ) -> nw.LazyFrame[Any]:
        return self._scan(table, snapshot_id, [f"rowid AS {ROW_ID}", *map(_value, table.columns)], where)

    def changes(self, table: str, since: int, until: int) -> nw.LazyFrame[Any]:
        query = changes_sql(self._reader, plan_changes(self._reader, table, since, until))
        return foreign.lazy_rows(self._connection.relation(query), self._connection)

    def query(self, sql: str, frames: Mapping[str, Any]) -> nw.LazyFrame[Any]:
        for name, frame in frames.items():
            self._connection.share(name, self.adopt(frame))
        return foreign.lazy_rows(self._connection.relation(sql), self._connection)

    def adopt(self, frame: object) -> duckdb.DuckDBPyRelation:
        native = foreign.native_frame(frame)
        with self._connection.errors():
            if isinstance(native, duckdb.DuckDBPyRelation):
                joinable = self._connection.joinable(native)
                return self._copied(native) if joinable is None else joinable
            table = foreign.exact_units(foreign.arrow_table(native))
            return foreign.with_null_types(self._connection.from_arrow(table), table)

    def joinable(self, frame: object) -> duckdb.DuckDBPyRelation:
        return self.adopt(frame)

    def schema(self, adopted: duckdb.DuckDBPyRelation) -> dict[str, str]:
        check_distinct(adopted.columns)
        return dict(zip(adopted.columns, map(foreign.frame_type, adopted.types), strict=True))

    def conform(self, adopted: duckdb.DuckDBPyRelation, columns: Mapping[Column, str]) -> duckdb.DuckDBPyRelation:
        with self._connection.errors():
            return adopted.project(_casts(adopted, {column.name: text for column, text in columns.items()}))

    def stage(self, adopted: duckdb.DuckDBPyRelation, request: StagingRequest) -> Staged:
        staged = self.stage_rows(adopted, request)
        required = [column.name for column in request.table.columns if not column.nullable]
        counts = ", ".join(f"count(*) FILTER ({identifier(name)} IS NULL)" for name in required)
        (nulls,) = self._writer.rows(f"SELECT {counts} {staged.source}") if required else [()]
        if any(nulls):
            self.release(staged)
            name = next(name for name, null_count in zip(required, nulls, strict=True) if null_count)
            # DuckDB detects this too, but only after it has written a file, which it does not remove.
            raise not_null_violation(name, request.table.full_name)
        return staged

    def stage_rows(self, adopted: duckdb.DuckDBPyRelation, request: StagingRequest) -> Staged:
        staged = f"memory.main.{identifier(f'lakeconf_{request.token}')}"
        with self._connection.errors(), self._connection.errors_with_places():
            # Only the relation's own connection can run it. The connection that commits reads the table.
            creation = f"CREATE TABLE {staged} AS SELECT {_casts(adopted, request.types)} FROM {_ROWS}"
            ((count,),) = self._connection.run_over(_ROWS, adopted, creation)
        return Staged(f"FROM {staged}", discard=(f"DROP TABLE IF EXISTS {staged}",), row_count=count)

    def staged_rows(self, staged: Staged, columns: Sequence[str]) -> duckdb.DuckDBPyRelation:
        return self._connection.relation(f"SELECT {', '.join(map(identifier, columns))} FROM ({staged.source})")

    def stage_part(self, staged: Staged, condition: str, request: StagingRequest) -> Staged:
        columns = ", ".join(map(identifier, request.types))
        source = f"SELECT {columns} FROM ({staged.source}) WHERE {condition}"
        ((count,),) = self._writer.rows(f"SELECT count(*) FROM ({source})")
        return Staged(source, row_count=count)

    def release(self, staged: Staged) -> None:
        self.discard(staged)
        if staged.folder is not None:
            unused = [
                *(() if staged.keeps_files else staged.files),
                *([manifest_path(staged.folder)] if staged.announced else []),
            ]
            if unused:
                remove_files(self._writer, unused)

    def discard(self, staged: Staged) -> None:
        """Removes staged rows from DuckDB, but no files."""
        for statement in staged.discard:
            with contextlib.suppress(LakeconfError):
                self._writer.execute(statement)

    def _scan(
        self, info: TableInfo, snapshot_id: int, values: Sequence[str], where: Where | Predicate | None
    ) -> nw.LazyFrame[Any]:
        condition = "" if where is None else f" WHERE {to_duckdb_sql(predicate_of(where, info.columns))}"
        name = qualified(self._reader.alias, info.schema_name, info.name)
        query = f"SELECT {', '.join(values)} FROM {name} AT (VERSION => {snapshot_id}){condition}"
        return foreign.lazy_rows(self._connection.relation(query), self._connection)

    def _copied(self, relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
        """Copies a relation of another connection to the reading connection.

        A query may read the relation twice, and a stream from another connection silently returns other rows then.
        """
        if importlib.util.find_spec("pyarrow") is not None:
            return self._connection.from_arrow(relation.to_arrow_table())
        # Without pyarrow, the copy exists as long as the connection.
        name = f"memory.main.{identifier(f'lakeconf_frame_{uuid.uuid4().hex}')}"
        stream = self._connection.from_arrow(_Stream(relation))
        self._connection.run_over(_ROWS, stream, f"CREATE TABLE {name} AS FROM {_ROWS}")
        return self._connection.relation(f"FROM {name}")


def _casts(relation: duckdb.DuckDBPyRelation, types: Mapping[str, str]) -> str:
    """The SELECT list that casts the columns of a relation to these names and types."""
    return exact_casts(dict(zip(relation.columns, map(str, relation.types), strict=True)), types)


class _Stream:
    """The rows of another connection as an Arrow stream for one read: DuckDB rejects the relation itself.

    Unlike `to_arrow_table`, the stream does not need pyarrow.
    """

    def __init__(self, relation: duckdb.DuckDBPyRelation) -> None:
        self._relation = relation

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        stream: object = self._relation.__arrow_c_stream__(requested_schema)
        return stream


def _value(column: Column) -> str:
    """A column of a scan. Filters of the frame must find rows that DuckDB would not find in the files."""
    name = identifier(column.name)
    return f"{not_pushed_down(name)} AS {name}" if is_misread_in_files(column) else name
