"""Answers for the tables of a lake that Spark's SQL names: which there are, their columns, and their rows."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from lakeconf.catalog.inherited import inherited_tables
from lakeconf.catalog.pruning.pushed import pushed_predicate
from lakeconf.catalog.snapshot import chosen, latest
from lakeconf.catalog.table_options import column_defaults, comments
from lakeconf.catalog.tables import (
    DEFAULT_SCHEMA,
    TableInfo,
    joined_name,
    load_table,
    schema_names,
    split_name,
    tables,
)
from lakeconf.commit.scope import Scope, TableSource
from lakeconf.ducklake import INTERNAL_SCHEMA
from lakeconf.engines.views import view_info, view_rows
from lakeconf.errors import (
    CommitConflictError,
    LakeconfError,
    SnapshotNotFoundError,
    TableNotFoundError,
    UnsupportedError,
)
from lakeconf.lake import named_writes
from lakeconf.lake.branches.first_write import own_table
from lakeconf.lake.named_procedures import called, described_procedures, is_part, moment, part_of
from lakeconf.lake.opening import open_session
from lakeconf.lake.table import Table
from lakeconf.sql import folded

if TYPE_CHECKING:
    import pyarrow

    from lakeconf.commit.session import Session
    from lakeconf.engines.engine import NamedReads
    from lakeconf.store import Store

Values = Mapping[str, Any]
# Clients of JDBC and dbt begin with `USE default`, also where the lake is `spark.sql.defaultCatalog`.
_SPARKS_DEFAULT = "default"


class NamedLake:
    """A store that a Spark session reads by name. It is opened when a query first names it."""

    def __init__(self, store: Store, spark: Any) -> None:
        self._store = store
        self._spark = spark
        self._opening = threading.Lock()
        self._opened: Session | None = None
        # The tables that a branch got for a statement which finds rows by their places, by lower name; each with the
        # snapshot of the copy, at which the statement reads and changes it.
        self._copied: dict[str, int] = {}

    @property
    def _session(self) -> Session:
        with self._opening:
            if self._opened is None:
                self._opened = open_session(self._store, self._spark)
            return self._opened

    @property
    def _engine(self) -> NamedReads:
        return cast("NamedReads", self._session.engine)  # `attach` refuses a session of Spark Connect

    def answer(self, method: str, values: Values, frame: Any) -> Any:
        """The answer to a request of the catalog class: values for JSON, or a frame of Spark."""
        try:
            return METHODS[method](self, values, frame)
        except CommitConflictError as error:
            error.hint = "read the table again, and repeat the statement"  # it has no lake to refresh
            raise

    def _version(self, values: Values) -> int:
        """The snapshot that a request names, or the latest."""
        session = self._session
        if values.get("version") is not None:
            return int(values["version"])
        if "version_text" in values:
            text = str(values["version_text"]).strip()
            if not text.isdecimal():
                raise SnapshotNotFoundError(f"{text!r} is not a version", hint="write a whole number, such as 3")
            return chosen(session.reader, int(text), None).snapshot_id
        if "micros" in values:
            return chosen(session.reader, None, moment(values["micros"])).snapshot_id
        return session.snapshot_id if session.pinned else latest(session.reader).snapshot_id

    def load(self, values: Values, _: Any) -> Values:
        """The facts of a table or a view; no `table` if it does not exist."""
        version, part = self._version(values), values.get("part")
        name = joined_name(values["schema"], values["name"])
        source = self._source(name, version)
        reader, snapshot_id = source.session.reader, source.snapshot_id
        try:
            info = load_table(reader, source.table, snapshot_id)
        except TableNotFoundError:
            return {}
        except UnsupportedError:
            view = None if part is not None else view_info(self._session.reader, name, version)
            if view is None:
                raise
            return {**_facts(view, version, self._engine.json_schema(view, {}, {})), "view": True}
        if source.session is not self._session:
            schema, table = split_name(name)
            info = replace(info, schema_name=schema, name=table)
        if part is not None:
            return self._part(info.full_name, version, part)
        described, defaults = comments(reader, info, snapshot_id), column_defaults(reader, info, snapshot_id)
        return _facts(info, version, self._engine.json_schema(info, described.columns, defaults), described.table)

    def _source(self, table: str, version: int) -> TableSource:
        """Where the rows of a table are at a snapshot: a branch reads what it has not written from the other lake."""
        return Scope(self._session, at=version).source(table)

    def _part(self, table: str, version: int, part: str) -> Values:
        """The facts of a table of facts about a table."""
        name = part.lower()
        if not is_part(name):
            return {}
        rows = self._part_rows(table, version, name)
        schema = self._session.engine.adopt(rows).schema.json()
        return {
            "table": table,
            "part": name,
            "version": version,
            "schema": schema,
            "partitioning": [],
            "properties": {},
        }

    def _part_rows(self, table: str, version: int, part: str) -> pyarrow.Table:
        # A branch has a history of a table from its first write on.
        own = TableSource(self._session, table, version)
        session, name, snapshot_id = own if part == "history" else self._source(table, version)
        return part_of(session.reader, name, snapshot_id, part)

    def schemas(self, values: Values, _: Any) -> Values:
        """The names of the schemas."""
        names = schema_names(self._session.reader, self._version(values))
        return {"schemas": [name for name in names if folded(name) != INTERNAL_SCHEMA]}

    def has_schema(self, values: Values, _: Any) -> Values:
        """Whether a schema exists."""
        names = {folded(name) for name in schema_names(self._session.reader, self._version({}))}
        return {"exists": folded(values["schema"]) in names | {DEFAULT_SCHEMA, _SPARKS_DEFAULT}}

    def tables(self, values: Values, _: Any) -> Values:
        """The names of the tables of a schema, without views: if one is refused, Spark 4.0 lists nothing at all."""
        reader, version = self._session.reader, self._version({})
        names = [(info.schema_name, info.name) for info in tables(reader, version)]
        names += map(split_name, inherited_tables(reader, version))
        return {"tables": [name for schema, name in names if folded(schema) == folded(values["schema"])]}

    def scan(self, values: Values, _: Any) -> Any:
        """The rows of the files that may have rows for conditions: Spark filters them."""
        version, columns = int(values["version"]), values["columns"]
        if values["part"] is not None:
            rows = self._part_rows(values["table"], version, values["part"])
            return self._session.engine.adopt(rows.select(columns or rows.column_names[:1]))
        if values["view"]:
            view = view_info(self._session.reader, values["table"], version)
            if view is None:
                raise TableNotFoundError(f"no view {values['table']!r} at version {version}")
            where = pushed_predicate(values["where"], view.columns)
            return self._engine.computed(*view_rows(self._session.reader, view, version, columns, where))
        return self._pruned(self._source(values["table"], version), values, columns)

    def _pruned(self, source: TableSource, values: Values, columns: Sequence[str] | None) -> Any:
        """Columns of a table, of one if there are none; None for all columns and those that identify a row."""
        session, table, snapshot_id = source
        info = load_table(session.reader, table, snapshot_id)
        predicate = pushed_predicate(values["where"], info.columns)
        names = None if columns is None else list(columns) or [info.columns[0].name]
        engine = cast("NamedReads", session.engine)
        return engine.scan_pruned(table, snapshot_id, names, predicate, row_ids=columns is None)

    def rows(self, values: Values, _: Any) -> Any:
        """The rows of the files that may have rows for conditions, with the columns that identify them.

        The statement runs now, and changes them: a branch gets its own table first.
        """
        scope = self._scope(values)
        if own_table(scope, values["table"]):
            self._copied[folded(values["table"])] = scope.snapshot_id
        return self._pruned(self._source(values["table"], self._changed_at(values)), values, None)

    def _changed_at(self, values: Values) -> int:
        """The snapshot at which a statement finds the rows that it changes."""
        version = int(values["version"])
        is_own = self._source(values["table"], version).session is self._session
        return version if is_own else self._copied.get(folded(values["table"]), version)

    def changes(self, values: Values, _: Any) -> Any:
        """The rows that the snapshots of a range have changed."""
        table = Table(self._scope(values), joined_name(values["schema"], values["name"]))
        bounds = [moment(bound["micros"]) if isinstance(bound, dict) else bound for bound in values["range"]]
        if None in bounds:
            raise LakeconfError("a snapshot of the range is NULL", hint="pass its number, or a time")
        return table.changes(*bounds).to_native()

    def procedures(self, _values: Values, _: Any) -> Values:
        """The procedures and their parameters."""
        return described_procedures()

    def call(self, values: Values, _: Any) -> Any:
        """CALL."""
        rows = called(self._scope({}), values["procedure"], values["arguments"])
        return self._session.engine.adopt(rows)

    def _scope(self, values: Values) -> Scope:
        """Where a statement writes: based on the snapshot that its query has read, or on the latest."""
        return Scope(self._session.fork(self._version(values)))

    def _read_scope(self, values: Values) -> Scope:
        """The same for a statement whose query may have read the rows that it replaces, also as an older frame."""
        version, oldest = self._version(values), self._oldest(values)
        scope = Scope(self._session.fork(oldest))
        # Other commits since an older frame was made do not matter.
        scope.add_read(values["table"] if oldest < version else None)
        return scope

    def _oldest(self, values: Values) -> int:
        """The snapshot of a statement, or an older one at which its frame has read the table."""
        version = self._version(values)
        return version if values.get("read_at") is None else min(version, int(values["read_at"]))

    def append(self, values: Values, frame: Any) -> Values:
        """INSERT INTO."""
        named_writes.append(self._scope(values), values, frame)
        return {}

    def overwrite(self, values: Values, frame: Any) -> Values:
        """INSERT OVERWRITE."""
        named_writes.overwrite(self._read_scope(values), values, frame)
        return {}

    def overwrite_partitions(self, values: Values, frame: Any) -> Values:
        """INSERT OVERWRITE with dynamic partitions."""
        named_writes.overwrite_partitions(self._read_scope(values), values, frame)
        return {}

    def delete(self, values: Values, _: Any) -> Values:
        """DELETE FROM and TRUNCATE TABLE."""
        return {"done": named_writes.delete(self._scope(values), values)}

    def change(self, values: Values, frame: Any) -> Values:
        """UPDATE and MERGE INTO, which may also read an older frame of the table."""
        version, oldest = self._changed_at(values), self._oldest(values)
        scope = self._scope({"version": version})
        scope.base.add_read(values["table"], version if oldest == int(values["version"]) else oldest)
        named_writes.change(scope, values, frame)
        return {}

    def check_definition(self, values: Values, _: Any) -> Values:
        """Checks a CREATE TABLE before its query runs."""
        self._session.check_writable()
        named_writes.definition_of(values, self._engine)
        return {"version": self._version({}), "table": joined_name(values["schema"], values["name"])}

    def create(self, values: Values, frame: Any) -> Values:
        """CREATE TABLE and REPLACE TABLE."""
        # A new table replaces no rows.
        version = self._version(values) if values["how"] == "create" else self._oldest(values)
        named_writes.create(self._scope({"version": version}), values, frame, self._engine)
        return {}

    def create_like(self, values: Values, _: Any) -> Values:
        """CREATE TABLE … LIKE a table of the lake."""
        named_writes.create_like(self._scope(values), values)
        return {}

    def create_schema(self, values: Values, _: Any) -> Values:
        """CREATE NAMESPACE."""
        named_writes.create_schema(self._scope({}), values)
        return {}

    def alter(self, values: Values, _: Any) -> Values:
        """ALTER TABLE and COMMENT ON."""
        named_writes.alter(self._scope({}), values, self._engine)
        return {}

    def drop(self, values: Values, _: Any) -> Values:
        """DROP TABLE."""
        return {"done": named_writes.drop(self._scope({}), values)}

    def rename(self, values: Values, _: Any) -> Values:
        """ALTER TABLE … RENAME TO."""
        named_writes.rename(self._scope({}), values)
        return {}


def attach_to_spark(store: Store, spark: Any, *, use: bool) -> None:
    """Makes a store a catalog of a Spark session; see `Store.attach`."""
    names = importlib.import_module("lakeconf.engines.spark.named_tables")
    names.attach(spark, store.alias, NamedLake(store, spark), use=use)


def answer_spark(store: Store, spark: Any) -> str:
    """The id of a lake that answers a Spark application, in whose settings it is a catalog."""
    names = importlib.import_module("lakeconf.engines.spark.named_tables")
    identity: str = names.answering(spark, NamedLake(store, spark))
    return identity


def _facts(info: TableInfo, version: int, schema: str, comment: str | None = None) -> Values:
    return {
        "table": info.full_name,
        "version": version,
        "schema": schema,
        "partitioning": _partitioning(info),
        "properties": {"provider": "lakeconf"} | ({"comment": comment} if comment else {}),
    }


def _partitioning(info: TableInfo) -> list[tuple[str, str, int]]:
    names = {column.field_id: column.name for column in info.columns}
    keys = []
    for key in info.partition_fields:
        kind, _, count = key.transform.rstrip(")").partition("(")
        keys.append((kind, names[key.field_id], int(count or 0)))
    return keys


METHODS: Mapping[str, Callable[[NamedLake, Values, Any], Any]] = {
    "load": NamedLake.load,
    "schemas": NamedLake.schemas,
    "has_schema": NamedLake.has_schema,
    "tables": NamedLake.tables,
    "scan": NamedLake.scan,
    "rows": NamedLake.rows,
    "changes": NamedLake.changes,
    "procedures": NamedLake.procedures,
    "call": NamedLake.call,
    "append": NamedLake.append,
    "overwrite": NamedLake.overwrite,
    "overwrite_partitions": NamedLake.overwrite_partitions,
    "delete": NamedLake.delete,
    "change": NamedLake.change,
    "check_definition": NamedLake.check_definition,
    "create": NamedLake.create,
    "create_like": NamedLake.create_like,
    "create_schema": NamedLake.create_schema,
    "alter": NamedLake.alter,
    "drop": NamedLake.drop,
    "rename": NamedLake.rename,
}
