"""Writes a report of a lake as one HTML page without scripts."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from importlib import resources
from typing import Any

from lakeconf.backends.store_options import MaintenanceLimits
from lakeconf.errors import LakeconfError, required
from lakeconf.inspection.catalog_files import TableSize, data_path_files, table_sizes
from lakeconf.lake.lake import Lake
from lakeconf.lake.maintenance_plan import maintain
from lakeconf.logs import escaped
from lakeconf.store import Store
from lakeconf.wording import byte_size

_SNAPSHOTS, _PATHS, _COLUMNS = 20, 20, 100


def report(lake: Lake, store: Store) -> str:
    """Generates a report of a lake: what to do, tables, files, deleted rows, and planned maintenance."""
    with required("jinja2", extra="report", needed_for="a report"):
        from jinja2 import Environment, StrictUndefined
    tables, snapshots = table_sizes(lake, own=True), lake.snapshots()
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters |= {"shown": lambda text: escaped(str(text)), "bytes": byte_size}
    page = resources.files("lakeconf.inspection").joinpath("report.html").read_text("utf-8")
    return environment.from_string(page).render(
        title=f"The lake of {store.name}",
        command=f"lakeconf maintain --store {shlex.quote(store.name)}",
        doctor=f"lakeconf doctor --store {shlex.quote(store.name)}",
        tiles=_tiles(tables, len(snapshots)),
        findings=_findings(lake, MaintenanceLimits.of(store.maintenance)),
        unknown=_unknown(lake),
        shown_paths=_PATHS,
        tables=tables,
        details=[_details(lake, table) for table in tables],
        numbers={table.table: number for number, table in enumerate(tables)},
        snapshots=list(reversed(snapshots[-_SNAPSHOTS:])),
    )


def _tiles(tables: Sequence[TableSize], snapshots: int) -> dict[str, str]:
    return {
        "tables": f"{len(tables):,}",
        "rows": f"{sum(table.rows for table in tables):,}",
        "data files": f"{sum(len(table.files) for table in tables):,}",
        "size": byte_size(sum(table.bytes for table in tables)),
        "snapshots": f"{snapshots:,}",
    }


def _findings(lake: Lake, limits: MaintenanceLimits) -> dict[str, Any]:
    """What the maintenance of a lake would do, or why that is unknown."""
    try:
        plan = maintain(
            lake, expire_older_than=limits.keep_snapshots, cleanup_older_than=limits.keep_files, dry_run=True
        )
    except LakeconfError as error:  # the rest of the report is still useful
        return {"plan": str(error), "tables": (), "refused": True}
    return {"plan": str(plan), "tables": plan.compaction, "refused": False}


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
        "comment": lake.table(size.table).comment or "",
    }
