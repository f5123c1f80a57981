"""Polars: a lazy frame of a table that pushes columns, filters and `head` down to the scan."""

from __future__ import annotations

import contextlib
import io
import json
import operator
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import duckdb

from lakeconf.catalog.column_types import Fact, duckdb_names
from lakeconf.catalog.pruning.where import Where
from lakeconf.config.config import Config, init
from lakeconf.connection.duckdb_errors import translated_errors
from lakeconf.errors import LakeconfError, UnsupportedError, required
from lakeconf.sql import identifier
from lakeconf.store import Store

with required("polars", extra="polars", needed_for="scan_polars"):
    import polars as pl
    from polars.io.plugins import register_io_source

Tree = Mapping[str, Any]
_COMPARISONS: Mapping[str, Callable[[Any, Any], duckdb.Expression]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtEq": operator.le,
    "Gt": operator.gt,
    "GtEq": operator.ge,
}
# Types that Polars passes without loss and compares like DuckDB.
_INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)
_EXACT = (pl.Boolean, pl.Date, pl.String, *_INTEGERS)
# Read as DECIMAL(38,0), which fails for numbers with more digits; Arrow would truncate them.
_LARGE = duckdb_names(Fact.AS_DOUBLE)
# Types that Arrow or Polars would convert inexactly or not at all; HUGEINT if nested in another type.
_REFUSED = duckdb_names(Fact.INEXACT) | duckdb_names(Fact.OPAQUE)


def scan_polars(
    store: str | Store | None,
    table: str,
    *,
    config: Config | str | os.PathLike[str] | Mapping[str, Any] | None = None,
    where: Where | None = None,
    version: int | None = None,
) -> pl.LazyFrame:
    """Scans a table as a Polars lazy frame, pinned at one snapshot.

    The scan reads only the columns that the query needs. It pushes down filters that have the same meaning in Polars
    and DuckDB, and skips files without matching rows; Polars applies all filters again.

    Args:
        store: The store's name, None for the default store, or a `Store`.
        table: `schema.table`, or `table` for one in the schema `main`.
        config: The configuration that declares the store: a `Config`, or a source as for `init`.
        where: A condition that is always pushed down, as for `Table.scan`.
        version: The snapshot; default: the latest.

    Returns:
        A lazy frame. Collecting it opens the lake and closes it again.

    Raises:
        MissingDependencyError: pyarrow is not installed.
        ConfigError: The store does not exist.
        TableNotFoundError: The table does not exist at the snapshot.
        SnapshotNotFoundError: The snapshot does not exist.
        PredicateError: The syntax of `where` is not supported.
        UnsupportedError: Polars does not support the type of a column.
    """
    if not isinstance(store, Store):
        store = (config if isinstance(config, Config) else init(config)).get_store(store)
    with store.open(read_only=True) as lake:
        pinned = lake.snapshot_id if version is None else version
        source_table = (lake if version is None else lake.at(version=version)).table(table)
        _check_types(table, source_table.schema)
        with required("pyarrow", extra="polars", needed_for="scan_polars"):
            empty = _frame(_exact(source_table.scan(where=where).to_native().limit(0)).to_arrow_table())
    source = _PolarsSource(store, table, where, pinned, empty)
    return register_io_source(
        source.frames,
        schema=empty.schema,
        is_pure=True,
        explain_name="LAKECONF",
        explain_detail=f"{store.name}: {table} at snapshot {pinned}",
    )


@dataclass(frozen=True)
class _PolarsSource:
    store: Store
    table: str
    where: Where | None
    version: int
    empty: pl.DataFrame

    def frames(
        self, columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        trees = [] if predicate is None else _conjuncts(json.loads(predicate.meta.serialize(format="json")))
        filters = [] if predicate is None else [predicate]
        if any(_is_hint(tree) for tree in trees):
            trees = [tree for tree in trees if not _is_hint(tree)]
            filters = [_expression(tree) for tree in trees]
        # Filters may need columns that the query does not select.
        needed = columns and list(dict.fromkeys([*columns, *(name for f in filters for name in f.meta.root_names())]))
        with translated_errors(self.store.secrets), self.store.open(read_only=True) as lake:
            relation = lake.at(version=self.version).table(self.table).scan(needed, self.where).to_native()
            if n_rows is not None:
                relation = relation.limit(n_rows)  # Polars applies n_rows before the predicate
            translation = _Translation(self.empty.schema)
            for tree in trees:
                with contextlib.suppress(_Untranslatable):
                    relation = relation.filter(translation.condition(tree))
            for batch in _exact(relation).to_arrow_reader(batch_size or 100_000):
                frame = _frame(batch).filter(*filters)
                yield frame if columns is None else frame.select(columns)


def _check_types(table: str, schema: Mapping[str, str]) -> None:
    for column, type_name in schema.items():
        if type_name not in _LARGE and any(name in type_name for name in _REFUSED):
            raise UnsupportedError(
                f"Polars does not support the type {type_name} of {table}.{column}",
                hint=f"read the table with store.connect().sql('SELECT … CAST({column} AS VARCHAR) …').pl()",
            )


def _exact(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    if not any(str(dtype) in _LARGE for dtype in relation.types):
        return relation
    names = map(identifier, relation.columns)
    return relation.project(
        ", ".join(
            f"CAST({name} AS DECIMAL(38, 0)) AS {name}" if str(dtype) in _LARGE else name
            for name, dtype in zip(names, relation.types, strict=True)
        )
    )


def _frame(data: Any) -> pl.DataFrame:
    frame = pl.from_arrow(data)
    if not isinstance(frame, pl.DataFrame):
        raise LakeconfError("rows without columns")
    # DuckDB uses the session's time zone, which differs between machines.
    zoned = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.Datetime) and dtype.time_zone]
    return frame.with_columns(pl.col(name).dt.convert_time_zone("UTC") for name in zoned)


