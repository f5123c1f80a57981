"""`lakeconf import`."""

from __future__ import annotations

from pathlib import Path

import click

from lakeconf.cli.options import format_option, overwrite_option
from lakeconf.cli.output import show, show_json, show_lines
from lakeconf.cli.output_file import check_new, write_output
from lakeconf.integrations.metaxy import from_metaxy


@click.command("import", short_help="Convert a metaxy.toml to lakeconf.toml.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Output file; by default the result is printed.")
@overwrite_option
@format_option
def command(path: Path, output: Path | None, format_name: str, *, force: bool) -> None:
    """Convert the DuckLake stores of a metaxy.toml at PATH to lakeconf.toml.

    Secrets are not copied; variables replace them. Omitted settings and remaining steps are printed to stderr, or are
    the `notes` of the JSON output.
    """
    check_new(output, force=force)
    imported = from_metaxy(path)
    if output is not None:
        write_output(output, imported.text)
    if format_name == "json":
        show_json({"path": output and str(output), "text": imported.text, "notes": list(imported.notes)})
        return
    if output is None:
        show_lines(imported.text.rstrip("\n"))
    for note in imported.notes:
        show(f"note: {note}", to_stderr=True)
