"""Frames of other libraries as rows of DuckDB: Arrow, pandas, polars and narwhals."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard

import duckdb
import narwhals as nw
from duckdb.sqltypes import DuckDBPyType
from narwhals.exceptions import DuplicateError

from lakeconf.catalog.column_types import fields_of
from lakeconf.connection.duckdb_errors import translated_errors
from lakeconf.engines.python_rows import arrow_rows, check_values, is_rows
from lakeconf.engines.schema_check import check_distinct
from lakeconf.errors import QueryError, SchemaError, required
from lakeconf.sql import folded, identifier

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow

    from lakeconf.connection.connection import Connection


# The type of columns with Arrow's null type while they are in DuckDB; by default, DuckDB uses INTEGER.
_NULL = "ENUM('lakeconf_null')"
# The types that pandas gives to columns without values.
_OF_NOTHING = frozenset({"object", "float64"})
# Extension types that DuckDB reads as types of its own; of others, such as the periods of pandas, it reads the storage.
_KNOWN = frozenset({"arrow.uuid", "arrow.json", "arrow.bool8"})


def frame_type(duckdb_type: DuckDBPyType) -> str:
    """The name of the type of a frame's column; `"NULL"` for the null type."""
    return str(duckdb_type).replace(_NULL, '"NULL"')


