"""`lakeconf tables`."""

from __future__ import annotations

from typing import Any

import click

from lakeconf.cli.options import config_option, format_option
from lakeconf.cli.output import show_json, show_table, size
from lakeconf.config.model import init

_HEADER = ("table", "rows", "files", "size", "delete files", "deleted rows", "rows in the catalog")


@click.command("tables", short_help="List the tables of a lake.")
@click.argument("store", required=False)
@format_option
@config_option
def command(store: str | None, source: str | None, format_name: str) -> None:
    """List the tables of the lake of STORE, with their files; no data file is read."""
    found: list[dict[str, Any]] = []
    with init(source).get_store(store).open() as lake:
        for name in lake.tables():
            table = lake.table(name)
            files, inlined = table.files(), table.explain().inlined_rows
            deleted = sum(file.deleted_rows for file in files)
            found.append(
                {
                    "table": name,
                    "rows": sum(file.rows for file in files) - deleted + inlined,
                    "files": len(files),
                    "bytes": sum(file.bytes for file in files),
                    "delete_files": sum(file.delete_file is not None for file in files),
                    "deleted_rows": deleted,
                    "inlined_rows": inlined,
                }
            )
    if format_name == "json":
        show_json(found)
    else:
        rows = [{**one, "bytes": size(one["bytes"])} for one in found]
        show_table([_HEADER, *(tuple(map(str, row.values())) for row in rows)])
