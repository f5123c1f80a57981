"""Partition keys of a table: their SQL, and a check for keys that recur."""

from __future__ import annotations

from lakeconf.catalog.pruning.partition import bucket_sql
from lakeconf.catalog.table import TableInfo
from lakeconf.errors import SchemaError
from lakeconf.sql import identifier


def check_recurring(info: TableInfo) -> None:
    """Refuses partition keys that recur: `month(day)` alone puts the same month of all years into one partition.

    Raises:
        SchemaError: A key recurs.
    """
    larger = {"month": ("year",), "day": ("year", "month"), "hour": ("year", "month", "day")}
    keys = {(part.field_id, part.transform) for part in info.partition_fields}
    names = {column.field_id: column.name for column in info.columns}
    for field_id, transform in sorted(keys):
        lacking = [part for part in larger.get(transform, ()) if (field_id, part) not in keys]
        if lacking and (field_id, "identity") not in keys:
            name = names[field_id]
            wanted = ", ".join(f'"{part}({name})"' for part in (*larger[transform], transform))
            raise SchemaError(
                f"{transform}({name}) recurs: a partition of {info.full_name} contains rows of every {lacking[-1]}, "
                "and all of them would be replaced",
                hint=f"use overwrite(frame, where=…), partition the table by [{wanted}], or pass recurring=True",
            )


def partition_keys(info: TableInfo) -> list[str]:
    """The partition keys of a table, as DuckDB expressions."""
    names = {column.field_id: identifier(column.name) for column in info.columns}
    keys = []
    for part in info.partition_fields:
        column = names[part.field_id]
        if part.transform == "identity":
            keys.append(column)
        else:
            keys.append(bucket_sql(part.transform, column) or f"{part.transform}({column})")
    return keys
