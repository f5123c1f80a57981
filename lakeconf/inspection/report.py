"""Draws the figures of a lake's report as HTML."""

from __future__ import annotations

import html
import re
import secrets
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from lakeconf.catalog.history import LakeSize
from lakeconf.errors import LakeconfError, required
from lakeconf.inspection.catalog_files import TableSize, data_path_files, skewed_tables, table_sizes
from lakeconf.inspection.doctor_lake import Day, TableAdvice, advice, daily_growth, planned_maintenance
from lakeconf.lake.lake import Lake
from lakeconf.logs import escaped
from lakeconf.wording import byte_size

# Readable on light and dark backgrounds.
_BLUE, _ORANGE = "#3d7dd8", "#e08a2e"


_SHOWN = 20


_LONGEST_LABEL = 28


def growth_figure(growth: Sequence[LakeSize]) -> Any:
    """Draws the bytes and files at each snapshot."""
    from plotly.subplots import make_subplots

    times, versions = [one.time for one in growth], [f"snapshot {one.snapshot_id}" for one in growth]
    counts = [one.files + one.delete_files for one in growth]
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.08)
    drawn = (("bytes", [one.bytes for one in growth], _BLUE), ("files", counts, _ORANGE))
    for row, (name, values, colour) in enumerate(drawn, 1):
        line = {"shape": "hv", "width": 2, "color": colour}
        figure.add_scatter(
            x=times, y=values, text=versions, name=name, fill="tozeroy", line=line, mode="lines+markers", row=row, col=1
        )
        figure.update_yaxes(title=name, row=row, col=1)
    figure.update_yaxes(dtick=_whole_step(counts), row=2, col=1)
    figure.update_layout(height=420, showlegend=False)
    return figure


def daily_figure(days: Sequence[Day]) -> Any:
    """Draws the bytes that each day added."""
    import plotly.graph_objects as go

    known = [one for one in days if one.added_bytes is not None]
    colours = [_BLUE if (one.added_bytes or 0) >= 0 else _ORANGE for one in known]
    texts = [f"{one.snapshots:,} snapshots, {one.added_files:+,} files" for one in known]
    figure = go.Figure()
    figure.add_bar(
        x=[f"{one.day}" for one in known], y=[one.added_bytes for one in known], hovertext=texts, marker_color=colours
    )
    figure.update_layout(yaxis_title="bytes added", height=260)
    figure.update_xaxes(type="category", nticks=8)
    return figure


def tables_figure(tables: Sequence[TableSize]) -> Any:
    """Draws the sizes of the largest tables."""
    import plotly.graph_objects as go

    largest = sorted(tables, key=lambda one: one.bytes)[-_SHOWN:]
    names = [html.escape(_short(escaped(one.table)), quote=False) for one in largest]
    texts = [f"{one.rows:,} rows, {one.deleted_rows:,} deleted, {one.inlined_rows:,} in the catalog" for one in largest]
    figure = go.Figure()
    # Two names can be the same after they are shortened: the bars have numbers, and the names are their labels.
    figure.add_bar(
        y=list(range(len(largest))),
        x=[one.bytes for one in largest],
        hovertext=texts,
        orientation="h",
        marker_color=_BLUE,
    )
    figure.update_yaxes(tickmode="array", tickvals=list(range(len(largest))), ticktext=names)
    figure.update_layout(xaxis_title="bytes", height=140 + 26 * len(largest))
    figure.update_xaxes(nticks=5)
    return figure


def file_sizes_figure(tables: Sequence[TableSize]) -> Any:
    """Draws the number of files by size."""
    import plotly.graph_objects as go

    limits = [2**power for power in range(10, 34, 2)]
    sizes = [file.bytes for one in tables for file in one.files]
    counts = [
        sum(low <= size < high for size in sizes) for low, high in zip([0, *limits], [*limits, 2**63], strict=True)
    ]
    labels = [*(f"below {byte_size(limit)}" for limit in limits), f"{byte_size(limits[-1])} and more"]
    shown = [index for index, count in enumerate(counts) if count]
    wanted = range(min(shown, default=0), max(shown, default=0) + 1)
    figure = go.Figure()
    figure.add_bar(x=[labels[index] for index in wanted], y=[counts[index] for index in wanted], marker_color=_ORANGE)
    figure.update_layout(yaxis_title="files", yaxis_dtick=_whole_step(counts), height=320)
    return figure


