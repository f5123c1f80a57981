"""`lakeconf preview-sql`."""

from __future__ import annotations

import click

from lakeconf.cli.options import config_option, store_option
from lakeconf.cli.output import show, show_json
from lakeconf.config.model import init
from lakeconf.secret import shown


@click.command("preview-sql", short_help="Show the SQL that attaches a lake.")
@store_option
@click.option("--show-secrets", is_flag=True, help="Print secret values.")
@click.option("--portable", is_flag=True, help="Write a script for the DuckDB CLI, with secrets as getenv('X').")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["sql", "json"]),
    default="sql",
    show_default=True,
    help="SQL, or JSON with the alias and extensions of the store.",
)
@config_option
def command(store: str | None, source: str | None, format_name: str, *, show_secrets: bool, portable: bool) -> None:
    """Print the SQL that attaches the lake of STORE, by default `default_store`, without connecting.

    Secret values are printed as '***'. With --portable, the script runs elsewhere and contains no secret:

    \b
        lakeconf preview-sql prod --portable > init.sql
        duckdb -init init.sql
    """
    if show_secrets and portable:
        raise click.UsageError("--show-secrets and --portable cannot be combined: a portable script contains no secret")
    found = init(source).get_store(store)
    statements = found.preview_sql(show_secrets=show_secrets, portable=portable)
    if format_name == "json":
        extensions = list(found.extensions)
        show_json(
            {"store": found.name, "alias": shown(found.alias), "extensions": extensions, "statements": statements}
        )
    else:
        for statement in statements:
            show(statement)
