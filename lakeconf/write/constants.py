"""Python values as SQL expressions with a DuckDB type."""

from __future__ import annotations

from lakeconf.catalog.types import parsed_type
from lakeconf.ducklake import check_placeholders
from lakeconf.engines.exact_casts import STORED_AS_DOUBLE
from lakeconf.errors import SchemaError
from lakeconf.sql import literal


def constant(value: object, type_name: str) -> str:
    """A Python value as a SQL expression with a DuckDB type."""
    check_placeholders(str(value), "the value")
    if value is not None and parsed_type(type_name).id in STORED_AS_DOUBLE and not _is_double(str(value)):
        raise SchemaError(
            f"files would round the value {value} of the type {type_name}", hint="use a DECIMAL(38, 0) column"
        )
    return "NULL" if value is None else f"CAST({literal(str(value))} AS {type_name})"


def _is_double(text: str) -> bool:
    try:
        return int(float(text)) == int(text)
    except (ValueError, OverflowError):
        return False
