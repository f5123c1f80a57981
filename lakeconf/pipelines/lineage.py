"""The columns from which a model in SQL computes each of its columns, found by sqlglot, which an extra installs."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.lineage import Node, lineage
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import build_scope

from lakeconf.errors import PipelineError, QueryError
from lakeconf.lake.spark_sql import parsed, quiet, table_references
from lakeconf.pipelines.graph import Lineage, SourceColumn
from lakeconf.pipelines.models.body import Query
from lakeconf.pipelines.models.kinds import Append, Seed
from lakeconf.pipelines.models.model import Model
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.secret import scrub
from lakeconf.sql import folded

# The columns of a table whose columns are unknown.
ALL = "*"
# sqlglot's optimizer raises these for SQL that it does not know.
_FAILURES = (
    sqlglot.errors.SqlglotError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


def column_lineage(pipeline: Pipeline) -> dict[str, Lineage | None]:
    """Returns the lineage of each model by table; None for a model whose columns are unknown.

    A source is a column whose value a column of the model contains or is computed from. Columns that only select or
    order rows are no sources.
    """
    found: dict[str, Lineage | None] = {}
    columns: dict[str, Sequence[str]] = {}
    for model in pipeline.ordered:
        kind = model.kind
        if model.body is None:
            found[model.table] = {}
            columns[model.table] = [*kind.columns] if isinstance(kind, Append | Seed) else []
            continue
        with contextlib.suppress(PipelineError, QueryError):
            found[model.table] = _of_query(pipeline, model, columns) if isinstance(model.body, Query) else None
        columns[model.table] = [*(found.get(model.table) or {})]
    return {model.table: found.get(model.table) for model in pipeline.ordered}


def _of_query(pipeline: Pipeline, model: Model, columns: Mapping[str, Sequence[str]]) -> Lineage | None:
    assert isinstance(model.body, Query)  # noqa: S101 - for the type checker
    tables = dict(pipeline.inputs(model))
    query = parsed(model.body.text, "duckdb")
    if any(map(_is_misread, query.walk())):
        return None
    spelled = {folded(one.name): one.name for one in reversed([*query.find_all(exp.Identifier)])}
    # sqlglot wants a schema in which all names have the same number of parts.
    selected = [*query.selects]
    places: dict[str, str] = {}
    schema: dict[str, object] = {}
    for table in table_references(query):
        name = tables.get(".".join(part.name for part in table.parts), table.name)
        place = f"lakeconf_{len(places)}"
        places[place] = name
        known = columns.get(name, ())
        spelled.update({folded(one): one for one in known})
        if known and ALL not in known:
            schema[place] = dict.fromkeys(known, "VARCHAR")
        _point_to(table, place)
    try:
        with quiet():
            nodes = _nodes(query, schema)
            found = {_label(name, selected, spelled): _sources(node, places, spelled) for name, node in nodes.items()}
            # The SQL of an expression may contain a password of the configuration.
            return {scrub(name, model.body.secrets): sources for name, sources in found.items()}
    except _FAILURES:
        return None


def _nodes(query: exp.Query, schema: dict[str, object]) -> dict[str, Node]:
    """The sources of each column of a query, as sqlglot finds them."""
    options: dict[str, Any] = {"validate_qualify_columns": False, "identify": False}
    if "infer_schema" in inspect.signature(qualify).parameters:  # later versions always do
        options["infer_schema"] = True
    scope: Any = build_scope(qualify(query.copy(), schema=schema, dialect="duckdb", **options))
    names = [] if scope is None else [one.alias_or_name for one in scope.expression.selects]
    columns = {name: exp.column(exp.to_identifier(name, quoted=True)) for name in names}
    # Earlier versions cannot find all columns at once.
    return {
        name: lineage(column, query, schema=schema, dialect="duckdb", scope=scope) for name, column in columns.items()
    }


def _point_to(table: exp.Table, view: str) -> None:
    """Makes a place name a view instead; its alias, its joins and its sample stay."""
    if not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
    table.set("this", exp.to_identifier(view, quoted=True))
    table.set("db", None)
    table.set("catalog", None)


def _is_misread(node: Any) -> bool:
    """True if sqlglot finds no or wrong columns for this part of a query."""
    if isinstance(node, exp.Star):
        column = node.parent if isinstance(node.parent, exp.Column) else node
        return isinstance(column.parent, exp.Binary)  # `* LIKE 'a%'`
    if isinstance(node, exp.TableAlias):
        return isinstance(node.parent, exp.Table | exp.CTE | exp.Subquery) and _names_other_columns(node, node.parent)
    by_name = isinstance(node, exp.SetOperation) and node.args.get("by_name")
    natural = isinstance(node, exp.Join) and node.method == "NATURAL"
    return bool(by_name or natural) or isinstance(node, exp.Columns | exp.Pivot | exp.PositionalColumn)


def _names_other_columns(alias: exp.TableAlias, named: Any) -> bool:
    """True if an alias renames columns of a table, or not each column of a query."""
    if isinstance(named, exp.Table):
        return bool(alias.columns) and isinstance(named.this, exp.Identifier)
    selected = named.this.selects if isinstance(named.this, exp.Query) else []
    is_whole = len(alias.columns) == len(selected) and not any(one.is_star for one in selected)
    return bool(alias.columns) and not is_whole


def _label(name: str, selected: Sequence[Any], spelled: Mapping[str, str]) -> str:
    """The name of a column; for an expression without a name its SQL."""
    unnamed = re.fullmatch(r"_col_(\d+)", name)
    if unnamed is None or folded(name) in spelled or any(one.is_star for one in selected):
        return spelled.get(folded(name), name)
    return str(selected[int(unnamed[1])].sql(dialect="duckdb"))


def _sources(node: Node, places: Mapping[str, str], spelled: Mapping[str, str]) -> list[SourceColumn] | None:
    found = set()
    for one in node.walk():
        table = one.expression
        if isinstance(table, exp.Table) and table.name in places:
            column = ALL if one.name.endswith(ALL) else sqlglot.parse_one(one.name).name
            found.add(SourceColumn(places[table.name], spelled.get(folded(column), column)))
        elif not one.downstream and (isinstance(table, exp.Table | exp.Placeholder) or table.find(exp.Column)):
            return None
    return sorted(found)
