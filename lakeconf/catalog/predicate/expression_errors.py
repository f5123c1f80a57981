"""Errors of narwhals for expressions: they do not name the unknown column, and list lakeconf's own columns."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator

import duckdb
import narwhals as nw

from lakeconf.errors import LakeconfError, SchemaError, suggestion

# What narwhals and DuckDB raise while narwhals converts an expression.
ERRORS = (nw.exceptions.NarwhalsError, duckdb.Error, NotImplementedError, ValueError, TypeError)
_COLUMN = re.compile(r'column "((?:[^"]|"")+)"', re.IGNORECASE)


def problem(error: BaseException, columns: Iterable[str], otherwise: str) -> tuple[str, str]:
    """What is wrong with an expression, and a hint.

    Args:
        error: One of `ERRORS`, or an error of Spark.
        columns: The columns that an expression can use.
        otherwise: The hint if no column is unknown.
    """
    known = list(columns)
    if isinstance(error, nw.exceptions.ColumnNotFoundError):
        # Only the error of DuckDB, which narwhals replaces, has the name.
        found = _COLUMN.search(str(error.__cause__ or error.__context__ or ""))
        name = found[1].replace('""', '"') if found else ""
        named = f": {name!r}" if found else ""
        return f"the expression uses an unknown column{named}", suggestion(
            name, known, f"use one of the columns: {', '.join(known)}"
        )
    by_narwhals = isinstance(error, ERRORS)
    failed = "narwhals cannot convert the expression to SQL" if by_narwhals else "Spark cannot compute the expression"
    # narwhals adds hints of its own, and Spark its plan.
    return f"{failed}: {str(error).strip().splitlines()[0]}", otherwise


def _all_errors() -> tuple[type[Exception], ...]:
    """`ERRORS`, and the base of the errors of a Spark session if there can be one."""
    errors = sys.modules.get("pyspark.errors")
    return ERRORS if errors is None else (*ERRORS, errors.PySparkException)


@contextlib.contextmanager
def named_columns(columns: Iterable[str]) -> Iterator[None]:
    """Translates the errors of narwhals and Spark for values and conditions of an update or a merge.

    Args:
        columns: The columns that an expression can use.

    Raises:
        SchemaError: An expression uses an unknown column, or an operation that the engine lacks for its columns.
    """
    try:
        yield
    except LakeconfError:
        raise
    except _all_errors() as error:
        message, hint = problem(error, columns, "use other operations, or write the change as SQL: lake.execute(…)")
        raise SchemaError(message, hint=hint) from error
