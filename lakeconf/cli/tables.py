"""`lakeconf tables`."""

from __future__ import annotations

from typing import Any

import click

from lakeconf.byte_size import byte_size
from lakeconf.cli.options import config_option, format_option, store_option
from lakeconf.cli.output import show_json, show_table
from lakeconf.config.model import init
from lakeconf.inspection.sizes import table_sizes

_HEADER = ("table", "rows", "files", "size", "delete files", "deleted rows", "inlined rows")


@click.command("tables", short_help="List the tables of a lake.")
@store_option
@format_option
@config_option
def command(store: str | None, source: str | None, format_name: str) -> None:
    """List the tables of the lake of STORE and their files. The command reads the catalog, not the data files."""
    with init(source).get_store(store).open(read_only=True) as lake:
        found: list[dict[str, Any]] = [
            {
                "table": one.table,
                "rows": one.rows,
                "files": len(one.files),
                "bytes": one.bytes,
                "delete_files": one.delete_files,
                "deleted_rows": one.deleted_rows,
                "inlined_rows": one.inlined_rows,
            }
            for one in table_sizes(lake)
        ]
    if format_name == "json":
        show_json(found)
    else:
        rows = [[_cell(key, value) for key, value in one.items()] for one in found]
        show_table([_HEADER, *rows], numbers=range(1, len(_HEADER)))


def _cell(key: str, value: Any) -> str:
    if key == "bytes":
        return byte_size(value)
    return f"{value:,}" if isinstance(value, int) else str(value)
