"""`lakeconf schema`."""

from __future__ import annotations

import click

from lakeconf.cli.output import show_json
from lakeconf.config.schema import json_schema
from lakeconf.pipelines.schema import models_schema


@click.command("schema", short_help="Print the JSON Schema of lakeconf.toml.")
def command() -> None:
    """Print the JSON Schema of lakeconf.toml, for completion and checks in editors.

    \b
        lakeconf schema > lakeconf.schema.json
        # and as the first line of lakeconf.toml:
        #:schema ./lakeconf.schema.json
    """
    show_json(json_schema(models_schema()))
