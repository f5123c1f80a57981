"""Generates a self-contained HTML report of a lake."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from lakeconf.byte_size import byte_size
from lakeconf.catalog.history import LakeSize
from lakeconf.errors import LakeconfError, required
from lakeconf.inspection.advice import TableAdvice, advice, daily_growth, planned_maintenance
from lakeconf.inspection.data_path_files import data_path_files
from lakeconf.inspection.partition_sizes import skewed_tables
from lakeconf.inspection.report_figures import (
    daily_figure,
    embedded,
    file_sizes_figure,
    growth_figure,
    tables_figure,
)
from lakeconf.inspection.sizes import TableSize, table_sizes
from lakeconf.lake.lake import Lake
from lakeconf.logs import escaped

_SNAPSHOTS, _DAYS, _PATHS, _COLUMNS = 20, 14, 20, 100


@dataclass(frozen=True)
class _Findings:
    """What the maintenance of a lake would do; `refused` says why that is unknown."""

    plan: str
    tables: tuple[TableAdvice, ...] = ()
    refused: bool = False


def report(lake: Lake, title: str, store: str = "STORE") -> str:
    """Generates a report of a lake: what to do, growth, tables, files, deleted rows, and planned maintenance.

    Args:
        lake: The lake, at its latest snapshot.
        title: The title of the page.
        store: The name of the store, for commands to paste.

    Returns:
        A self-contained HTML page. It contains names of tables, columns and files and authors of commits, but no
        secrets or row values, except the keys of partitions.

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
