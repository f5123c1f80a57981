"""`lakeconf export`."""

from __future__ import annotations

from pathlib import Path

import click

from lakeconf.cli.completion import complete_stores
from lakeconf.cli.options import config_option, format_option, overwrite_option
from lakeconf.cli.output import show, show_json, show_lines
from lakeconf.cli.output_file import check_new, write_output
from lakeconf.config.model import init
from lakeconf.integrations.exports import TOOLS, export


@click.command("export", short_help="Write the configuration of another tool.")
@click.argument("tool", type=click.Choice(list(TOOLS)))
@click.argument("stores", nargs=-1, metavar="[STORE]...", shell_complete=complete_stores)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Output file or folder.")
@overwrite_option
@format_option
@config_option
def command(
    tool: str, stores: tuple[str, ...], output: Path | None, source: str | None, format_name: str, *, force: bool
) -> None:
    """Write the configuration that another TOOL needs to use each STORE, by default `default_store`.

    The file contains names of stores and variables, and no secret values. What the tool does not support is listed at
    the top of the file, and on stderr or in the `notes` of the JSON output.
    """
    made = export(init(source), tool, *stores)
    path = None
    if output is not None:
        path = output / made.file_name if output.is_dir() else output
        check_new(path, force=force)
        write_output(path, made.text)
    if format_name == "json":
        show_json({"tool": tool, "path": path and str(path), "text": made.text, "notes": list(made.notes)})
        return
    if path is None:
        show_lines(made.text.rstrip("\n"))
    for note in made.notes:
        show(f"note: {note}", to_stderr=True)
