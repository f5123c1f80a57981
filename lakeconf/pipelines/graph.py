"""The columns from which a model in SQL computes each of its columns."""

from __future__ import annotations

import contextlib
import html
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.lineage import Node, lineage

from lakeconf.catalog.query_text import is_series, point_to, table_references
from lakeconf.errors import PipelineError
from lakeconf.logs import escaped
from lakeconf.pipelines.body import Query
from lakeconf.pipelines.kinds import Append, Seed
from lakeconf.pipelines.model import Model
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


@dataclass(frozen=True, order=True)
class SourceColumn:
    """A column of an input; `*` stands for all columns of an input whose columns are unknown."""

    table: str
    column: str

    def __str__(self) -> str:
        return f"{self.table}.{self.column}"


# The sources of each column; None if they are unknown.
Lineage = Mapping[str, Sequence[SourceColumn] | None]


def column_lineage(pipeline: Pipeline) -> dict[str, Lineage | None]:
    """Returns the lineage of each model by table; None for a model whose columns are unknown.

    A source is a column whose value a column of the model contains or is computed from. Columns that only select or
    order rows are no sources.

    Args:
        pipeline: The models.
    """
    found: dict[str, Lineage | None] = {}
    columns: dict[str, Sequence[str]] = {}
    for model in pipeline.ordered:
        kind = model.kind
        if model.body is None:
            found[model.table] = {}
            columns[model.table] = [*kind.columns] if isinstance(kind, Append | Seed) else []
            continue
        with contextlib.suppress(PipelineError):
            found[model.table] = _of_query(pipeline, model, columns) if isinstance(model.body, Query) else None
        columns[model.table] = [*(found.get(model.table) or {})]
    return {model.table: found.get(model.table) for model in pipeline.ordered}


def _of_query(pipeline: Pipeline, model: Model, columns: Mapping[str, Sequence[str]]) -> Lineage | None:
    assert isinstance(model.body, Query)  # noqa: S101 - for the type checker
    tables = dict(pipeline.inputs(model))
    query = model.body.parsed()
    if any(map(_is_misread, query.walk())):
        return None
    spelled = {folded(one.name): one.name for one in reversed([*query.find_all(exp.Identifier)])}
    # sqlglot wants a schema in which all names have the same number of parts.
    selected = [*query.selects]
    places: dict[str, str] = {}
    schema: dict[str, dict[str, str]] = {}
    for table in table_references(query):
        if is_series(table):
            continue
        name = tables.get(".".join(part.name for part in table.parts), table.name)
        place = f"lakeconf_{len(places)}"
        places[place] = name
        known = columns.get(name, ())
        spelled.update({folded(one): one for one in known})
        if known and ALL not in known:
            schema[place] = dict.fromkeys(known, "VARCHAR")
        point_to(table, place)
    try:
        with _quiet():
            nodes = lineage(None, query, schema=schema, dialect="duckdb", infer_schema=True)
            found = {_label(name, selected, spelled): _sources(node, places, spelled) for name, node in nodes.items()}
            # The SQL of an expression may contain a password of the configuration.
            return {scrub(name, model.body.secrets): sources for name, sources in found.items()}
    except _FAILURES:
        return None


def _is_misread(node: exp.Expr) -> bool:
    """True if sqlglot finds no or wrong columns for this part of a query."""
    if isinstance(node, exp.Star):
        column = node.parent if isinstance(node.parent, exp.Column) else node
        return isinstance(column.parent, exp.Binary)  # `* LIKE 'a%'`
    if isinstance(node, exp.TableAlias):
        return isinstance(node.parent, exp.Table | exp.CTE | exp.Subquery) and _names_other_columns(node, node.parent)
    by_name = isinstance(node, exp.SetOperation) and node.args.get("by_name")
    natural = isinstance(node, exp.Join) and node.method == "NATURAL"
    return bool(by_name or natural) or isinstance(node, exp.Columns | exp.Pivot | exp.PositionalColumn)


def _names_other_columns(alias: exp.TableAlias, named: exp.Expr) -> bool:
    """True if an alias renames columns of a table, or not each column of a query."""
    if isinstance(named, exp.Table):
        return bool(alias.columns) and isinstance(named.this, exp.Identifier)
    selected = named.this.selects if isinstance(named.this, exp.Query) else []
    is_whole = len(alias.columns) == len(selected) and not any(one.is_star for one in selected)
    return bool(alias.columns) and not is_whole


def _label(name: str, selected: Sequence[exp.Expr], spelled: Mapping[str, str]) -> str:
    """The name of a column; for an expression without a name its SQL."""
    unnamed = re.fullmatch(r"_col_(\d+)", name)
    if unnamed is None or folded(name) in spelled or any(one.is_star for one in selected):
        return spelled.get(folded(name), name)
    return selected[int(unnamed[1])].sql(dialect="duckdb")


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


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hides sqlglot's warnings: what it cannot find is unknown."""
    logger = logging.getLogger("sqlglot")

    def nothing(_: logging.LogRecord) -> bool:
        return False

    logger.addFilter(nothing)
    try:
        yield
    finally:
        logger.removeFilter(nothing)


