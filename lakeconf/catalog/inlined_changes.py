"""The rows of a change feed that the catalog itself holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeconf.catalog.change_feed import ChangesPlan, plan_changes
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.scan import has_variant, moved_rows, until_stable
from lakeconf.errors import UnsupportedError
from lakeconf.sql import folded, identifier, literal

if TYPE_CHECKING:
    import pyarrow

# Of an inlined row that has changed: its id, the snapshot that inserted it, the one that deleted it or NULL.
ROW_ID, BEGIN, END = "__lakeconf_row_id", "__lakeconf_begin", "__lakeconf_end"


def plan_changes_with_inlined_rows(
    reader: CatalogReader, table_name: str, since: int, until: int
) -> tuple[ChangesPlan, pyarrow.Table]:
    """Plans the change feed of a table and reads its inlined rows, again where a flush came in between.

    Takes what `plan_changes` takes and raises what it and `changed_inlined_rows` raise.

    Returns:
        The plan, and what `changed_inlined_rows` gives for it.
    """
    return until_stable(
        lambda: plan_changes(reader, table_name, since, until), lambda plan: changed_inlined_rows(reader, plan)
    )


def changed_inlined_rows(reader: CatalogReader, plan: ChangesPlan) -> pyarrow.Table:
    """The rows in the catalog that the range has inserted or deleted.

    DuckDB is asked for all rows that were ever inserted into the catalog: it has them in the columns and types of the
    range's end, also those that were deleted since.

    Args:
        reader: The lake.
        plan: The plan.

    Returns:
        The table's columns as of the end of the range, in DuckDB's types, and `ROW_ID`, `BEGIN` and `END`, as
        `InlinedRow` has them; these three alone where there are no rows.

    Raises:
        CatalogError: The rows were flushed since; it is retryable: plan again.
        UnsupportedError: They cannot be read exactly.
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
        return wanted  # DuckDB would look into a data file even to find no row
    names = ", ".join(map(literal, (reader.alias, table.schema_name, table.name)))
    selected = ", ".join(identifier(column.name) for column in columns)
    everything = (
        f"SELECT {selected}, rowid AS {ROW_ID}, snapshot_id AS {BEGIN} "  # noqa: S608
        f"FROM ducklake_table_insertions({names}, {plan.oldest}, {plan.until}) "
        f"WHERE filename IN ({', '.join(map(literal, plan.inlined_tables))})"
    )
    with reader.lake_cursor() as cursor:
        found = cursor.arrow(everything)
        # Joined afterwards: what DuckDB makes of filters on the key within the function is not to be relied on.
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
                f"the table {table.schema_name}.{table.name} has inlined rows, and its column {column.name!r} hides "
                "the name by which DuckDB finds them",
                hint=flush,
            )
        if has_variant(column):
            raise UnsupportedError(
                f"the catalog holds rows of {table.schema_name}.{table.name} whose column {column.name!r} is a "
                "VARIANT, which DuckDB does not hand over",
                hint=flush,
            )
    if any(row.begin_snapshot < plan.oldest for row in plan.inlined_rows):
        raise UnsupportedError(
            f"the catalog holds rows of {table.schema_name}.{table.name} that were deleted in this range and inserted "
            "in a snapshot that has expired"
        )
