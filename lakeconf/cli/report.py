"""`lakeconf report`."""

from __future__ import annotations

from pathlib import Path

import click

from lakeconf.cli.options import config_option, format_option, overwrite_option, store_option
from lakeconf.cli.output import show, show_json
from lakeconf.cli.output_file import check_new, write_output
from lakeconf.config.model import init
from lakeconf.inspection.report import report


@click.command("report", short_help="Write an HTML report of a lake.")
@store_option
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default="lake.html", show_default=True, help="Output file."
)
@overwrite_option
@format_option
@config_option
def command(store: str | None, output: Path, source: str | None, format_name: str, *, force: bool) -> None:
    """Write one self-contained HTML file about the lake of STORE.

    It shows what to do (tables to compact, skewed partitions, unknown files), growth, tables, files and snapshots.
    """
    check_new(output, force=force)
    found = init(source).get_store(store)
    with found.for_reading(read_only=False).open() as lake:
        page = report(lake, f"The lake of {found.name}", found.name)
    write_output(output, page)
    if format_name == "json":
        show_json({"path": str(output), "store": found.name, "bytes": output.stat().st_size})
    else:
        show(f"wrote {output}")
