"""The `where` of a scan, as users write it. The parser is loaded with the first condition: sqlglot takes 0.1 s."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from lakeconf.catalog.predicate.nodes import Predicate
from lakeconf.deferred import deferred

if TYPE_CHECKING:
    import narwhals as nw

    from lakeconf.catalog.predicate.parse import parse
    from lakeconf.catalog.table import Column
else:
    parse = deferred("lakeconf.catalog.predicate.parse", "parse")

Where: TypeAlias = "str | nw.Expr"


def predicate_of(where: Where | Predicate, columns: Sequence[Column]) -> Predicate:
    """Returns a predicate unchanged, and parses a condition.

    Args:
        where: SQL in DuckDB's dialect, an expression of narwhals, or a predicate.
        columns: The table's top-level columns.

    Raises:
        PredicateError: As for `parse`.
    """
    if isinstance(where, Predicate):
        return where
    return parse(where, columns)
