"""`lakeconf files`."""

from __future__ import annotations

import dataclasses

import click

from lakeconf.byte_size import byte_size
from lakeconf.catalog.history import TableFile
from lakeconf.cli.completion import complete_tables
from lakeconf.cli.options import config_option, default_store_option, format_option
from lakeconf.cli.output import plain, show, show_json, show_table
from lakeconf.config.model import init
from lakeconf.inspection.sizes import table_size

_HEADER = ("file", "rows", "size", "snapshot", "deleted rows", "partition")


@click.command("files", short_help="List the files of a table.")
@click.argument("table", shell_complete=complete_tables)
@default_store_option
@format_option
@config_option
def command(table: str, store: str | None, source: str | None, format_name: str) -> None:
    """List the data files of TABLE and the number of deleted rows in each."""
    with init(source).get_store(store).open(read_only=True) as lake:
        size = table_size(lake, table)
    if format_name == "json":
        show_json([plain(dataclasses.asdict(file)) for file in size.files])
        return
    rows = [
        (
            one.path,
            f"{one.rows:,}",
            byte_size(one.bytes),
            str(one.begin_snapshot),
            f"{one.deleted_rows:,}",
            _partition(one),
        )
        for one in size.files
    ]
    show_table([_HEADER, *rows], numbers=range(1, 5))
    if size.inlined_rows:
        show(f"inlined rows in the catalog: {size.inlined_rows}", to_stderr=True)


def _partition(file: TableFile) -> str:
    values = ("NULL" if value is None else value for value in file.partition)
    return ", ".join(f"{key}={value}" for key, value in zip(file.partition_keys, values, strict=True))
