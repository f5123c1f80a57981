"""`lakeconf import`."""

from __future__ import annotations

from pathlib import Path

import click

from lakeconf.cli.output import show, show_lines
from lakeconf.integrations.metaxy import from_metaxy


@click.command("import", short_help="Convert a metaxy.toml to lakeconf.toml.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Output file; by default the result is printed.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def command(path: Path, output: Path | None, *, force: bool) -> None:
    """Convert the DuckLake stores of a metaxy.toml at PATH to lakeconf.toml.

    Secrets are not copied; variables replace them. Omitted settings and remaining steps are printed to stderr.
    """
    if output is not None and output.exists() and not force:
        raise click.UsageError(f"{output} already exists; use --force to overwrite it")
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
