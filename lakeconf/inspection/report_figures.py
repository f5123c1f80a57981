"""Draws the figures of a lake's report as HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

from lakeconf.byte_size import byte_size
from lakeconf.catalog.history import LakeSize
from lakeconf.inspection.advice import Day
from lakeconf.inspection.sizes import TableSize
from lakeconf.logs import escaped

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
    """Returns a figure as HTML.

    Args:
        name: The id of its element.
        figure: The figure; its names are escaped.
        nonce: Permits its script.
    """
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
