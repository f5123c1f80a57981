"""The rows of a staged commit that replaces the files of a group by others with the same rows and row ids.

DuckLake records it like its own rewrite of files with deleted rows: older snapshots keep their files, and the rows do
not count as changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakeconf.catalog.file_footers import ColumnStatistics, Footer
from lakeconf.catalog.file_groups import FileGroup, groups_of, inlined_deletes
from lakeconf.catalog.lost_bounds import forgotten_bounds
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.table import TableInfo
from lakeconf.commit.staged_tables import statistics_row
from lakeconf.ducklake import check_placeholders
from lakeconf.errors import CommitConflictError, CommitError

_KIND = "rewrite_delete"
Rows = Mapping[str, list[tuple[object, ...]]]


@dataclass(frozen=True)
class Replacement:
    """New files with the rows of a group of files.

    Attributes:
        group: The files that they replace.
        footers: What the footers of the new files say; at least one file.
    """

    group: FileGroup
    footers: tuple[Footer, ...]


def check_replaced(reader: CatalogReader, table: TableInfo, replacements: Sequence[Replacement], begun: int) -> None:
    """Refuses replacements if another writer has changed rows of the files, or if the new files have other rows.

    Args:
        reader: Reads the catalog.
        table: The table.
        replacements: All replacements of a commit.
        begun: The snapshot that the commit builds on; rows that were added since then are in other files.

    Raises:
        CommitConflictError: A file was removed or has other deletes. Or DuckLake would forget bounds, because of files
            that were added.
        CommitError: The numbers of rows differ.
    """
    wanted = {file.data_file_id: file for replacement in replacements for file in replacement.group.files}
    with reader.transaction() as transaction:
        groups = groups_of(transaction, table, begun)
        changed = inlined_deletes(transaction, table, begun) & wanted.keys()
        forgotten = forgotten_bounds(transaction, table.table_id, wanted)
    found = {file.data_file_id: file for group in groups for file in group.files}
    changed |= {file_id for file_id, file in wanted.items() if found.get(file_id) != file}
    if changed:
        raise CommitConflictError(
            f"another writer changed rows in {len(changed)} of {len(wanted)} files of {table.full_name} while they "
            "were rewritten: nothing was written",
            hint="try again, or when fewer writers change this table",
        )
    for column in forgotten.values():
        raise CommitConflictError(
            f"another writer added a file without values in the column {column!r} to {table.full_name}, and DuckLake "
            "would forget the bounds of the column: nothing was written",
            hint="try again, or when fewer writers change this table",
        )
    for replacement in replacements:
        written = sum(footer.row_count for footer in replacement.footers)
        if written != replacement.group.rows:
            raise CommitError(
                f"the rewrite of {table.full_name} has {written} rows instead of {replacement.group.rows}: nothing "
                "was written"
            )


def add_replacement(
    rows: Rows,
    table: TableInfo,
    replacement: Replacement,
    hidden: Callable[[str], str],
    bounds: Mapping[int, tuple[str, str]],
) -> None:
    """Adds a replacement to the temporary tables of a staged commit.

    Args:
        rows: The rows of these tables.
        table: The table.
        replacement: The replacement.
        hidden: Returns the name of a file for the function.
        bounds: The bounds of the table, by field id. Columns without values get them: DuckLake would forget the bounds
            of the table in its next rewrite because of a file without bounds.
    """
    group = replacement.group
    first = len(rows["data_file"])
    for number, footer in enumerate(replacement.footers, start=first):
        sizes = (footer.row_count, footer.file_size_bytes, footer.footer_size)
        names = (number, table.table_id, number, hidden(footer.path), False, "parquet")
        # DuckLake takes the ids of the rows from the file.
        rows["data_file"].append((*names, *sizes, None, group.partition_id, *[None] * 4, number))
        rows["data_file_partition"] += [(number, index, value) for index, value in group.partition]
        for found in footer.statistics:
            column = _bounded(found, bounds)
            for bound in (column.low, column.high):
                check_placeholders(bound, f"a value of {table.full_name}")
            statistics = (number, table.table_id, column.field_id, *statistics_row(column))
            rows["data_file_column_stats"].append(statistics)
        # A rewrite has one new file; so all but the first replace no file.
        rows["compaction"].append((number, table.table_id, _KIND, None, number))
    for order, file in enumerate(group.files):
        # DuckLake compares the numbers of rows with those of the first new file; `check_replaced` has compared all.
        deletes: Sequence[object] = (None, None, None, None)
        # Nor does it need the names of replaced files.
        if file.delete_file_id is not None:
            deletes = (file.delete_file_id, "", 0, None)
        source = (first, order, file.data_file_id, "", 0, file.begin_snapshot, None, 0)
        rows["compaction_source"].append((*source, *deletes))


def _bounded(column: ColumnStatistics, bounds: Mapping[int, tuple[str, str]]) -> ColumnStatistics:
    if column.has_ordered_values or column.field_id not in bounds:
        return column
    low, high = bounds[column.field_id]
    return replace(column, low=low, high=high)
