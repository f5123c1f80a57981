"""Generates a self-contained HTML report of a lake."""

from __future__ import annotations

import html
import re
import secrets
from collections.abc import Sequence
from datetime import timedelta
from importlib import resources
from typing import Any

from lakeconf.byte_size import byte_size
from lakeconf.catalog.history import LakeSize
from lakeconf.errors import LakeconfError, required
from lakeconf.inspection.sizes import TableSize, table_sizes
from lakeconf.lake.lake import Lake
from lakeconf.lake.maintenance_plan import maintain

# Readable on light and dark backgrounds.
_BLUE, _ORANGE = "#3d7dd8", "#e08a2e"
_SHOWN = 20


def report(lake: Lake, title: str) -> str:
    """Generates a report of a lake: growth, tables, files, deleted rows, and planned maintenance.

    Args:
        lake: The lake, at its latest snapshot.
        title: The title of the page.

    Returns:
        A self-contained HTML page. It contains names of tables and authors of commits, but no secrets or row values.

    Raises:
        MissingDependencyError: plotly is not installed.
    """
    with required("plotly", extra="report", needed_for="a report"):
        from plotly.offline import get_plotlyjs
    with required("jinja2", extra="report", needed_for="a report"):
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup
    # The content security policy only runs scripts with this nonce and blocks requests: names may contain HTML.
    nonce = secrets.token_urlsafe(24)
    tables, growth = table_sizes(lake), lake.maintenance.growth()
    figures = {"growth": _growth(growth), "tables": _bars(tables), "files": _file_sizes(tables)}
    page = resources.files("lakeconf.inspection").joinpath("report.html").read_text("utf-8")
    # The template escapes every value except the scripts of plotly.
    return (
        Environment(autoescape=True, undefined=StrictUndefined)
        .from_string(page)
        .render(
            title=title,
            plotly=Markup(get_plotlyjs()),  # noqa: S704 - the script of plotly
            nonce=nonce,
            tiles=_tiles(tables, growth),
            maintenance=_maintenance(lake),
            tables=[
                (one.table, one.rows, len(one.files), byte_size(one.bytes), one.deleted_rows, one.inlined_rows)
                for one in tables
            ],
            snapshots=[
                (one.snapshot_id, f"{one.time:%Y-%m-%d %H:%M:%S}", one.changes, one.author or "", one.message or "")
                for one in reversed(lake.snapshots()[-_SHOWN:])
            ],
            figures={name: Markup(_embedded(name, one, nonce)) for name, one in figures.items()},  # noqa: S704 - plotly escapes
        )
    )


def _growth(growth: Sequence[LakeSize]) -> Any:
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


def _bars(tables: Sequence[TableSize]) -> Any:
    import plotly.graph_objects as go

    largest = sorted(tables, key=lambda one: one.bytes)[-_SHOWN:]
    names = [html.escape(one.table) for one in largest]
    texts = [f"{one.rows:,} rows, {one.deleted_rows:,} deleted, {one.inlined_rows:,} in the catalog" for one in largest]
    figure = go.Figure()
    figure.add_bar(y=names, x=[one.bytes for one in largest], hovertext=texts, orientation="h", marker_color=_BLUE)
    figure.update_layout(xaxis_title="bytes", height=140 + 26 * len(largest))
    return figure


def _file_sizes(tables: Sequence[TableSize]) -> Any:
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


def _whole_step(counts: Sequence[int]) -> int:
    """Returns an integer step between the ticks of an axis."""
    return max(1, -(-max(counts, default=1) // 5))


def _embedded(name: str, figure: Any, nonce: str) -> str:
    figure.update_layout(
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 60, "r": 20, "t": 20, "b": 50},
    )
    figure.update_yaxes(automargin=True, rangemode="tozero")
    config = {"displayModeBar": False, "responsive": True}
    text = str(figure.to_html(full_html=False, include_plotlyjs=False, div_id=name, config=config))
    # Plotly escapes names; the only script element is its own, once in each figure.
    return re.sub(r"<script\b", f'<script nonce="{nonce}"', text, count=1)


def _tiles(tables: Sequence[TableSize], growth: Sequence[LakeSize]) -> dict[str, str]:
    return {
        "tables": f"{len(tables):,}",
        "rows": f"{sum(one.rows for one in tables):,}",
        "data files": f"{sum(len(one.files) for one in tables):,}",
        "size": byte_size(sum(one.bytes for one in tables)),
        "snapshots": f"{len(growth):,}",
    }


def _maintenance(lake: Lake) -> str:
    try:
        planned = maintain(
            lake, expire_older_than=timedelta(days=30), cleanup_older_than=timedelta(days=2), dry_run=True
        )
    except LakeconfError as error:
        return str(error)  # the rest of the report is still useful
    return str(planned)
