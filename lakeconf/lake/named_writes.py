"""Carries out the statements of Spark's SQL that change a lake, each as one snapshot, by the operations of `Table`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lakeconf.catalog.column_types import duckdb_name
from lakeconf.catalog.pruning.predicates import IsNull, Not, Or, Predicate
from lakeconf.catalog.pruning.pushed import exact_predicate
from lakeconf.catalog.tables import TableInfo, joined_name, load_table
from lakeconf.errors import LakeconfError, SchemaError, TableNotFoundError, UnsupportedError
from lakeconf.lake.branches.first_write import own_table, write
from lakeconf.sql import identifier, literal
from lakeconf.write.context import Operation
from lakeconf.write.ddl import Definition
from lakeconf.write.declared_table import create_declared, declared_at
from lakeconf.write.operations import define
from lakeconf.write.operations.append import AppendRows
from lakeconf.write.operations.computed_changes import ChangeRows
from lakeconf.write.operations.delete import DeleteRows
from lakeconf.write.operations.evolve import Evolution, stored_default
from lakeconf.write.operations.overwrite import OverwritePartitions, OverwriteRows

if TYPE_CHECKING:
    from lakeconf.commit.scope import Scope
    from lakeconf.engines.engine import NamedReads

Values = Mapping[str, Any]
# DuckLake's keys for Spark's transforms: its `month` and `day` recur, and Spark's do not.
_TRANSFORMS = {
    "years": ("year",),
    "months": ("year", "month"),
    "days": ("year", "month", "day"),
    "hours": ("year", "month", "day", "hour"),
    **{name: (name,) for name in ("year", "month", "day", "hour")},
}
# Properties that Spark sets by itself.
_SET_BY_SPARK = frozenset(("provider", "owner", "is_managed_location", "table_type"))
_PROVIDERS = ("lakeconf", "ducklake", "parquet")
_EPOCH = datetime(1970, 1, 1)
# The values of Spark's texts of constants, by the Spark type of their column.
_CONSTANTS: Mapping[str, Callable[[str], object]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), int),
    **dict.fromkeys(("float", "double"), float),
    "boolean": "true".__eq__,
    "decimal": Decimal,
    "string": str,
    "binary": bytes.fromhex,
    "date": lambda days: date(1970, 1, 1) + timedelta(days=int(days)),
    "timestamp": lambda micros: _EPOCH.replace(tzinfo=UTC) + timedelta(microseconds=int(micros)),
    "timestamp_ntz": lambda micros: _EPOCH + timedelta(microseconds=int(micros)),
}


def append(scope: Scope, values: Values, frame: Any) -> None:
    """INSERT INTO."""
    write(scope, values["table"], AppendRows(frame))


def overwrite(scope: Scope, values: Values, frame: Any) -> None:
    """INSERT OVERWRITE of a table, or of the rows that satisfy conditions."""
    conditions = values.get("where", [])
    if conditions:
        own_table(scope, values["table"])
    where = exact_predicate(conditions, _info(scope, values["table"]).columns) if conditions else None
    if conditions and where is None:
        raise UnsupportedError(
            "lakeconf cannot overwrite by this condition",
            hint="compare columns with constants, or use Table.overwrite(frame, where=…)",
        )
    write(scope, values["table"], OverwriteRows(frame, where))


def overwrite_partitions(scope: Scope, values: Values, frame: Any) -> None:
    """INSERT OVERWRITE of the partitions of a frame; a table without partition keys is one partition, as in Spark."""
    info = _info(scope, values["table"])
    write(scope, values["table"], OverwritePartitions(frame) if info.partition_fields else OverwriteRows(frame, None))


def delete(scope: Scope, values: Values) -> bool:
    """DELETE by conditions that lakeconf understands; False if Spark must find the rows."""
    predicate = _deleted(scope, values)
    if predicate is None:
        return False
    # The columns of the table of a branch have other ids than in the other lake.
    if own_table(scope, values["table"]):
        predicate = _deleted(scope, values) or predicate
    write(scope, values["table"], DeleteRows(predicate))
    return True


def _deleted(scope: Scope, values: Values) -> Predicate | None:
    info = _info(scope, values["table"])
    return exact_predicate(values["where"], info.columns) if values["where"] else _all_rows(info)


def change(scope: Scope, values: Values, frame: Any) -> None:
    """UPDATE, MERGE, and DELETE by any condition."""
    write(scope, values["table"], ChangeRows(frame))


def _info(scope: Scope, table: str) -> TableInfo:
    """A table at the snapshot of a statement; in a branch that has not written it, that of the other lake."""
    session, name, snapshot_id = scope.source(table)
    return load_table(session.reader, name, snapshot_id)


def _all_rows(info: TableInfo) -> Predicate:
    is_null = IsNull(info.columns[0])
    return Or((is_null, Not(is_null)))


def definition_of(values: Values, engine: NamedReads) -> Definition:
    """The table that a CREATE TABLE describes."""
    _check_properties(values["properties"])
    columns, comments = engine.columns_of_json(values["schema_json"])
    keys = [key for transform in values["partitions"] for key in _keys(*transform)]
    return Definition(columns, list(dict.fromkeys(keys)), (), values["properties"].get("comment"), comments)


def _check_properties(described: Values) -> None:
    properties = {name: text for name, text in described.items() if name not in {*_SET_BY_SPARK, "comment"}}
    provider = described.get("provider")
    if provider is not None and provider.lower() not in _PROVIDERS:
        raise UnsupportedError(f"a lake has no tables USING {provider}", hint="omit USING: files are Parquet")
    if "location" in properties:
        raise UnsupportedError("the tables of a lake have no LOCATION", hint="omit it: the store has a data path")
    if any(name.startswith("hive.") for name in properties):
        raise UnsupportedError("the tables of a lake are not STORED AS something", hint="omit it: files are Parquet")
    if properties:
        raise UnsupportedError(
            f"the tables of a lake have no property or option {min(properties)!r}",
            hint="omit TBLPROPERTIES and OPTIONS",
        )


def _keys(transform: str, column: str, count: int | None) -> list[str]:
    if transform == "identity":
        return [column]
    if transform == "bucket" and count is not None:
        return [f"bucket({count}, {column})"]
    if transform not in _TRANSFORMS:
        raise UnsupportedError(
            f"a lake has no partition key {transform}({column})",
            hint="use a column, years, months, days, hours or bucket(n, column)",
        )
    return [f"{kind}({column})" for kind in _TRANSFORMS[transform]]


def create(scope: Scope, values: Values, frame: Any, engine: NamedReads) -> None:
    """CREATE TABLE and REPLACE TABLE, with rows or without, in one snapshot."""
    name = joined_name(values["schema"], values["name"])
    definition = definition_of(values, engine)
    exists = define.exists(scope, name)
    if exists and values["how"] == "create":
        raise SchemaError(f"the table {name} already exists")
    if not exists and values["how"] == "replace":
        raise TableNotFoundError(f"no table {name!r}")
    message = f"{values['how']} table {name}"
    defaults = _default_texts(scope, values.get("defaults", ()), definition.columns)
    with scope.transacting(message, None, None) as transaction:
        if exists:
            write(transaction, name, define.DropTable())
        write(transaction, name, define.CreateTable(definition))
        write(transaction, name, define.SetDefaults(defaults))
        if frame is not None:
            write(transaction, name, AppendRows(frame))


def create_like(scope: Scope, values: Values) -> None:
    """CREATE TABLE … LIKE a table of the lake, without its rows."""
    _check_properties(values["properties"])
    name = joined_name(values["schema"], values["name"])
    session, table, snapshot_id = scope.source(values["table"])
    source = load_table(session.reader, table, snapshot_id)
    declared = declared_at(session.reader, source, snapshot_id)
    if declared.computed:
        raise UnsupportedError(
            f"of {source.full_name}, an expression cannot be declared again: {', '.join(declared.computed)}",
            hint="write the columns: CREATE TABLE … (…)",
        )
    with scope.transacting(f"create table {name}", None, None) as transaction:
        create_declared(transaction, name, declared)


def _default_texts(scope: Scope, described: Sequence[Sequence[Any]], types: Mapping[str, str]) -> dict[str, str | None]:
    """The defaults of columns as the texts that DuckLake stores, by name; None for no default."""
    texts: dict[str, str | None] = {}
    for column, spark_type, text in described:
        if spark_type is None:
            texts[column] = None
            continue
        type_name = types[column].removesuffix(" NOT NULL")
        stored = stored_default(column, _constant(column, spark_type, text), type_name)
        try:  # DuckLake checks it when a row needs it
            scope.session.reader.connection.rows(f"SELECT CAST({literal(stored)} AS {type_name})")
        except LakeconfError as error:
            problem = f"the default of {column!r} is no {type_name}: {stored!r}"
            raise SchemaError(problem, hint="write a constant of the type of the column") from error
        texts[column] = stored
    return texts


def _constant(column: str, spark_type: str, text: str) -> object:
    kind = spark_type.partition("(")[0]
    if kind not in _CONSTANTS:
        raise UnsupportedError(f"the column {column!r} of the type {spark_type} has no default", hint="omit DEFAULT")
    try:
        return _CONSTANTS[kind](text)
    except OverflowError as error:
        raise UnsupportedError(f"the default of {column!r} is not in the years 1 to 9999", hint="use DuckDB") from error


def create_schema(scope: Scope, values: Values) -> None:
    """CREATE NAMESPACE."""
    schema, properties = values["schema"], sorted(values["properties"].keys() - _SET_BY_SPARK)
    if properties:
        raise UnsupportedError(f"a schema of a lake has no {properties[0]}", hint="omit it")
    write(scope, joined_name(schema, "any table"), define.CreateSchema(), message=f"create schema {schema}")


def alter(scope: Scope, values: Values, engine: NamedReads) -> None:
    """ALTER TABLE and COMMENT ON."""
    name = joined_name(values["schema"], values["name"])
    changes = _Alteration()
    for kind, *facts in values["changes"]:
        changes.add(kind, facts, engine)
    types = dict[str, str]()
    if changes.defaults:
        info = _info(scope, name)
        types = {column.name: duckdb_name(column.type) or column.type for column in info.columns}
    defaults = _default_texts(scope, changes.defaults, types)
    with scope.transacting(f"alter table {name}", None, None) as transaction:
        for operation in changes.operations():
            write(transaction, name, operation)
        write(transaction, name, define.SetDefaults(defaults))


@dataclass
class _Alteration:
    """The changes of one ALTER TABLE."""

    columns: dict[str, dict[str, str]] = field(default_factory=lambda: {"add": {}, "rename": {}, "type": {}})
    dropped: list[str] = field(default_factory=list)
    comment: str | None = None  # an empty one removes that of the table
    comments: dict[str, str | None] = field(default_factory=dict)
    defaults: list[Sequence[Any]] = field(default_factory=list)  # of columns that exist
    of_added: dict[str, object] = field(default_factory=dict)

    def add(self, kind: str, facts: Sequence[Any], engine: NamedReads) -> None:
        """Adds a change as the catalog class describes it."""
        if kind == "set" and facts[0] == "comment":
            self.comment = facts[1] or ""
        elif kind == "drop":
            self.dropped.append(_path(facts[0]))
        elif kind == "comment":
            self.comments[facts[0][0] if len(facts[0]) == 1 else _path(facts[0])] = facts[1] or None
        elif kind == "default":
            self.defaults.append(facts[1])
        elif kind in self.columns:
            self.columns[kind][_path(facts[0])] = facts[1] if kind == "rename" else engine.type_of_json(facts[1])
            if kind == "add":
                self._add_extras(*facts)
        else:
            what, hint = kind, "replace the table: CREATE OR REPLACE TABLE … AS SELECT …"
            if kind == "set":
                what, hint = f"the property {facts[0]!r}", "omit it: the tables of a lake have no properties"
            raise UnsupportedError(f"ALTER TABLE of a lake cannot change this: {what}", hint=hint)

    def _add_extras(self, path: Sequence[str], _: str, comment: str | None, default: Sequence[str] | None) -> None:
        if comment is not None:
            raise UnsupportedError("ADD COLUMN cannot add a comment", hint="use ALTER COLUMN … COMMENT after it")
        if default is not None and default[1] is not None:
            self.of_added[_path(path)] = _constant(*default)

    def operations(self) -> Iterator[Operation]:
        """The operations that carry out the changes."""
        if self.dropped or any(self.columns.values()):
            add, rename, promote = (self.columns[kind] for kind in ("add", "rename", "type"))
            yield Evolution(self.dropped, rename, promote, add, self.of_added)
        if self.comment is not None or self.comments:
            yield define.SetComments(self.comment, self.comments)


def _path(parts: Sequence[str]) -> str:
    return ".".join(part if part.isidentifier() else identifier(part) for part in parts)


def drop(scope: Scope, values: Values) -> bool:
    """DROP TABLE; False if there is none."""
    name = joined_name(values["schema"], values["name"])
    try:
        write(scope, name, define.DropTable(), message=f"drop table {name}")
    except TableNotFoundError:
        if define.exists(scope, name):
            raise
        return False
    return True


def rename(scope: Scope, values: Values) -> None:
    """ALTER TABLE … RENAME TO."""
    name, new = joined_name(values["schema"], values["name"]), joined_name(values["new_schema"], values["new_name"])
    write(scope, name, define.RenameTable(new), message=f"rename table {name} to {new}")
