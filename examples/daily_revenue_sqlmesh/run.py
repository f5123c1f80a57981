"""Daily revenue: initial load into dev and prod, two late events in dev, a diff, and the promotion to prod."""

from __future__ import annotations

import logging
import shutil
import warnings
from pathlib import Path

from sqlmesh import Context

import lakeconf

HERE = Path(__file__).parent
MODEL = "analytics.daily_revenue"


def apply(environment: str) -> Context:
    """Does the same as `sqlmesh plan --auto-apply`, with the current files."""
    context = Context(paths=[str(HERE)])
    context.plan(environment, auto_apply=True, no_prompts=True)
    return context


def show(title: str, context: Context, schema: str) -> None:
    print(title)
    for row in context.engine_adapter.fetchall(f"SELECT * FROM {schema}.daily_revenue ORDER BY event_date"):
        print("  ", *row)


def main() -> None:
    # Otherwise SQLMesh logs its SQL and warnings from pandas.
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore", module="sqlmesh")
    shutil.rmtree(HERE / ".lakeconf", ignore_errors=True)
    (HERE / ".lakeconf").mkdir()
    events = HERE / "events" / "events.csv"
    first = events.read_text()
    try:
        apply("dev").close()
        context = apply("prod")
        show("prod after the first load:", context, "analytics")
        context.close()
        events.write_text(first + (HERE / "events" / "later.csv").read_text())
        context = apply("dev")
        show("dev after the later events:", context, "analytics__dev")
        (difference,) = context.table_diff(source="prod", target="dev", select_models={MODEL}, show=False)
        counts = difference.row_diff()
        print(f"{counts.t_only_count} rows in dev only, {counts.full_match_count} the same")
        context.close()
        context = apply("prod")
        show("prod after the promotion:", context, "analytics")
        context.close()
    finally:
        events.write_text(first)
    with lakeconf.init(HERE).get_store().open() as lake:
        print(f"{len(lake.snapshots())} snapshots, {len(lake.tables())} tables")


if __name__ == "__main__":
    main()
