"""Filters a frame of Spark Connect by any condition that has DuckDB's result with the settings of the session."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from lakeconf.catalog.predicate.nodes import Predicate, split
from lakeconf.catalog.table import Column
from lakeconf.engines.spark.connect.settings import refuse_other, settings_of
from lakeconf.engines.spark.read.predicate import to_spark
from lakeconf.engines.spark.sql.bound_query import BoundQuery, bind
from lakeconf.engines.spark.sql.translation import translated_condition
from lakeconf.engines.spark.sql.typed_tree import TYPE
from lakeconf.engines.spark.types import query_type
from lakeconf.errors import UnsupportedError

_ROWS = "lakeconf_rows"
# The translation relies on these values, which are Spark's defaults.
_NEEDED = {
    "spark.sql.caseSensitive": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
}
# Settings that may change expressions in ways that no test covers.
_OTHERS = re.compile(r"spark\.sql\.(legacy|ansi)\.|collation", re.IGNORECASE)
# Spark's default is not DuckDB's rule.
_PRECISION_LOSS = "spark.sql.decimalOperations.allowPrecisionLoss"
_DECIMAL = re.compile(r"\bDECIMAL\b|\dBD\b", re.IGNORECASE)
# The meaning of their names and functions depends on the session.
_TIMES = re.compile(r"\b(TIME|TIMESTAMP\w*|INTERVAL)\b", re.IGNORECASE)


def filtered(spark: SparkSession, frame: DataFrame, predicate: Predicate, columns: Sequence[Column]) -> DataFrame:
    """The rows of a frame that satisfy a predicate.

    Args:
        spark: The user's session; its settings do not change.
        frame: Rows of a table.
        predicate: A predicate on the table.
        columns: The columns of the frame.

    Raises:
        UnsupportedError: Spark may not compute the predicate as DuckDB does.
    """
    understood, expression = split(predicate)
    if understood is not None:
        frame = frame.where(to_spark(understood))
    if expression is None:
        return frame
    types = {column.name: query_type(column) for column in columns}
    bound = bind(f"SELECT * FROM {_ROWS} WHERE {expression.sql}", {_ROWS: types})
    condition = translated_condition(bound)
    _check(settings_of(spark), expression.sql, condition, bound)
    return frame.alias(_ROWS).where(F.expr(condition))


def _check(settings: Mapping[str, str], sql: str, condition: str, bound: BoundQuery) -> None:
    """Refuses a condition if a setting could change its result."""
    refuse_other(settings, _NEEDED, "select")
    others = [key for key in settings if _OTHERS.search(key) and key not in _NEEDED]
    refuse_other(settings, dict.fromkeys(others, ""), "select")
    words = " ".join((condition, *_types(bound)))
    if "${" in condition or _TIMES.search(words):
        raise UnsupportedError(
            f"on Spark Connect, the result of the condition {sql} may depend on the session",
            hint="filter the frame: scan().filter(…); or read the table with DuckDB: store.open()",
        )
    if _DECIMAL.search(words) and settings.get(_PRECISION_LOSS, "").lower() != "false":
        raise UnsupportedError(
            f"on Spark Connect, the condition {sql} has decimals, for which Spark's default rules are not DuckDB's",
            hint=f"set it: spark.conf.set({_PRECISION_LOSS!r}, 'false'); or compare with a DOUBLE: 1.5::DOUBLE",
        )


def _types(bound: BoundQuery) -> Iterator[str]:
    """DuckDB's types of the values of the condition."""
    return (str(node.meta[TYPE]) for node in bound.tree.args["where"].walk() if TYPE in node.meta)
