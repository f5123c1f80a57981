"""A graph of models as a page, and the columns from which each of their columns is computed."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakeconf.logs import escaped
from lakeconf.pipelines.model import Model
from lakeconf.pipelines.pipeline import Pipeline


@dataclass(frozen=True, order=True)
class SourceColumn:
    """A column of an input; `*` stands for all columns of an input whose columns are unknown."""

    table: str
    column: str

    def __str__(self) -> str:
        return f"{self.table}.{self.column}"


# The sources of each column; None if they are unknown.
Lineage = Mapping[str, Sequence[SourceColumn] | None]


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
    """The page: each column contains models whose inputs are in the columns to the left."""
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
