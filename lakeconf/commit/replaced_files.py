"""The rows of a staged commit that replaces the files of a group by others with the same rows and row ids.

DuckLake records it like its own rewrite of files with deleted rows: older snapshots keep their files, and the rows do
not count as changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakeconf.catalog.file_footers import ColumnStatistics, Footer
from lakeconf.catalog.file_groups import FileGroup, groups_of, inlined_deletes
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.table import TableInfo
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


def check_replaced(reader: CatalogReader, table: TableInfo, replacement: Replacement, begun: int) -> None:
    """Refuses a replacement if another writer has changed rows of the files, or if the new files have other rows.

    Args:
        reader: Reads the catalog.
        table: The table.
        replacement: The replacement.
        begun: The snapshot that the commit builds on; rows that were added since then are in other files.

    Raises:
        CommitConflictError: A file was removed or has other deletes.
        CommitError: The numbers of rows differ.
    """
    wanted = {file.data_file_id: file for file in replacement.group.files}
    with reader.transaction() as transaction:
        groups = groups_of(transaction, table, begun)
        changed = inlined_deletes(transaction, table, begun) & wanted.keys()
    found = {file.data_file_id: file for group in groups for file in group.files}
    changed |= {file_id for file_id, file in wanted.items() if found.get(file_id) != file}
    if changed:
        raise CommitConflictError(
            f"another writer changed rows in {len(changed)} of {len(wanted)} files of {table.full_name} while they "
            "were rewritten: nothing was written",
            hint="try again, or when fewer writers change this table",
        )
    written = sum(footer.row_count for footer in replacement.footers)
    if written != replacement.group.rows:
        raise CommitError(
            f"the rewrite of {table.full_name} has {written} rows instead of {replacement.group.rows}: nothing was "
            "written"
        )


def add_replacement(rows: Rows, table: TableInfo, replacement: Replacement, hidden: Callable[[str], str]) -> None:
    """Adds a replacement to the temporary tables of a staged commit.

    Args:
        rows: The rows of these tables.
        table: The table.
        replacement: The replacement.
        hidden: Returns the name of a file for the function.
    """
    group = replacement.group
    first = len(rows["data_file"])
    for number, footer in enumerate(replacement.footers, start=first):
        sizes = (footer.row_count, footer.file_size_bytes, footer.footer_size)
        names = (number, table.table_id, number, hidden(footer.path), False, "parquet")
        # DuckLake takes the ids of the rows from the file.
        rows["data_file"].append((*names, *sizes, None, group.partition_id, *[None] * 4, number))
        rows["data_file_partition"] += [(number, index, value) for index, value in group.partition]
        for column in footer.statistics:
            for bound in (column.low, column.high):
                check_placeholders(bound, f"a value of {table.full_name}")
        rows["data_file_column_stats"] += [
            (number, table.table_id, column.field_id, *_statistics(column)) for column in footer.statistics
        ]
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


def _statistics(column: ColumnStatistics) -> Iterator[object]:
    has_null_count, has_nan = column.null_count is not None, column.contains_nan is not None
    yield from (column.size, True, column.value_count, has_null_count, column.null_count)
    for bound in (column.low, column.high):
        yield from (bound is not None, bound)
    any_valid = not has_null_count or column.null_count != column.value_count
    yield from (has_nan, column.contains_nan, any_valid, None)
