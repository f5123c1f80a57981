"""Frames of pandas: their index, and frames without rows, whose types pandas has chosen."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeGuard

import narwhals as nw

from lakeconf.errors import SchemaError
from lakeconf.sql import folded

if TYPE_CHECKING:
    import pandas as pd

# The types that pandas gives to columns without values.
_OF_NOTHING = frozenset({"object", "float64"})
# Types that Arrow lacks, or that DuckDB reads without their meaning: the name of each in pandas, and the type that
# keeps its values.
_FOREIGN = (
    (re.compile(r"period\[.*"), "string"),
    (re.compile(r"interval\b.*"), "string"),
    (re.compile(r"complex\d+"), "string"),
    (re.compile(r"float16"), "float32"),
    (re.compile(r"float(96|128)"), "float64"),
    (re.compile(r"Sparse\[(?P<values>[^,]+).*"), None),
)


def is_pandas(frame: object) -> TypeGuard[pd.DataFrame]:
    """True for a frame of pandas; False for one that narwhals wraps."""
    return bool(nw.dependencies.is_pandas_dataframe(frame))


def with_index(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with its index as columns, or without it.

    pyarrow would write an index that a filter or a sort has left as the column `__index_level_0__`, and would omit the
    named index of other frames. Here the names decide: named levels are columns. An index of whole numbers without a
    name only has the places of the rows, and is dropped, as polars and DuckDB do.

    Args:
        frame: The frame.

    Raises:
        SchemaError: The index has labels, but no names for columns; or a column has the name of the index.
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
    """A frame of pandas without rows, so that columns whose types pandas has chosen fit any type; else the same frame.

    Args:
        frame: Any frame.
        columns: The columns of the table that the frame is written to; others keep their types.
    """
    native = nw.to_native(frame, pass_through=True)
    if not is_pandas(native) or len(native):
        return frame
    known = set(map(folded, columns))
    found: list[Any] = [
        name for name, kind in native.dtypes.items() if folded(str(name)) in known and str(kind) in _OF_NOTHING
    ]
    return native.astype(dict.fromkeys(found, object))


def check_dtypes(frame: pd.DataFrame) -> None:
    """Refuses columns of types of pandas that DuckDB lacks.

    Raises:
        SchemaError: A column has such a type; the hint is the cast that works.
    """
    dtypes: dict[Any, Any] = frame.dtypes.to_dict()
    for column, dtype in dtypes.items():
        # The values of a category.
        values = str(getattr(getattr(dtype, "categories", None), "dtype", dtype))
        for pattern, kept in _FOREIGN:
            if (found := pattern.fullmatch(values)) is not None:
                wanted = kept or found["values"]
                raise SchemaError(
                    f"the frame's column {column!r} has the type {values} of pandas, which DuckDB lacks",
                    hint=f"cast it: frame.astype({{{column!r}: {wanted!r}}})",
                )
