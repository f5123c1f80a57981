"""Dagster: a resource that opens a lake, and an I/O manager that stores assets as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

from lakeconf.catalog.column_types import Fact, duckdb_names
from lakeconf.config.config import init
from lakeconf.errors import LakeconfError, UnsupportedError, required
from lakeconf.lake.lake import Lake
from lakeconf.sql import identifier, literal
from lakeconf.store import Store

with required("dagster", extra="dagster", needed_for="lakeconf.integrations.dagster"):
    from dagster import AssetKey, ConfigurableIOManager, ConfigurableResource, InputContext, OutputContext

Frames: TypeAlias = Literal["pandas", "polars", "pyarrow"]
_FRAMES: Mapping[str, Frames] = {name: name for name in get_args(Frames)}
_NAIVE = "%Y-%m-%d %H:%M:%S"
# Formats of time literals, by the type of the column that they are compared with.
_MOMENTS = {
    "DATE": "%Y-%m-%d",
    **dict.fromkeys(duckdb_names(Fact.NAIVE), _NAIVE),
    "TIMESTAMP WITH TIME ZONE": f"{_NAIVE}%z",
}


class LakeResource(ConfigurableResource[Any]):
    """A lake for assets that read and write it directly.

    Attributes:
        store: The store's name; default: the default store.
        lakeconf: The configuration file or its folder; default: lakeconf searches for it.
    """

    store: str | None = None
    lakeconf: str | None = None

    def get_store(self) -> Store:
        """Returns the store."""
        return init(self.lakeconf).get_store(self.store)

    def open(self, engine: Any = None) -> Lake:
        """Opens the lake; see `Store.open`."""
        return self.get_store().open(engine)


class LakeIOManager(ConfigurableIOManager):
    """Stores each asset as a table; the last two parts of the asset key are the schema and name of the table.

    The frame of an asset replaces all rows of the table in one snapshot; the frame of a partition replaces the rows of
    that partition. The asset's metadata `partition_expr` names the partition column.

    Attributes:
        store: The store's name; default: the default store.
        lakeconf: The configuration file or its folder; default: lakeconf searches for it.
        default_schema: The schema of assets with a key of one part.
    """

    store: str | None = None
    lakeconf: str | None = None
    default_schema: str = "main"

    def handle_output(self, context: OutputContext, obj: object) -> None:
        """Writes the output of an asset; None writes nothing.

        Args:
            context: The asset and its partition.
            obj: A frame of pandas, polars, pyarrow, narwhals or DuckDB.

        Raises:
            SchemaError: The frame does not fit the existing table.
            PredicateError: A row does not belong to the partition.
            CommitError: Nothing was written.
        """
        if obj is None:
            return
        name = self._table(context.asset_key)
        with self._open() as lake:
            if name not in lake.tables():
                lake.create_table(name, like=obj)
            table = lake.table(name)
            where = _partition(context, context.definition_metadata, table.schema)
            snapshot = table.overwrite(obj, where)
            context.add_output_metadata({"table": name, "snapshot": snapshot})

    def load_input(self, context: InputContext) -> object:
        """Reads a table as the frame type of the input's annotation.

        Args:
            context: The input; its metadata `columns` selects columns.

        Raises:
            TableNotFoundError: The asset was not materialized yet.
            UnsupportedError: The annotation is not a supported frame type.
        """
        annotation = context.dagster_type.typing_type
        package = str(getattr(annotation, "__module__", "")).partition(".")[0]
        if package not in _FRAMES or getattr(annotation, "__name__", "") not in ("DataFrame", "Table"):
            raise UnsupportedError(
                f"the annotation {annotation} of the input {context.name!r} is not a supported frame type",
                hint="annotate it with pandas.DataFrame, polars.DataFrame or pyarrow.Table",
            )
        with self._open() as lake:
            table = lake.table(self._table(context.asset_key))
            upstream = context.upstream_output
            where = _partition(context, upstream.definition_metadata if upstream else {}, table.schema)
            frame = table.scan(context.definition_metadata.get("columns"), where)
            return frame.collect(_FRAMES[package]).to_native()

    def _open(self) -> Lake:
        return init(self.lakeconf).get_store(self.store).open()

    def _table(self, key: AssetKey) -> str:
        *schema, name = key.path[-2:]
        return f"{schema[0] if schema else self.default_schema}.{name}"


def _partition(
    context: InputContext | OutputContext, metadata: Mapping[str, Any] | None, schema: Mapping[str, str]
) -> str | None:
    """Returns the SQL condition for the rows of the run's partitions; None if the asset has no partitions."""
    if not context.has_asset_partitions:
        return None
    key = context.asset_key.to_user_string()
    column = (metadata or {}).get("partition_expr")
    if not isinstance(column, str) or column not in schema:
        raise LakeconfError(
            f"the metadata of the partitioned asset {key} does not name a partition column of its table",
            hint='write @asset(…, metadata={"partition_expr": "event_date"})',
        )
    if hasattr(context.asset_partitions_def, "get_partition_keys_in_time_window"):
        return _time_window(context, column, schema[column])
    values = ", ".join(literal(key) for key in context.asset_partition_keys)
    return f"{identifier(column)} IN ({values})"


def _time_window(context: InputContext | OutputContext, column: str, type_name: str) -> str:
    if type_name not in _MOMENTS:
        raise LakeconfError(
            f"the column {column!r} has type {type_name}, which time partitions do not support",
            hint=f"use one of: {', '.join(_MOMENTS)}",
        )
    window = context.asset_partitions_time_window
    first, end = (literal(moment.strftime(_MOMENTS[type_name])) for moment in (window.start, window.end))
    name = identifier(column)
    return f"{name} >= {first} AND {name} < {end}"