def embedded(name: str, figure: Any, nonce: str) -> str:
    """Returns a figure as HTML."""
    figure.update_layout(
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 50, "r": 10, "t": 20, "b": 50},
        font={"family": "system-ui, sans-serif", "size": 12},
        bargap=0.25,
    )
    figure.update_yaxes(automargin=True, rangemode="tozero")
    config = {"displayModeBar": False, "responsive": True}
    text = str(figure.to_html(full_html=False, include_plotlyjs=False, div_id=name, config=config))
    # Plotly escapes names; the only script element is its own, once in each figure.
    return re.sub(r"<script\b", f'<script nonce="{nonce}"', text, count=1)


def _whole_step(counts: Sequence[int]) -> int:
    """Returns an integer step between the ticks of an axis."""
    return max(1, -(-max(counts, default=1) // 5))


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 1]}…"


_SNAPSHOTS, _DAYS, _PATHS, _COLUMNS = 20, 14, 20, 100


@dataclass(frozen=True)
class _Findings:
    """What the maintenance of a lake would do; `refused` says why that is unknown."""

    plan: str
    tables: tuple[TableAdvice, ...] = ()
    refused: bool = False


def report(lake: Lake, title: str, store: str = "STORE") -> str:
    """Generates a report of a lake: what to do, growth, tables, files, deleted rows, and planned maintenance."""
    with required("plotly", extra="report", needed_for="a report"):
        from plotly.offline import get_plotlyjs
    with required("jinja2", extra="report", needed_for="a report"):
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup
    # The content security policy only runs scripts with this nonce and blocks requests: names may contain HTML.
    nonce = secrets.token_urlsafe(24)
    tables, growth = table_sizes(lake), lake.maintenance.growth()
    days = daily_growth(growth)
    figures = {
        "growth": growth_figure(growth),
        "days": daily_figure(days),
        "tables": tables_figure(tables),
        "files": file_sizes_figure(tables),
    }
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters |= {"shown": lambda text: escaped(str(text)), "bytes": byte_size, "change": _change}
    page = resources.files("lakeconf.inspection").joinpath("report.html").read_text("utf-8")
    # The template escapes every value except the scripts of plotly.
    return environment.from_string(
        page
    ).render(
        title=title,
        plotly=Markup(get_plotlyjs()),  # noqa: S704 - the script of plotly
        nonce=nonce,
        command=f"lakeconf maintain {shlex.quote(store)}",
        doctor=f"lakeconf doctor {shlex.quote(store)}",
        tiles=_tiles(tables, growth),
        findings=_findings(lake),
        skewed=skewed_tables(lake),
        unknown=_unknown(lake),
        shown_paths=_PATHS,
        days=days[-_DAYS:],
        tables=tables,
        details=[_details(lake, one) for one in tables],
        numbers={one.table: number for number, one in enumerate(tables)},
        snapshots=list(reversed(lake.snapshots()[-_SNAPSHOTS:])),
        figures={name: Markup(embedded(f"figure-{name}", one, nonce)) for name, one in figures.items()},  # noqa: S704 - plotly escapes
    )


def _tiles(tables: Sequence[TableSize], growth: Sequence[LakeSize]) -> dict[str, str]:
    return {
        "tables": f"{len(tables):,}",
        "rows": f"{sum(one.rows for one in tables):,}",
        "data files": f"{sum(len(one.files) for one in tables):,}",
        "size": byte_size(sum(one.bytes for one in tables)),
        "snapshots": f"{len(growth):,}",
    }


def _findings(lake: Lake) -> _Findings:
    try:
        plan = planned_maintenance(lake)
        return _Findings(str(plan), tuple(advice(lake, plan.compaction)))
    except LakeconfError as error:
        return _Findings(str(error), refused=True)  # the rest of the report is still useful


def _unknown(lake: Lake) -> tuple[str, ...] | str:
    """The files that the catalog does not know, or the reason why they cannot be listed."""
    try:
        return data_path_files(lake._session.reader).unknown  # noqa: SLF001 - the lake does not list its data path
    except LakeconfError as error:
        return str(error)


def _details(lake: Lake, size: TableSize) -> dict[str, Any]:
    columns = lake.table(size.table).schema
    return {
        "columns": list(columns.items())[:_COLUMNS],
        "more": max(0, len(columns) - _COLUMNS),
        "average": byte_size(size.bytes / len(size.files)) if size.files else None,
        "comment": lake.table(size.table).comment or "",
    }


def _change(count: int) -> str:
    """A difference of sizes, with its sign."""
    return f"{'-' if count < 0 else '+'}{byte_size(abs(count))}"
