"""`lakeconf promote`."""

from __future__ import annotations

import click

from lakeconf.cli.options import config_option
from lakeconf.cli.output import show
from lakeconf.config.model import init
from lakeconf.pipelines import declared_pipeline, promote


@click.command("promote", short_help="Bring models' tables from one store to another.")
@click.argument("source_store", metavar="FROM")
@click.argument("target_store", metavar="TO")
@click.argument("models", nargs=-1, metavar="[MODEL]...")
@config_option
def command(source_store: str, target_store: str, models: tuple[str, ...], source: str | None) -> None:
    """Copy the tables of each MODEL, or of all, from the store FROM to the store TO; nothing is computed again.

    Each is one snapshot of TO, where `lakeconf run` then skips what was brought.
    """
    config = init(source)
    pipeline = declared_pipeline(config)
    with config.get_store(source_store).open() as one, config.get_store(target_store).open() as other:
        made = promote(pipeline, one, other, models)
    for table, snapshot_id in made.items():
        show(f"{table}: snapshot {snapshot_id} of {target_store}")
