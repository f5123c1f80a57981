"""Lazy frames of DuckDB whose `collect` says what to install."""

from __future__ import annotations

from typing import Any

import duckdb
import narwhals as nw

from lakeconf.errors import required

_FRAME = "this frame"


class LazyRows(nw.LazyFrame[Any]):
    """A lazy frame of narwhals, and so are the frames made from it.

    Only the core packages may be installed: DuckDB then runs queries, but cannot make a frame in memory.
    """

    def collect(self, backend: Any = None, **kwargs: Any) -> nw.DataFrame[Any]:
        """The rows in memory.

        Args:
            backend: As for `narwhals.LazyFrame.collect`: "pyarrow", the default, "polars" or "pandas".
            kwargs: As for `narwhals.LazyFrame.collect`.

        Raises:
            MissingDependencyError: The package of the backend is not installed.
        """
        if backend in ("pandas", nw.Implementation.PANDAS):
            with required("pandas", extra=None, needed_for=_FRAME):
                import pandas as pd  # noqa: F401 - else numpy, which pandas needs, would be named
        with (
            required("pyarrow", extra="arrow", needed_for=_FRAME),
            required("polars", extra="polars", needed_for=_FRAME),
        ):
            return super().collect(backend, **kwargs)


def lazy_rows(relation: duckdb.DuckDBPyRelation) -> nw.LazyFrame[Any]:
    """Returns a relation as a lazy frame."""
    frame = nw.from_native(relation)
    # The constructor takes a private frame of narwhals. Frames made from this one have its class.
    frame.__class__ = LazyRows
    return frame
