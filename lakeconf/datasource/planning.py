"""Plans a read on the driver's machine: the schema, the snapshot, and the parts that executors read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakeconf.catalog.partial_lake import refuse_encrypted
from lakeconf.catalog.predicate.nodes import columns_of, to_duckdb_sql
from lakeconf.catalog.predicate.where import predicate_of
from lakeconf.catalog.scan import ScanPlan, plan_with_inlined_rows
from lakeconf.catalog.snapshot import chosen
from lakeconf.catalog.table import Column, TableInfo, load_table
from lakeconf.catalog.types import all_types
from lakeconf.commit.session import Session
from lakeconf.config.model import init
from lakeconf.datasource.options import Options
from lakeconf.datasource.parts import Access, Files, Part, Rows, divided
from lakeconf.datasource.reading import stream_of
from lakeconf.engines.schema_check import selected
from lakeconf.engines.spark.read.inlined import exact_rows
from lakeconf.errors import UnsupportedError
from lakeconf.lake.opening import open_session
from lakeconf.store import Store


@dataclass(frozen=True)
class Opened:
    """A lake that is open for planning.

    Attributes:
        options: The options of the read.
        store: The store.
        session: Its connections.
    """

    options: Options
    store: Store
    session: Session

    @property
    def access(self) -> Access:
        """How executors reach the files."""
        return Access.of(self.store, self.options.config)

    def snapshot(self) -> int:
        """The snapshot that the options name, or the latest one."""
        version, timestamp = self.options.version, self.options.timestamp
        if version is None and timestamp is None:
            return self.session.snapshot_id
        return chosen(self.session.reader, version, timestamp).snapshot_id

    def table(self, snapshot_id: int) -> TableInfo:
        """The table at a snapshot."""
        return load_table(self.session.reader, self.options.table, snapshot_id)


@contextlib.contextmanager
def opened(options: Options) -> Iterator[Opened]:
    """Opens the lake of a read; it must exist.

    Raises:
        UnsupportedError: The metadata backend keeps the files, so executors cannot reach them.
    """
    store = init(options.config).get_store(options.store)
    if store.storage_backend is None:
        raise UnsupportedError(
            f"the files of store {store.name!r} are kept by its metadata backend, and executors cannot reach them",
            hint="read the table with DuckDB: store.open()",
        )
    session = open_session(store.for_reading())
    try:
        yield Opened(options, store, session)
    finally:
        session.close()


def resolve(options: Options) -> tuple[tuple[Column, ...], int]:
    """The columns of a read, and its snapshot, which does not change any more.

    Raises:
        UnsupportedError: Spark has no type for a column.
    """
    with opened(options) as lake:
        snapshot_id = lake.snapshot()
        columns = selected(lake.table(snapshot_id), options.names)
        refuse_columns(columns)
        return columns, snapshot_id


def refuse_columns(columns: Sequence[Column]) -> None:
    """Refuses columns that cannot be passed from DuckDB to Spark.

    Raises:
        UnsupportedError: A column contains VARIANT.
    """
    for column in columns:
        if "variant" in all_types(column):
            raise UnsupportedError(
                f"the column {column.name!r} holds VARIANT, which DuckDB cannot pass on to Spark",
                hint="name the other columns in the option columns, or read the table with lake.table(…).scan()",
            )


def plan(options: Options, snapshot_id: int) -> list[Part]:
    """Plans a read.

    Args:
        options: Its options.
        snapshot_id: The snapshot that `resolve` returned.

    Raises:
        SnapshotNotFoundError: The snapshot has expired since `resolve`.
        UnsupportedError: The files or rows cannot be read exactly.
    """
    with opened(options) as lake:
        table = lake.table(snapshot_id)
        predicate = None if options.where is None else predicate_of(options.where, table.columns)
        wanted = selected(table, options.names)
        # The rows in the catalog are filtered here, and need the columns of the condition.
        used = (*wanted, *(columns_of(predicate) if predicate else ()))
        names = list(dict.fromkeys(column.name for column in used))
        found, inlined = plan_with_inlined_rows(lake.session.reader, options.table, snapshot_id, names, predicate)
        return parts_of(lake.access, found, inlined, wanted)


def parts_of(access: Access, found: ScanPlan, inlined: pa.Table, wanted: Sequence[Column]) -> list[Part]:
    """Divides a plan into parts.

    Args:
        access: How executors reach the files.
        found: The plan; its columns include those of its predicate.
        inlined: The rows in the catalog, as `catalog.scan.inlined_rows` returns them.
        wanted: The columns to read.

    Raises:
        UnsupportedError: The files or rows cannot be read exactly.
    """
    refuse_columns(wanted)
    refuse_encrypted(found)
    parts: list[Part] = [Files(access, part) for part in divided(replace(found, columns=tuple(wanted)))]
    if inlined.num_rows:
        condition = to_duckdb_sql(found.predicate) if found.predicate else "true"
        rows = exact_rows(wanted, inlined, condition=condition, time_zone=found.time_zone)
        parts.append(Rows(stream_of(rows)))
    return parts
