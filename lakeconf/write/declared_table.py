"""What a table is, apart from its rows: read from a snapshot, and created again elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.table_options import comments, table_options
from lakeconf.catalog.tables import TableInfo
from lakeconf.commit.scope import Scope
from lakeconf.errors import UnsupportedError
from lakeconf.sql import qualified
from lakeconf.write.context import perform, table_key
from lakeconf.write.ddl import Definition
from lakeconf.write.operations.define import CreateTable, SetDefaults


@dataclass(frozen=True)
class Declared:
    """What a table is, apart from its rows."""

    definition: Definition  # its columns, partition keys, sort order and comments
    defaults: Mapping[str, str]  # the default values of its columns that are constants
    computed: Sequence[str]  # what is an expression, which cannot be declared again


def declared_at(reader: CatalogReader, table: TableInfo, version: int) -> Declared:
    """What a table was at a snapshot."""
    options, described = table_options(reader, table, version), comments(reader, table, version)
    described_columns = reader.connection.rows(f"DESCRIBE FROM {relation_at(reader, table, version)}")
    types = {name: type_name for name, type_name, *_ in described_columns}
    columns = {column.name: types[column.name] + " NOT NULL" * (not column.nullable) for column in table.columns}
    keys = _partition_keys(table)
    definition = Definition(columns, keys, options.sorted_by, described.table, described.columns)
    return Declared(definition, options.defaults, options.computed)


def relation_at(reader: CatalogReader, table: TableInfo, version: int) -> str:
    """What follows FROM to read a table at a snapshot."""
    return f"{qualified(reader.alias, table.schema_name, table.name)} AT (VERSION => {version})"


def create_declared(scope: Scope, name: str, declared: Declared) -> None:
    """Creates an empty table in the open transaction."""
    transaction, definition = scope.transaction, declared.definition
    assert transaction is not None  # noqa: S101 - the caller opened it
    perform(scope, name, CreateTable(definition))
    if _partition_keys(transaction.contents.targets[table_key(name)].info) != definition.partitioned_by:
        keys = ", ".join(definition.partitioned_by)
        raise UnsupportedError(f"the partition keys of {name} cannot be declared again: {keys}")
    perform(scope, name, SetDefaults(declared.defaults))


def _partition_keys(table: TableInfo) -> list[str]:
    """The partition keys as `Lake.create_table` accepts them."""
    names = {column.field_id: column.name for column in table.columns}
    keys = []
    for field in table.partition_fields:
        column = names[field.field_id]
        if field.transform.startswith("bucket("):
            keys.append(f"{field.transform[:-1]}, {column})")
        else:
            keys.append(column if field.transform == "identity" else f"{field.transform}({column})")
    return keys