_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 220, 44, 90, 22, 20


_LONGEST = 28


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Models</title>
<style>
:root {{ color-scheme: light dark; --line: #8c95a1; --box: #f3f5f7; --text: #1b1f24; }}
@media (prefers-color-scheme: dark) {{ :root {{ --box: #262c34; --text: #e6e9ee; }} }}
body {{ margin: 1rem; font: 14px system-ui, sans-serif; overflow-x: auto; }}
rect {{ fill: var(--box); stroke: var(--line); }}
.source rect {{ stroke-dasharray: 4 3; }}
text {{ fill: var(--text); }}
.kind {{ font-size: 11px; opacity: .75; }}
path {{ fill: none; stroke: var(--line); }}
table {{ border-collapse: collapse; margin: 1rem 0; }}
caption {{ text-align: left; font-weight: bold; }}
td {{ border-top: 1px solid var(--line); padding: .2rem 1rem .2rem 0; vertical-align: top; }}
</style>
</head>
<body>
<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="Models and inputs">
{shapes}
</svg>
{columns}</body>
</html>"""


def graph_page(pipeline: Pipeline, models: Sequence[Model], columns: Mapping[str, Lineage | None] | None = None) -> str:
    """The page: each column contains models whose inputs are in the columns to the left.

    Args:
        models: The models to draw; tables that they read are drawn too.
        columns: The lineage of the columns of each model, which the page lists; None to leave it out.
    """
    inputs = {model.table: list(dict.fromkeys(pipeline.inputs(model).values())) for model in models}
    places = _places(inputs)
    kinds = {model.table: model.kind.name for model in models}
    shapes = [_edge(places[source], places[table]) for table, read in inputs.items() for source in read]
    shapes += [_box(table, kinds.get(table), place) for table, place in places.items()]
    width = max((x for x, _ in places.values()), default=0) + _WIDTH + _MARGIN
    height = max((y for _, y in places.values()), default=0) + _HEIGHT + _MARGIN
    listed = "" if columns is None else "".join(_columns(model.table, columns[model.table]) for model in models)
    return _PAGE.format(width=width, height=height, shapes="\n".join(shapes), columns=listed)


def sources_text(sources: Sequence[SourceColumn] | None) -> str:
    """The sources of a column in words."""
    if sources is None:
        return "unknown"
    return ", ".join(map(str, sources)) or "no column"


def _columns(table: str, lineage: Lineage | None) -> str:
    rows = [("unknown", "")] if lineage is None else [(name, sources_text(found)) for name, found in lineage.items()]
    cells = "\n".join(f"<tr><td>{_text(name)}</td><td>{_text(sources)}</td></tr>" for name, sources in rows)
    return f"<table>\n<caption>{_text(table)}</caption>\n{cells}\n</table>\n"


def _text(text: str) -> str:
    return html.escape(escaped(text))


def _places(inputs: Mapping[str, Sequence[str]]) -> dict[str, tuple[int, int]]:
    """The upper left corner of each table; models come after the models that they read."""
    depth = {table: 0 for read in inputs.values() for table in read if table not in inputs}
    for table, read in inputs.items():
        depth[table] = 1 + max((depth[source] for source in read), default=-1)
    filled: dict[int, int] = {}
    places = {}
    for table in sorted(depth):
        row = filled.get(depth[table], 0)
        filled[depth[table]] = row + 1
        places[table] = (_MARGIN + depth[table] * (_WIDTH + _GAP_X), _MARGIN + row * (_HEIGHT + _GAP_Y))
    return places


def _edge(source: tuple[int, int], target: tuple[int, int]) -> str:
    x1, y1 = source[0] + _WIDTH, source[1] + _HEIGHT // 2
    x2, y2 = target[0], target[1] + _HEIGHT // 2
    middle = (x1 + x2) // 2
    return f'<path d="M {x1} {y1} C {middle} {y1}, {middle} {y2}, {x2} {y2}"/>'


def _box(table: str, kind: str | None, place: tuple[int, int]) -> str:
    x, y = place
    full = html.escape(escaped(table))
    shown = escaped(table) if len(escaped(table)) <= _LONGEST else f"{escaped(table)[: _LONGEST - 1]}…"
    return (
        f'<g class="{"source" if kind is None else "model"}"><title>{full}</title>'
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>'
        f'<text x="{x + 10}" y="{y + 19}">{html.escape(shown)}</text>'
        f'<text class="kind" x="{x + 10}" y="{y + 35}">{html.escape(kind or "not a model")}</text></g>'
    )
