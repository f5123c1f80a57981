"""Frames of other libraries: the native frame of a narwhals frame, and its conversion to an Arrow table."""

from __future__ import annotations

from typing import Any

import narwhals as nw

from lakeconf.engines.row_dicts import arrow_rows, is_rows
from lakeconf.errors import SchemaError, required


def native_frame(frame: object) -> Any:
    """The native frame of a narwhals frame, the frame itself if narwhals supports its type, or a table of dictionaries.

    Raises:
        SchemaError: narwhals does not support the type, or there are no dictionaries.
    """
    if is_rows(frame):
        if not frame:
            raise SchemaError(
                "a list without rows has no columns", hint="pass a frame with columns, or at least one row"
            )
        return arrow_rows(frame)
    try:
        return nw.to_native(nw.from_native(frame))  # type: ignore[call-overload]
    except TypeError as error:
        raise SchemaError(
            f"{type(frame).__name__} is not a frame",
            hint="pass a frame of narwhals, pyspark, polars, pandas, pyarrow or duckdb, or a list of dictionaries",
        ) from error


def arrow_table(native: Any) -> Any:
    """Converts a native frame to an Arrow table."""
    frame = nw.from_native(native)
    with required("pyarrow", extra="arrow", needed_for=f"a frame of the type {type(native).__name__}"):
        return frame.collect("pyarrow").to_native() if isinstance(frame, nw.LazyFrame) else frame.to_arrow()
