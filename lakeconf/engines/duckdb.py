"""DuckDB as the engine: scans are relations of the lake's reading connection, staged rows a table in memory."""

from __future__ import annotations

import importlib.util
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import narwhals as nw

from lakeconf.catalog.change_feed import plan_changes
from lakeconf.catalog.predicate.nodes import to_duckdb_sql
from lakeconf.catalog.predicate.parse import Where, parse
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.table import Column, TableInfo, load_table
from lakeconf.connection.connection import Connection
from lakeconf.engines.arrow_frames import exact_units, frame_type, with_null_types
from lakeconf.engines.base import ROW_ID, Staged
from lakeconf.engines.change_feed import changes_sql
from lakeconf.engines.checksum import TableCheck
from lakeconf.engines.exact_casts import exact_casts
from lakeconf.engines.schema_check import full_name, not_null_violation, selected
from lakeconf.errors import SchemaError, UnsupportedError, required
from lakeconf.sql import identifier


class DuckDBEngine:
    """Reads and writes the Parquet files with DuckDB.

    Args:
        reader: The connection that scans are made on; frames live as long as it does.
    """

    name = "duckdb"

    def __init__(self, reader: Connection) -> None:
        self._reader = reader

    def details(self) -> Mapping[str, str]:
        return {}

    def scan(
        self,
        reader: CatalogReader,
        table: str,
        snapshot_id: int,
        columns: Sequence[str] | None,
        where: Where | None,
    ) -> nw.LazyFrame[Any]:
        info = load_table(reader, table, snapshot_id)
        return self._scan(
            reader, info, snapshot_id, [identifier(column.name) for column in selected(info, columns)], where
        )

    def scan_rows(self, reader: CatalogReader, table: str, snapshot_id: int, where: Where | None) -> nw.LazyFrame[Any]:
        info = load_table(reader, table, snapshot_id)
        columns = [identifier(column.name) for column in info.columns]
        return self._scan(reader, info, snapshot_id, [f"rowid AS {ROW_ID}", *columns], where)

    def changes(self, reader: CatalogReader, table: str, since: int, until: int) -> nw.LazyFrame[Any]:
        query = changes_sql(reader, plan_changes(reader, table, since, until))
        return nw.from_native(self._reader.relation(query))

    def query(self, sql: str, frames: Mapping[str, Any]) -> nw.LazyFrame[Any]:
        for name, frame in frames.items():
            # A temporary view: it lives as long as the connection, and so does what is made of it.
            self._reader.register(name, self.adopt(frame))
        return nw.from_native(self._reader.relation(sql))

    def read_files(self, paths: Sequence[str], types: Mapping[str, str]) -> nw.LazyFrame[Any] | None:  # noqa: ARG002 - the contract
        return None

    def register_views(self, frames: Mapping[str, nw.LazyFrame[Any]], session: Any) -> None:  # noqa: ARG002 - the contract
        raise UnsupportedError(
            "views are registered in a Spark session, and this lake was opened without one",
            hint="use lake.sql(…), where every table has its name, or open the lake with a session: store.open(spark)",
        )

    def check(self, reader: CatalogReader, table: str, snapshot_id: int) -> TableCheck:  # noqa: ARG002 - the contract
        raise UnsupportedError(
            "DuckDB is compared with Spark, and this lake was opened without one",
            hint="open the lake with a session: store.open(spark)",
        )

    def adopt(self, frame: object) -> duckdb.DuckDBPyRelation:
        native = native_frame(frame)
        with self._reader.errors():
            if isinstance(native, duckdb.DuckDBPyRelation):
                return native if self._reader.owns(native) else self._copied(native)
            table = exact_units(arrow(native))
            return with_null_types(self._reader.from_arrow(table), table)

    def schema(self, adopted: duckdb.DuckDBPyRelation) -> dict[str, str]:
        return dict(zip(adopted.columns, map(frame_type, adopted.types), strict=True))

    def stage(
        self,
        adopted: duckdb.DuckDBPyRelation,
        table: TableInfo,
        types: Mapping[str, str],
        writer: Connection,
        token: str,
    ) -> Staged:
        staged = self.stage_rows(adopted, table, types, writer, token)
        required = [column.name for column in table.columns if not column.nullable]
        counts = "".join(f", count(*) FILTER ({identifier(name)} IS NULL)" for name in required)
        ((count, *nulls),) = writer.rows(f"SELECT count(*){counts} {staged.source}")
        if any(nulls):
            for statement in staged.discard:
                writer.execute(statement)
            name = next(name for name, found in zip(required, nulls, strict=True) if found)
            # DuckDB finds this too, but only after it has written a file, which it leaves behind.
            raise not_null_violation(name, full_name(table))
        return replace(staged, row_count=count)

    def conform(
        self, adopted: duckdb.DuckDBPyRelation, columns: Sequence[Column], types: Mapping[str, str]
    ) -> duckdb.DuckDBPyRelation:
        with self._reader.errors():
            return adopted.project(_casts(adopted, {column.name: types[column.name] for column in columns}))

    def stage_rows(
        self,
        adopted: duckdb.DuckDBPyRelation,
        table: TableInfo,  # noqa: ARG002 - the contract
        types: Mapping[str, str],
        writer: Connection,  # noqa: ARG002 - the contract
        token: str,
    ) -> Staged:
        staged = f"memory.main.{identifier(f'lakeconf_{token}')}"
        with self._reader.errors():
            # Made by the relation's own connection, since no other can run it, and read by the one that commits.
            made = f"CREATE TABLE {staged} AS SELECT {_casts(adopted, types)} FROM lakeconf_rows"
            adopted.query("lakeconf_rows", made)
        return Staged(f"FROM {staged}", discard=(f"DROP TABLE IF EXISTS {staged}",))

    def stage_part(
        self,
        staged: Staged,
        condition: str,
        table: TableInfo,  # noqa: ARG002 - the contract
        types: Mapping[str, str],
        writer: Connection,
        token: str,  # noqa: ARG002 - the contract
    ) -> Staged:
        columns = ", ".join(map(identifier, types))
        source = f"SELECT {columns} FROM ({staged.source}) WHERE {condition}"
        ((count,),) = writer.rows(f"SELECT count(*) FROM ({source})")
        return Staged(source, row_count=count)

    def release(self, staged: Staged, *, keep_files: bool) -> None:
        """The tables in memory go by `discard`."""

    def _scan(
        self, reader: CatalogReader, info: TableInfo, snapshot_id: int, values: Sequence[str], where: Where | None
    ) -> nw.LazyFrame[Any]:
        condition = "" if where is None else f" WHERE {to_duckdb_sql(parse(where, info.columns))}"
        name = f"{identifier(reader.alias)}.{identifier(info.schema_name)}.{identifier(info.name)}"
        query = f"SELECT {', '.join(values)} FROM {name} AT (VERSION => {snapshot_id}){condition}"
        return nw.from_native(self._reader.relation(query))

    def _copied(self, relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
        """A relation of another connection as one of ours.

        It is a copy: a query may read it twice, and a stream of another connection silently gives other rows then.
        """
        if importlib.util.find_spec("pyarrow") is not None:
            return self._reader.from_arrow(relation.to_arrow_table())
        # Without pyarrow the copy lives as long as the connection.
        name = f"memory.main.{identifier(f'lakeconf_frame_{uuid.uuid4().hex}')}"
        stream = self._reader.from_arrow(_Stream(relation))
        stream.query("lakeconf_rows", f"CREATE TABLE {name} AS FROM lakeconf_rows")
        return self._reader.relation(f"FROM {name}")


def _casts(relation: duckdb.DuckDBPyRelation, types: Mapping[str, str]) -> str:
    """The columns of a relation by these names and in these types."""
    return exact_casts(dict(zip(relation.columns, map(str, relation.types), strict=True)), types)


def native_frame(frame: object) -> Any:
    """The frame under narwhals, or the frame itself where it is one that narwhals takes.

    Raises:
        SchemaError: It is none.
    """
    try:
        return nw.to_native(nw.from_native(frame))  # type: ignore[call-overload]
    except TypeError as error:
        raise SchemaError(
            f"{type(frame).__name__} is not a frame",
            hint="give a frame of narwhals, pyspark, polars, pandas, pyarrow or duckdb",
        ) from error


def arrow(native: Any) -> Any:
    """A native frame as an Arrow table."""
    frame = nw.from_native(native)
    with required("pyarrow", extra="arrow", needed_for=f"a frame of the type {type(native).__name__}"):
        return frame.collect("pyarrow").to_native() if isinstance(frame, nw.LazyFrame) else frame.to_arrow()


@dataclass(frozen=True)
class _Stream:
    """The rows of another connection as an Arrow stream, to be read once: DuckDB takes no such relation itself.

    Unlike `to_arrow_table`, the stream needs no pyarrow.
    """

    relation: duckdb.DuckDBPyRelation

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        stream: object = self.relation.__arrow_c_stream__(requested_schema)
        return stream
