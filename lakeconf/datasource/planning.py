"""Plans a read of Spark's data source from its options."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from lakeconf.backends.access import Access
from lakeconf.catalog.partial_lake import refuse_encrypted
from lakeconf.catalog.pruning.predicates import columns_of, to_duckdb_sql
from lakeconf.catalog.pruning.scan_plan import ScanPlan, plan_with_inlined_rows
from lakeconf.catalog.pruning.where import predicate_of
from lakeconf.catalog.snapshot import chosen
from lakeconf.catalog.tables import Column, TableInfo, load_table
from lakeconf.commit.scope import Scope, TableSource
from lakeconf.commit.session import Session
from lakeconf.config.config import init
from lakeconf.engines.schema_check import selected
from lakeconf.engines.spark.read.native_scan import computed_rows, exact_rows, refuse_columns
from lakeconf.engines.spark.read.parts import FilePart, Part, RowPart, divided, stream_of
from lakeconf.engines.views import view_info, view_rows
from lakeconf.errors import LakeconfError, UnsupportedError, suggestion
from lakeconf.lake.opening import open_session
from lakeconf.store import Store, for_reading

_READ = ("table", "store", "config", "version", "timestamp", "columns", "where")
_STREAM = ("table", "store", "config", "columns", "since", "changes", "snapshots_per_batch")
# The options of each kind of use; Spark does not always tell whether a read is one of a stream.
_KINDS: Mapping[str, Sequence[str]] = {
    "a read": _READ,
    "a streaming read": _STREAM,
    "a read or a stream": tuple(dict.fromkeys((*_READ, *_STREAM))),
    "a write": ("table", "store", "config", "idempotency_key"),
}


@dataclass(frozen=True)
class Options:
    """The options of one read or write; they name things and contain no secret."""

    table: str  # `schema.table`, or `table` for the schema `main`
    store: str | None = None  # the name of the store; None for the default store
    # The configuration file; None to find it as `lakeconf.init` does, in the processes of Spark.
    config: str | None = None
    version: int | None = None  # the snapshot to read; None for the latest one, or that of `timestamp`
    timestamp: datetime | None = None  # the time to read, with a time zone
    columns: str | None = None  # the columns to read, separated by commas; None for all
    where: str | None = None  # the condition on rows, as for `Table.scan`
    # For a stream: the first snapshot whose changes it returns; None to begin with all rows of the table.
    since: int | None = None
    changes: bool = False  # for a stream: True to return all kinds of changes, and not only inserted rows
    snapshots_per_batch: int | None = None  # for a stream: the largest number of snapshots in a batch
    idempotency_key: str | None = None  # for a write: as for `Table.append`

    @property
    def names(self) -> list[str] | None:
        """The names of the columns to read; None for all."""
        return None if self.columns is None else [name.strip() for name in self.columns.split(",")]


_ALL = tuple(field.name for field in fields(Options))


def options_of(texts: Mapping[str, str], kind: str) -> Options:
    """Checks options and converts their values. Values do not appear in errors: an option may be a misplaced secret."""
    values: dict[str, Any] = {}
    allowed = _KINDS[kind]
    for name, text in texts.items():
        key = "table" if name.lower() == "path" else name.lower()  # Spark's name of what `load` and `save` get
        if key not in allowed:
            problem = f"{kind} has no option {name!r}" if key in _ALL else f"the data source has no option {name!r}"
            raise LakeconfError(problem, hint=suggestion(key, allowed, f"use one of its options: {', '.join(allowed)}"))
        if key in values:
            raise LakeconfError("the table is named twice", hint="pass it either to load() or save(), or as an option")
        convert, expected = _VALUES.get(key, (str, "a string"))
        try:
            values[key] = convert(text)
        except ValueError:
            raise LakeconfError(f"the option {key} is not {expected}") from None
    if not values.get("table"):
        hint = 'name a table: load("raw.events"), save("raw.events"), or .option("table", "raw.events")'
        raise LakeconfError("the option table is missing", hint=hint)
    for name, least in (("snapshots_per_batch", 1), ("since", 0)):
        if values.get(name, least) < least:
            raise LakeconfError(f"the option {name} is less than {least}")
    if {"version", "timestamp"} <= values.keys():
        raise LakeconfError("pass either the option version or the option timestamp")
    return Options(**values)


def _whole_number(text: str) -> int:
    if not re.fullmatch(r"-?[0-9]+", text):
        raise ValueError  # Python also reads `1_0`
    return int(text)


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


# How to read the text of an option, and what it is; others are strings.
_VALUES: Mapping[str, tuple[Callable[[str], object], str]] = {
    **dict.fromkeys(("version", "since", "snapshots_per_batch"), (_whole_number, "a whole number")),
    "timestamp": (datetime.fromisoformat, "a time such as 2026-01-31T12:00:00+00:00"),
    "changes": (_boolean, "true or false"),
}


@dataclass(frozen=True)
class Opened:
    """A lake that is open for planning."""

    options: Options
    store: Store
    session: Session

    def access(self, source: TableSource) -> Access:
        """How executors reach the files."""
        is_own, parent = source.session is self.session, self.store.parent
        return Access.of(self.store if is_own or parent is None else parent)

    def snapshot(self) -> int:
        """The snapshot that the options name, or the latest one."""
        version, timestamp = self.options.version, self.options.timestamp
        if version is None and timestamp is None:
            return self.session.snapshot_id
        return chosen(self.session.reader, version, timestamp).snapshot_id

    def table(self, snapshot_id: int) -> TableInfo:
        """The table at a snapshot."""
        session, table, snapshot_id = self.source(snapshot_id)
        return load_table(session.reader, table, snapshot_id)

    def source(self, snapshot_id: int) -> TableSource:
        """Where the rows of the table are: a branch reads what it has not written from the other lake."""
        return Scope(self.session, at=snapshot_id).source(self.options.table)

    def view(self, snapshot_id: int) -> TableInfo | None:
        """The view of this name at a snapshot, or None: what a branch has not written is no view for its users."""
        is_own = self.source(snapshot_id).session is self.session
        return view_info(self.session.reader, self.options.table, snapshot_id) if is_own else None


def store_of(options: Options, task: str) -> Store:
    """The store of a read or a write, whose files executors must reach."""
    store = init(options.config).get_store(options.store)
    if store.storage_backend is None:
        raise UnsupportedError(
            f"the files of store {store.name!r} are kept by its metadata backend, and executors cannot reach them",
            hint=f"{task} with DuckDB: store.open()",
        )
    return store


@contextlib.contextmanager
def opened(options: Options) -> Iterator[Opened]:
    """Opens the lake of a read; it must exist."""
    store = store_of(options, "read the table")
    session = open_session(for_reading(store))
    try:
        yield Opened(options, store, session)
    finally:
        session.close()


def resolve(options: Options) -> tuple[tuple[Column, ...], int]:
    """The columns of a read, and its snapshot, which does not change any more."""
    with opened(options) as lake:
        snapshot_id = lake.snapshot()
        columns = selected(lake.view(snapshot_id) or lake.table(snapshot_id), options.names)
        refuse_columns(columns)
        return columns, snapshot_id


def plan(options: Options, snapshot_id: int) -> list[Part]:
    """Plans a read."""
    with opened(options) as lake:
        view = lake.view(snapshot_id)
        if view is not None:
            return _computed_parts(lake, view, snapshot_id)
        table = lake.table(snapshot_id)
        predicate = None if options.where is None else predicate_of(options.where, table.columns)
        columns = selected(table, options.names)
        # The rows in the catalog are filtered here, and need the columns of the condition.
        used = (*columns, *(columns_of(predicate) if predicate else ()))
        names = list(dict.fromkeys(column.name for column in used))
        source = lake.source(snapshot_id)
        scan_plan, inlined = plan_with_inlined_rows(
            source.session.reader, source.table, source.snapshot_id, names, predicate
        )
        return parts_of(lake.access(source), scan_plan, inlined, columns)


def _computed_parts(lake: Opened, view: TableInfo, snapshot_id: int) -> list[Part]:
    """The rows of a view, which DuckDB computes while Spark plans the read."""
    options, reader = lake.options, lake.session.reader
    predicate = None if options.where is None else predicate_of(options.where, view.columns)
    names = [column.name for column in selected(view, options.names)]
    columns, query = view_rows(reader, view, snapshot_id, names, predicate)
    rows = computed_rows(reader.connection, columns, query)
    return [RowPart(stream_of(rows))] if rows.num_rows else []


def parts_of(access: Access, scan_plan: ScanPlan, inlined: pa.Table, columns: Sequence[Column]) -> list[Part]:
    """Divides a plan into parts."""
    refuse_columns(columns)
    refuse_encrypted(scan_plan)
    parts: list[Part] = [FilePart(access, part) for part in divided(replace(scan_plan, columns=tuple(columns)))]
    if inlined.num_rows:
        condition = to_duckdb_sql(scan_plan.predicate) if scan_plan.predicate else "true"
        rows = exact_rows(columns, inlined, condition=condition, time_zone=scan_plan.time_zone)
        parts.append(RowPart(stream_of(rows)))
    return parts
