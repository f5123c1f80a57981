"""A delete whose rows were found before the commit: by file, or by file and position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lakeconf.catalog.data_file import DataFile
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.scan import ScanPlan, plan_scan
from lakeconf.engines.positions import FILE_ROW_NUMBER, FILENAME
from lakeconf.sql import literal

# DuckLake needs 30 to 60 bytes of memory for each row that a statement deletes, also if it drops whole files.
ROWS_PER_STATEMENT = 2_000_000


@dataclass(frozen=True)
class PositionDelete:
    """The rows of a table that satisfy a predicate, as far as they were found before the commit.

    Data files do not change, so what was found in a file is right for as long as the file exists and no other row of it
    is deleted.

    Attributes:
        name: The table, quoted, without the lake.
        table: The table, quoted, with the lake.
        plan: The plan of the search: the predicate, and the files that may match, at the snapshot that was the latest.
        condition: The predicate in SQL.
        covered: Files of which every row satisfies it.
        searched: Other files.
        found: The number of matching rows in each of the searched files that has any, by path.
        source: SQL that returns the positions of these rows, with the columns of `POSITION_TYPES`; empty if no file was
            searched.
        has_few_others: True if one statement can delete the rows of all files that were not searched: they are few.
    """

    name: str
    table: str
    plan: ScanPlan
    condition: str
    covered: tuple[DataFile, ...] = ()
    searched: tuple[DataFile, ...] = ()
    found: Mapping[str, int] = field(default_factory=dict)
    source: str = ""
    has_few_others: bool = False

    def statements(self, reader: CatalogReader, begun: int) -> tuple[tuple[str, ...], tuple[int | None, ...]]:
        """The statements that delete exactly the rows that satisfy the predicate at a snapshot.

        Rows that were not searched are selected by the predicate itself: those in the catalog, and those in files that
        are new or have lost rows.

        Args:
            reader: Reads the catalog.
            begun: The snapshot. The caller must check afterwards that it is still the latest one: a flush changes where
                the rows of an older snapshot are.

        Returns:
            The statements, and the number of rows that each must delete; None if the number is not known.
        """
        plan = self.plan
        if begun != plan.snapshot_id:
            plan = plan_scan(reader, self.name, begun, (), plan.predicate)
        unchanged = set(plan.files)
        ids = {file.data_file_id for file in self.covered}
        covered = [file for file in plan.files if file.data_file_id in ids]
        searched = [file.path for file in self.searched if file in unchanged]
        known = {*(file.path for file in covered), *searched}
        others = {file.path: file.record_count for file in plan.files if file.path not in known}
        counted = {file.path: visible_rows(file) for file in covered if is_exact(file)}
        uncounted = {file.path: file.record_count for file in covered if not is_exact(file)}
        matching = {path: self.found[path] for path in searched if self.found.get(path)}
        others |= dict.fromkeys(plan.inlined_tables, 0)
        most = sum(others.values()) if self.has_few_others else None
        parts: list[tuple[dict[str, int], str, bool]] = [
            *((files, "", True) for files in batches(counted)),
            *((files, "", False) for files in batches(uncounted)),
            *((files, self._by_position(files), True) for files in batches(matching)),
            *((files, self.condition, False) for files in batches(others, most)),
        ]
        statements = {
            f"DELETE FROM {self.table} WHERE {in_files(files)}{f' AND {condition}' if condition else ''}": (
                sum(files.values()) if is_known else None
            )
            for files, condition, is_known in parts
        }
        return tuple(statements), tuple(statements.values())

    def _by_position(self, files: Iterable[str]) -> str:
        positions = f"SELECT {FILENAME}, {FILE_ROW_NUMBER} FROM ({self.source}) WHERE {in_files(files, FILENAME)}"
        return f"(filename, file_row_number) IN ({positions})"


def batches(files: Mapping[str, int], most: int | None = None) -> Iterator[dict[str, int]]:
    """Divides files, so that no batch of several files has more rows than wanted.

    Args:
        files: The number of rows of each file, by path.
        most: The number of rows; default: `ROWS_PER_STATEMENT`.
    """
    most = ROWS_PER_STATEMENT if most is None else most
    batch: dict[str, int] = {}
    for path, rows in files.items():
        if batch and sum(batch.values()) + rows > most:
            yield batch
            batch = {}
        batch[path] = rows
    if batch:
        yield batch


def is_exact(file: DataFile) -> bool:
    """True if all rows of a file are visible, except those that its deletes name in one place.

    DuckDB does not combine a delete file with deletes in the catalog of the same rows.
    """
    return file.snapshot_filter is None and not (file.delete_file is not None and file.inlined_deletes)


def visible_rows(file: DataFile) -> int:
    """The number of rows of a file that are not deleted, if its deletes are exact."""
    deleted = len(file.inlined_deletes) + (file.delete_file.delete_count if file.delete_file else 0)
    return file.record_count - deleted


def in_files(paths: Iterable[str], column: str = "filename") -> str:
    """The SQL condition that a row is in one of these files, or of the catalog's tables."""
    return f"{column} IN ({', '.join(map(literal, paths))})"