def exact_units(table: pyarrow.Table) -> pyarrow.Table:
    """Converts a table to the time units of DuckDB, which truncates smaller units."""
    import pyarrow as pa

    fields = [field.with_type(with_leaves(field.type, _exact)) for field in table.schema]
    if [field.type for field in fields] == table.schema.types:
        return table
    columns = []
    for field, column in zip(fields, table.columns, strict=True):
        try:
            columns.append(column.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaError(
                f"the frame's column {field.name!r} has a value that DuckDB would round: {str(error).strip()}",
                hint="round times to microseconds, dates to days and decimals to 38 digits",
            ) from error
    return pa.table(columns, schema=pa.schema(fields))


def with_leaves(arrow_type: Any, leaf: Callable[[Any], Any]) -> Any:
    """An Arrow type after a conversion of the types that are not nested, at any depth."""
    import pyarrow as pa

    if pa.types.is_dictionary(arrow_type):
        values = with_leaves(arrow_type.value_type, leaf)
        # DuckDB fails beyond recovery for a dictionary of nested values.
        return (
            values if pa.types.is_nested(values) else pa.dictionary(arrow_type.index_type, values, arrow_type.ordered)
        )
    if pa.types.is_run_end_encoded(arrow_type):
        return pa.run_end_encoded(arrow_type.run_end_type, with_leaves(arrow_type.value_type, leaf))
    if (list_of := _list_of(arrow_type)) is not None:
        return list_of(_field(arrow_type.value_field, leaf))
    if pa.types.is_struct(arrow_type):
        return pa.struct([_field(field, leaf) for field in arrow_type])
    if pa.types.is_map(arrow_type):
        return pa.map_(
            with_leaves(arrow_type.key_type, leaf), _field(arrow_type.item_field, leaf), arrow_type.keys_sorted
        )
    return leaf(arrow_type)


def _field(field: Any, leaf: Callable[[Any], Any]) -> Any:
    return field.with_type(with_leaves(field.type, leaf))


def with_null_types(relation: duckdb.DuckDBPyRelation, table: pyarrow.Table) -> duckdb.DuckDBPyRelation:
    """The relation of an Arrow table, with a distinct type for columns of the null type."""
    casts = [
        f"CAST({identifier(name)} AS {text}) AS {identifier(name)}"
        if (text := _with_null(field.type, duckdb_type))
        else None
        for name, duckdb_type, field in zip(relation.columns, relation.types, table.schema, strict=True)
    ]
    if not any(casts):
        return relation
    names = map(identifier, relation.columns)
    return relation.project(", ".join(cast or name for cast, name in zip(casts, names, strict=True)))


def _exact(arrow_type: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_timestamp(arrow_type) and arrow_type.unit == "ns" and arrow_type.tz is not None:
        return pa.timestamp("us", arrow_type.tz)
    if pa.types.is_duration(arrow_type) and arrow_type.unit == "ns":
        return pa.duration("us")
    if pa.types.is_time64(arrow_type) and arrow_type.unit == "ns":
        return pa.time64("us")
    if pa.types.is_decimal(arrow_type) and (arrow_type.scale < 0 or pa.types.is_decimal256(arrow_type)):
        # DuckDB has no such decimals, and fails beyond recovery for a negative scale.
        return pa.decimal128(min(arrow_type.precision - min(arrow_type.scale, 0), 38), max(arrow_type.scale, 0))
    return pa.date32() if pa.types.is_date64(arrow_type) else arrow_type


def _list_of(arrow_type: Any) -> Callable[[Any], Any] | None:
    """Makes the same kind of list of another element; None if the type is not a list."""
    import pyarrow as pa

    factories: dict[type, Callable[[Any], Any]] = {
        pa.ListType: pa.list_,
        pa.LargeListType: pa.large_list,
        pa.FixedSizeListType: lambda element: pa.list_(element, arrow_type.list_size),
        pa.ListViewType: pa.list_view,
        pa.LargeListViewType: pa.large_list_view,
    }
    return factories.get(type(arrow_type))


def _with_null(arrow_type: Any, as_duckdb: DuckDBPyType) -> str | None:
    """DuckDB's type with `_NULL` in place of each null type of Arrow; None if Arrow's type contains none."""
    import pyarrow as pa

    if pa.types.is_null(arrow_type):
        return _NULL
    if pa.types.is_dictionary(arrow_type):
        return _with_null(arrow_type.value_type, as_duckdb)
    if _list_of(arrow_type) is not None:
        inner = _with_null(arrow_type.value_type, fields_of(as_duckdb)["element"])
        size = arrow_type.list_size if pa.types.is_fixed_size_list(arrow_type) else ""
        return f"{inner}[{size}]" if inner else None
    if pa.types.is_struct(arrow_type):
        parts = fields_of(as_duckdb)
        inners = {field.name: _with_null(field.type, parts[field.name]) for field in arrow_type}
        if any(inners.values()):
            fields = (f"{identifier(name)} {inner or parts[name]}" for name, inner in inners.items())
            return f"STRUCT({', '.join(fields)})"
    if pa.types.is_map(arrow_type):
        parts = fields_of(as_duckdb)
        item = _with_null(arrow_type.item_type, parts["value"])
        return f"MAP({parts['key']}, {item})" if item else None
    return None


def is_pandas(frame: object) -> TypeGuard[pd.DataFrame]:
    """True for a frame of pandas; False for one that narwhals wraps."""
    return bool(nw.dependencies.is_pandas_dataframe(frame))


def with_index(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with its index as columns, or without it.

    pyarrow would write an index that a filter or a sort has left as the column `__index_level_0__`, and would omit the
    named index of other frames. Here the names decide: named levels are columns. An index of whole numbers without a
    name only has the places of the rows, and is dropped, as polars and DuckDB do.
    """
    index: Any = frame.index
    names = list(index.names)
    if None not in names:
        try:
            return frame.reset_index()
        except ValueError as error:
            raise SchemaError(
                f"the frame has a column and an index {', '.join(map(repr, names))}",
                hint="drop the index: frame.reset_index(drop=True)",
            ) from error
    if len(frame) and (len(names) > 1 or index.dtype.kind not in "iu"):
        raise SchemaError(
            f"the index of the frame has labels, such as {index[0]!r}, but no name for a column",
            hint='name it: frame.rename_axis("label"); or drop it: frame.reset_index(drop=True)',
        )
    shallow = frame.copy(deep=False)
    shallow.index = range(len(frame))
    return shallow


def without_types(frame: object, columns: Iterable[str]) -> object:
    """The frame; one of pandas without rows gets columns that fit any type, where pandas has chosen the type."""
    native = nw.to_native(frame, pass_through=True)
    if not is_pandas(native) or len(native):
        return frame
    names = set(map(folded, columns))
    untyped: list[Any] = [
        name for name, kind in native.dtypes.items() if folded(str(name)) in names and str(kind) in _OF_NOTHING
    ]
    return native.astype(dict.fromkeys(untyped, object))


def check_types(schema: Any) -> None:
    """Rejects an Arrow table with a column that DuckDB cannot hold as it is."""
    for field in schema:
        for arrow_type in _types(field.type):
            problem = _problem(arrow_type)
            if problem is not None:
                why, hint = problem
                raise SchemaError(f"the frame's column {field.name!r} {why}", hint=hint)


def _types(arrow_type: Any) -> Iterator[Any]:
    """A type and the types in it, at any depth."""
    import pyarrow as pa

    yield arrow_type
    if pa.types.is_dictionary(arrow_type) or pa.types.is_run_end_encoded(arrow_type):
        yield from _types(arrow_type.value_type)
    elif not isinstance(arrow_type, pa.BaseExtensionType):
        for index in range(arrow_type.num_fields):
            yield from _types(arrow_type.field(index).type)


def _problem(arrow_type: Any) -> tuple[str, str] | None:
    import pyarrow as pa

    if pa.types.is_float16(arrow_type):
        return "has floats of 16 bits, which DuckDB lacks", "cast them to floats of 32 bits"
    if pa.types.is_union(arrow_type):
        return "is a union, which DuckLake lacks", "make a column for each kind of its values"
    if pa.types.is_struct(arrow_type) and not arrow_type.num_fields:
        return "has structs without fields, which DuckDB lacks", "drop the column, or add a field"
    name = arrow_type.extension_name if isinstance(arrow_type, pa.BaseExtensionType) else ""
    if name and name not in _KNOWN and not name.startswith(("duckdb.", "geoarrow.")):
        why = f"has the extension type {name}, of which DuckDB would read the storage type only"
        return why, f"cast it to its storage type {arrow_type.storage_type} or to text, if that keeps what it means"
    return None


def native_frame(frame: object) -> Any:
    """The native frame of a narwhals frame, the frame itself if narwhals supports it, or a table of dictionaries."""
    if is_rows(frame):
        if not frame:
            raise SchemaError(
                "a list without rows has no columns", hint="pass a frame with columns, or at least one row"
            )
        table = arrow_rows(frame)
        check_types(table.schema)
        return table
    try:
        native = nw.to_native(nw.from_native(frame))  # type: ignore[call-overload]
    except DuplicateError as error:
        raise SchemaError(f"the frame has two columns with one name: {error}", hint="rename one of them") from error
    except TypeError as error:
        raise SchemaError(
            f"{type(frame).__name__} is not a frame",
            hint="pass a frame of narwhals, pyspark, polars, pandas, pyarrow or duckdb, or a list of dictionaries",
        ) from error
    return with_index(native) if is_pandas(native) else native


def arrow_table(native: Any) -> Any:
    """Converts a native frame to an Arrow table."""
    with required("pyarrow", extra="arrow", needed_for=f"a frame of the type {type(native).__name__}"):
        import pyarrow as pa
    frame = nw.from_native(native)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect("polars" if frame.implementation.is_polars() else "pyarrow")
    try:
        _check_columns(frame)
        table = frame.to_arrow()
    except SchemaError:
        raise
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise _unconvertible(frame, error) from error
    check_types(table.schema)
    return table


def _unconvertible(frame: nw.DataFrame[Any], error: Exception) -> SchemaError:
    """The error for a frame that has no Arrow table; it names the first column that has none."""
    for name in frame.columns:
        try:
            frame.select(name).to_arrow()
        except Exception as cause:  # noqa: BLE001 - the same error again, or that of another column
            text = ""
            if is_pandas(frame.to_native()):
                text = f", such as text: frame.astype({{{name!r}: 'string'}})"
            elif frame.implementation.is_polars():
                text = f", such as text: frame.cast({{{name!r}: pl.String}})"
            # pyarrow adds the name of a column of pandas as a second argument.
            why = next(iter(cause.args), cause)
            message = f"the frame's column {name!r} cannot be converted to Arrow: {str(why).strip()}"
            return SchemaError(message, hint=f"use one type for each column{text}")
    return SchemaError(f"the frame cannot be converted to Arrow: {error}", hint="use one type for each column")


def _check_columns(frame: nw.DataFrame[Any]) -> None:
    """Rejects names that DuckDB would change, and columns of Python objects that would change."""
    if not frame.columns:
        raise SchemaError("the frame has no columns", hint="pass a frame with columns")
    check_distinct(list(map(str, frame.columns)))
    native = frame.to_native()
    for column, kind in native.dtypes.items() if is_pandas(native) else ():
        check_values(str(column), getattr(kind, "categories", ()))
    for name, dtype in frame.schema.items():
        if dtype != nw.Object:
            continue
        if frame.implementation.is_polars():
            # Polars gives the addresses of the objects to Arrow.
            raise SchemaError(
                f"the frame's column {name!r} has Python objects, which polars cannot convert",
                hint="make a column of values of one type: pl.Series(name, list(map(str, frame[name])))",
            )
        check_values(str(name), frame[name].to_list())


@contextlib.contextmanager
def packages_named(library: object) -> Iterator[None]:
    """Names the package that is missing if a frame cannot be collected in memory."""
    if library in ("pandas", nw.Implementation.PANDAS):
        with required("pandas", extra=None, needed_for="this frame"):
            import pandas as pd  # noqa: F401 - else numpy, which pandas needs, would be named
    with (
        required("pyarrow", extra="arrow", needed_for="this frame"),
        required("polars", extra="polars", needed_for="this frame"),
    ):
        yield


class LazyRows(nw.LazyFrame[Any]):
    """A lazy frame of narwhals, and so are the frames made from it.

    Only the core packages may be installed: DuckDB then runs queries, but cannot make a frame in memory.
    """

    # The connection of the frames, which have a class of their own, because narwhals makes frames by their class only.
    connection: ClassVar[Connection]

    def collect(self, backend: Any = None, **kwargs: Any) -> nw.DataFrame[Any]:
        """The rows in memory.

        Args:
            backend: As for `narwhals.LazyFrame.collect`: "pyarrow", the default, "polars" or "pandas".
        """
        try:
            with packages_named(backend), translated_errors(self.connection.secrets):
                return super().collect(backend, **kwargs)
        except DuplicateError as error:
            message = f"the result has two columns with one name: {error}"
            raise QueryError(message, hint="name each column in its own way: SELECT a AS b") from error

    def to_native(self) -> Any:
        """The rows as a relation of DuckDB, which computes them when it is used.

        It has a connection of its own, so that what the lake and other frames do never ends its readers. Relations
        made from it share that connection: read one of them at a time, because DuckDB would end the reader of the
        other. To join frames, join them before, or pass them to `lake.sql`.
        """
        return self.connection.apart(super().to_native())


def lazy_rows(relation: duckdb.DuckDBPyRelation, connection: Connection) -> nw.LazyFrame[Any]:
    """Returns a relation of a connection as a lazy frame, in whose errors the secrets are hidden."""
    frame = nw.from_native(relation)
    # The constructor takes a private frame of narwhals. Frames made from this one have its class.
    frame.__class__ = vars(connection).setdefault("_frames", type("LazyRows", (LazyRows,), {"connection": connection}))
    return frame
