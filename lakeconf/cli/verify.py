"""`lakeconf verify`."""

from __future__ import annotations

import dataclasses

import click

from lakeconf.cli.completion import complete_tables
from lakeconf.cli.options import config_option, default_store_option, format_option
from lakeconf.cli.output import show_json, show_lines
from lakeconf.config.model import init
from lakeconf.engines.spark.start import spark_session
from lakeconf.inspection.verify import verify

_QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}


@click.command("verify", short_help="Compare a table as read by Spark and by DuckDB.")
@click.argument("table", shell_complete=complete_tables)
@default_store_option
@click.option("--at", "version", type=int, metavar="VERSION", help="Snapshot version; by default the latest.")
@click.option(
    "--engine",
    type=click.Choice(["spark"]),
    default="spark",
    show_default=True,
    help="Engine to compare with DuckDB.",
)
@format_option
@config_option
@click.pass_context
def command(
    context: click.Context,
    table: str,
    store: str | None,
    version: int | None,
    engine: str,  # noqa: ARG001 - only one choice
    source: str | None,
    format_name: str,
) -> None:
    """Compare TABLE as read by Spark and by DuckDB: row counts, NULLs and a hash of each column.

    Both engines read the whole table at one snapshot; Spark runs on this machine. Exit codes: 0 if the results are
    equal and no deleted row is visible again, 1 otherwise, 2 for invalid arguments.
    """
    found = init(source).get_store(store)
    # The session ends with this process.
    with found.open(spark_session(found, settings=_QUIET), read_only=True) as lake:
        verification = verify(lake if version is None else lake.at(version=version), table)
    if format_name == "json":
        show_json({"equal": verification.equal, **dataclasses.asdict(verification)})
    else:
        show_lines(str(verification))
    context.exit(0 if verification.sound else 1)
