"""`lakeconf stores`."""

from __future__ import annotations

import click

from lakeconf.cli.options import config_option, format_option
from lakeconf.cli.output import show_json, show_table
from lakeconf.config.model import init
from lakeconf.config.store_summary import Outline
from lakeconf.secret import shown


@click.command("stores", short_help="List the stores.")
@format_option
@config_option
def command(source: str | None, format_name: str) -> None:
    """List the stores; * marks the default store.

    Variables are not resolved, so the command works if some are not set.
    """
    outline = init(source).outline()
    if format_name == "json":
        show_json([{key: _shown(value) for key, value in store._asdict().items()} for store in outline])
    else:
        show_table([_row(store) for store in outline])


def _row(store: Outline) -> tuple[str, str, str, str]:
    types = (store.metadata_backend or "?", store.storage_backend)
    backends = " + ".join(shown(name) for name in types if name)
    extends = f"extends {shown(store.extends)}" if store.extends else ""
    return "*" if store.is_default else " ", store.name, backends, extends


def _shown(value: str | bool | None) -> str | bool | None:  # noqa: FBT001 - a field of an outline
    return shown(value) if isinstance(value, str) else value
