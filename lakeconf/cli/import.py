"""`lakeconf import`."""

from __future__ import annotations

from pathlib import Path

import click

from lakeconf.cli.output import show, show_lines
from lakeconf.metaxy import from_metaxy


@click.command("import", short_help="Make a lakeconf.toml of a metaxy.toml.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write; shown unless given.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def command(path: Path, output: Path | None, *, force: bool) -> None:
    """Make a lakeconf.toml of the DuckLake stores of a metaxy.toml, PATH.

    No secret is copied: a variable stands for it. What is left out or has to be done is said on stderr.
    """
    if output is not None and output.exists() and not force:
        raise click.UsageError(f"{output} is there already; --force replaces it")
    imported = from_metaxy(path)
    if output is None:
        show_lines(imported.text.rstrip("\n"))
    else:
        try:
            output.write_text(imported.text)
        except OSError as error:
            raise click.UsageError(f"{output} cannot be written: {error.strerror}") from error
    for note in imported.notes:
        show(f"note: {note}", to_stderr=True)
