"""Views of a lake that Spark reads by name: DuckDB computes their rows, because their SQL is DuckDB's."""

from __future__ import annotations

from collections.abc import Sequence

from lakeconf.catalog.column_types import columns_of
from lakeconf.catalog.pruning.predicates import Predicate, to_duckdb_sql
from lakeconf.catalog.queries.stored_queries import prepare_query, view_names
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.tables import NO_ID, Column, TableInfo, split_name
from lakeconf.engines.schema_check import as_list_type, check_distinct
from lakeconf.errors import QueryError, UnsafeQueryError
from lakeconf.sql import folded, identifier, qualified


def view_info(reader: CatalogReader, name: str, version: int) -> TableInfo | None:
    """A view at a snapshot, as a table with its columns; None if there is no such view. No row is computed."""
    names = [view for view in view_names(reader, version) if folded(view) == folded(name)]
    if not names:
        return None
    schema, view = split_name(names[0])
    try:
        relation = reader.connection.relation(
            _prepared(reader, f"FROM {qualified(reader.alias, schema, view)}", version)
        )
    except UnsafeQueryError:
        raise
    except QueryError as error:
        raise QueryError(
            f"DuckDB cannot compute the view {names[0]}: {error.message}",
            hint="replace it with lake.create_view(…), or drop it with lake.drop_view(…)",
        ) from error
    check_distinct(relation.columns, f"the view {names[0]}")
    types = {name: as_list_type(str(kind)) for name, kind in zip(relation.columns, relation.types, strict=True)}
    return TableInfo(NO_ID, schema, view, columns_of(types), "")


def view_rows(
    reader: CatalogReader, view: TableInfo, version: int, columns: Sequence[str], predicate: Predicate | None
) -> tuple[Sequence[Column], str]:
    """Columns of a view, and the query for their rows at a snapshot that satisfy a predicate."""
    returned = tuple(column for name in columns for column in view.columns if column.name == name)
    # A text keeps its collation in a view: comparisons of Spark have none.
    values = (
        f"{identifier(column.name)}{' COLLATE C' if column.type == 'varchar' else ''} AS {identifier(column.name)}"
        for column in view.columns
    )
    source = f"SELECT {', '.join(values)} FROM {qualified(reader.alias, view.schema_name, view.name)}"
    where = "" if predicate is None else f" WHERE {to_duckdb_sql(predicate)}"
    if not returned:  # Spark counts the rows
        return columns_of({"row": "INTEGER"}), _prepared(reader, f"SELECT 1 AS row FROM ({source}){where}", version)
    selected = ", ".join(identifier(column.name) for column in returned)
    return returned, _prepared(reader, f"SELECT {selected} FROM ({source}){where}", version)


def _prepared(reader: CatalogReader, query: str, version: int) -> str:
    """A query at a snapshot, with the checks that `Lake.sql` has for views: whoever wrote them is not trusted."""
    return prepare_query(reader, query, at=version)
