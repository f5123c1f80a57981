"""`lakeconf report`."""

from __future__ import annotations

from pathlib import Path

import click

from lakeconf.cli.options import config_option
from lakeconf.cli.output import show
from lakeconf.config.model import init
from lakeconf.report import report


@click.command("report", short_help="Draw a page about a lake.")
@click.argument("store", required=False)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default="lake.html", show_default=True, help="The file to write."
)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@config_option
def command(store: str | None, output: Path, source: str | None, *, force: bool) -> None:
    """Draw a page about the lake of STORE: one HTML file, to be opened in a browser, that loads nothing.

    It shows how the lake has grown, its tables and files, what is deleted, and what `lakeconf maintain` would do.
    """
    if output.exists() and not force:
        raise click.UsageError(f"{output} exists already; --force replaces it")
    found = init(source).get_store(store)
    with found.for_reading(read_only=False).open() as lake:
        page = report(lake, f"The lake of {found.name}")
    try:
        output.write_text(page, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{output} cannot be written: {error.strerror}") from error
    show(f"wrote {output}")
