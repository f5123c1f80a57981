"""Answers `SELECT count(*) FROM t` from the catalog, so that Spark runs no job over the files."""

from __future__ import annotations

from sqlglot import exp

from lakeconf.catalog.row_count import row_count
from lakeconf.catalog.table_name import full_name
from lakeconf.errors import UnsupportedError
from lakeconf.lake.query_names import NamedTable
from lakeconf.sql import identifier

# The name that DuckDB gives the column `count(*)`.
_UNNAMED = "count_star()"
# The parts of a table that only name it.
_NAMES = {"this", "db", "catalog", "alias"}


def counted(tree: exp.Query, table: NamedTable) -> str | None:
    """A query with the result of one that only counts the rows of a table.

    Args:
        tree: The query.
        table: The only table that it names.

    Returns:
        The query of a constant; None if the query does more, or the catalog does not know the number of rows.

    Raises:
        TableNotFoundError: The table does not exist at the snapshot.
    """
    column = _counts(tree, table.tree)
    if column is None:
        return None
    try:
        found = row_count(table.scope.session.reader, table.name, table.scope.snapshot_id)
    except UnsupportedError:  # a view: the scan of the query refuses it
        return None
    if found is None:
        return None
    table.scope.add_read(full_name(table.name))
    return f"SELECT CAST({found} AS BIGINT) AS {identifier(column)}"


def _counts(tree: exp.Query, table: exp.Table) -> str | None:
    """The name of the only column, if a query is `SELECT count(*) FROM t`, without a condition or another part."""
    selected = tree.expressions
    parts = {name for name, part in tree.args.items() if part}
    if not isinstance(tree, exp.Select) or len(selected) != 1 or parts != {"expressions", "from_"}:
        return None
    # A sample, a pivot or a join is another part of the table.
    if tree.args["from_"].this is not table or {name for name, part in table.args.items() if part} - _NAMES:
        return None
    value = selected[0].this if isinstance(selected[0], exp.Alias) else selected[0]
    star = value.this if isinstance(value, exp.Count) else None
    if not isinstance(star, exp.Star) or any(star.args.values()) or value.expressions:
        return None
    return selected[0].alias or _UNNAMED