def _expression(tree: Tree) -> pl.Expr:
    return pl.Expr.deserialize(io.StringIO(json.dumps(tree)), format="json")


def _conjuncts(tree: Tree) -> list[Tree]:
    operation = tree.get("BinaryExpr", {})
    if operation.get("op") != "And":
        return [tree]
    return [*_conjuncts(operation["left"]), *_conjuncts(operation["right"])]


def _is_hint(tree: Tree) -> bool:
    # The optimizer adds hints for sorted limits, which are not executable expressions.
    return "Display" in tree


class _Untranslatable(Exception):  # noqa: N818 - control flow, never shown
    pass


@dataclass(frozen=True)
class _Translation:
    """Translates conditions to DuckDB; raises `_Untranslatable` if the meaning may differ."""

    schema: pl.Schema

    def condition(self, tree: Tree) -> duckdb.Expression:
        match tree:
            case {"BinaryExpr": {"left": left, "op": "And", "right": right}}:
                return self.condition(left) & self.condition(right)
            case {"BinaryExpr": {"left": left, "op": "Or", "right": right}}:
                return self.condition(left) | self.condition(right)
            case {"BinaryExpr": {"left": left, "op": op, "right": right}} if op in _COMPARISONS:
                return self._comparison(left, op, right)
            case {"Function": {"input": inputs, "function": {"Boolean": function}}}:
                return self._function(inputs, function)
            case {"Column": _} if self._type(tree) == pl.Boolean:
                return self._column(tree)
        raise _Untranslatable

    def _comparison(self, left: Tree, op: str, right: Tree) -> duckdb.Expression:
        if "Column" in left:
            return _COMPARISONS[op](self._column(left), self._constant(right, self._type(left)))
        return _COMPARISONS[op](self._constant(left, self._type(right)), self._column(right))

    def _function(self, inputs: list[Tree], function: object) -> duckdb.Expression:
        match function:
            case "Not":
                return ~self.condition(inputs[0])
            case "IsNull":
                return self._column(inputs[0]).isnull()
            case "IsNotNull":
                return self._column(inputs[0]).isnotnull()
            case {"IsIn": {"nulls_equal": False}}:
                return self._is_in(*inputs)
            case {"IsBetween": {"closed": "Both"}}:
                column, low, high = inputs
                return self._comparison(column, "GtEq", low) & self._comparison(column, "LtEq", high)
        raise _Untranslatable

    def _is_in(self, column: Tree, values: Tree) -> duckdb.Expression:
        dtype = self._type(column)
        (items,) = self._literal(values, pl.List(dtype))
        if not len(items) or items.has_nulls():
            raise _Untranslatable
        return self._column(column).isin(*map(duckdb.ConstantExpression, items))

    def _type(self, tree: Tree) -> pl.DataType:
        dtype = self.schema[tree["Column"]] if "Column" in tree else None
        is_microseconds = isinstance(dtype, pl.Datetime) and dtype.time_unit == "us"
        if dtype is None or not (dtype in _EXACT or is_microseconds):
            raise _Untranslatable
        return dtype

    def _column(self, tree: Tree) -> duckdb.Expression:
        if "Column" not in tree:
            raise _Untranslatable
        return duckdb.SQLExpression(identifier(tree["Column"]))

    def _constant(self, tree: Tree, dtype: pl.DataType) -> duckdb.Expression:
        (value,) = self._literal(tree, dtype)
        if value is None:
            raise _Untranslatable
        return duckdb.ConstantExpression(value)

    def _literal(self, tree: Tree, dtype: pl.DataType) -> pl.Series:
        # Polars casts both sides to one type: if the column already has that type, nothing was rounded.
        if "Literal" not in tree:
            raise _Untranslatable
        try:
            value = pl.select(_expression(tree)).to_series()
        except pl.exceptions.ComputeError as error:  # NaN and infinities cannot be serialized
            raise _Untranslatable from error
        if value.dtype != dtype:
            raise _Untranslatable
        return value
