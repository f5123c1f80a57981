"""Reads the inlined rows of a change feed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeconf.catalog.change_feed import ChangesPlan, plan_changes
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.scan import has_variant, moved_rows, until_stable
from lakeconf.errors import UnsupportedError
from lakeconf.sql import folded, identifier, literal

if TYPE_CHECKING:
    import pyarrow

# Columns of a changed inlined row: row id, inserting snapshot, deleting snapshot or NULL.
ROW_ID, BEGIN, END = "__lakeconf_row_id", "__lakeconf_begin", "__lakeconf_end"


def plan_changes_with_inlined_rows(
    reader: CatalogReader, table_name: str, since: int, until: int
) -> tuple[ChangesPlan, pyarrow.Table]:
    """Plans the change feed of a table and reads its inlined rows; plans again if a flush moved them.

    Args and errors are those of `plan_changes` and `changed_inlined_rows`.

    Returns:
        The plan, and the result of `changed_inlined_rows` for it.
    """
    return until_stable(
        lambda: plan_changes(reader, table_name, since, until), lambda plan: changed_inlined_rows(reader, plan)
    )


def changed_inlined_rows(reader: CatalogReader, plan: ChangesPlan) -> pyarrow.Table:
    """Reads the inlined rows that the range inserted or deleted.

    Queries DuckDB for all rows ever inlined, including deleted ones: DuckDB returns them with the columns and types of
    the end of the range.

    Args:
        reader: The lake.
        plan: The plan.

    Returns:
        The table's columns as of the end of the range, in DuckDB's types, and `ROW_ID`, `BEGIN` and `END` as in
        `InlinedRow`. Without rows, only these three columns.

    Raises:
        CatalogChangedError: The rows were flushed since the plan was made: plan again.
        UnsupportedError: The rows cannot be read exactly.
    """
    import pyarrow

    table, columns = plan.inserted.table, plan.inserted.columns
    _refuse_inlined(reader, plan)
    wanted = pyarrow.table(
        {
            ROW_ID: pyarrow.array([row.row_id for row in plan.inlined_rows], pyarrow.int64()),
            BEGIN: pyarrow.array([row.begin_snapshot for row in plan.inlined_rows], pyarrow.int64()),
            END: pyarrow.array([row.end_snapshot for row in plan.inlined_rows], pyarrow.int64()),
        }
    )
    if not plan.inlined_rows:
        return wanted  # DuckDB would read a data file even without rows
    names = ", ".join(map(literal, (reader.alias, table.schema_name, table.name)))
    selected = ", ".join(identifier(column.name) for column in columns)
    everything = (
        f"SELECT {selected}, rowid AS {ROW_ID}, snapshot_id AS {BEGIN} "  # noqa: S608
        f"FROM ducklake_table_insertions({names}, {plan.oldest}, {plan.until}) "
        f"WHERE filename IN ({', '.join(map(literal, plan.inlined_tables))})"
    )
    with reader.lake_cursor() as cursor:
        found = cursor.arrow(everything)
        # Join afterwards: DuckDB's handling of filters on the key inside the function is not reliable.
        cursor.register("inlined_rows", found)
        cursor.register("wanted_rows", wanted)
        rows = cursor.arrow(f"FROM inlined_rows JOIN wanted_rows USING ({ROW_ID}, {BEGIN})")
    if rows.num_rows != len(plan.inlined_rows):
        raise moved_rows(table, len(plan.inlined_rows), rows.num_rows)
    return rows


def _refuse_inlined(reader: CatalogReader, plan: ChangesPlan) -> None:
    if not plan.inlined_rows:
        return
    table = plan.inserted.table
    flush = f"move them to a file: CALL ducklake_flush_inlined_data({literal(reader.alias)})"
    for column in plan.inserted.columns:
        if folded(column.name) == "filename":
            raise UnsupportedError(
                f"the table {table.full_name} has inlined rows, but its column {column.name!r} hides "
                "DuckDB's virtual column that identifies them",
                hint=flush,
            )
        if has_variant(column):
            raise UnsupportedError(
                f"the table {table.full_name} has inlined rows, and DuckDB cannot export its VARIANT "
                f"column {column.name!r}",
                hint=flush,
            )
    if any(row.begin_snapshot < plan.oldest for row in plan.inlined_rows):
        raise UnsupportedError(
            f"inlined rows of {table.full_name} were deleted in this range, but inserted in a snapshot that has expired"
        )
