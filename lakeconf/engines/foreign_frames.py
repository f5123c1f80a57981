"""Frames of other libraries: the native frame of a narwhals frame, and its conversion to an Arrow table."""

from __future__ import annotations

from typing import Any

import narwhals as nw
from narwhals.exceptions import DuplicateError

from lakeconf.engines.arrow_checks import check_types
from lakeconf.engines.pandas_frames import check_dtypes, is_pandas, with_index
from lakeconf.engines.python_values import check_values
from lakeconf.engines.row_dicts import arrow_rows, is_rows
from lakeconf.engines.schema_check import check_distinct
from lakeconf.errors import SchemaError, required


def native_frame(frame: object) -> Any:
    """The native frame of a narwhals frame, the frame itself if narwhals supports its type, or a table of dictionaries.

    Raises:
        SchemaError: narwhals does not support the type, there are no dictionaries, or the index of a pandas frame has
            labels without a name.
    """
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
    """Converts a native frame to an Arrow table.

    Raises:
        SchemaError: A column has values that are not of one type, or of a type that Arrow or DuckDB lacks.
    """
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
        except Exception as found:  # noqa: BLE001 - the same error again, or that of another column
            return _column_error(frame, name, found)
    return SchemaError(f"the frame cannot be converted to Arrow: {error}", hint="use one type for each column")


def _column_error(frame: nw.DataFrame[Any], name: str, error: Exception) -> SchemaError:
    text = ""
    if is_pandas(frame.to_native()):
        text = f", such as text: frame.astype({{{name!r}: 'string'}})"
    elif frame.implementation.is_polars():
        text = f", such as text: frame.cast({{{name!r}: pl.String}})"
    # pyarrow adds the name of a column of pandas as a second argument.
    why = next(iter(error.args), error)
    return SchemaError(
        f"the frame's column {name!r} cannot be converted to Arrow: {str(why).strip()}",
        hint=f"use one type for each column{text}",
    )


def _check_columns(frame: nw.DataFrame[Any]) -> None:
    """Refuses names that DuckDB would change, and columns of Python objects that would change."""
    if not frame.columns:
        raise SchemaError("the frame has no columns", hint="pass a frame with columns")
    check_distinct(list(map(str, frame.columns)))
    native = frame.to_native()
    if is_pandas(native):
        check_dtypes(native)
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
