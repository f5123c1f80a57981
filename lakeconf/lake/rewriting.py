"""Rewrites files with deleted rows in transactions of a limited size.

DuckLake rewrites the files of a table above a share of deleted rows, and has no other limit. Decreasing shares make it
rewrite a table in parts: first the files that free most space for the rows that are written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lakeconf.catalog.lost_bounds import lost_bounds
from lakeconf.catalog.table_name import joined_name
from lakeconf.commit.maintenance_commit import run_step
from lakeconf.commit.session import Session
from lakeconf.lake.compaction import RewrittenFiles, all_tables, rewritten_files
from lakeconf.lake.time_limit import TimeLimit
from lakeconf.logs import EventLogger
from lakeconf.sql import literal

_log = EventLogger("maintenance")

# What one transaction reads, at most; files with the same share of deleted rows cannot be separated.
FILES_READ, BYTES_READ = 2000, 8 * 1024**3


@dataclass(frozen=True)
class Rewriting:
    """The rewrite of a lake's files with deleted rows.

    Attributes:
        session: The lake.
        limit: No transaction begins after it.
    """

    session: Session
    limit: TimeLimit

    def run(self) -> None:
        """Rewrites files, first of the tables with most deleted bytes, then those that only DuckLake knows.

        Tables whose bounds DuckLake would forget are left as they are.
        """
        reader = self.session.reader
        lost = lost_bounds(reader)
        tables = []
        for table in rewritten_files(reader):
            columns = lost.get((table.schema, table.name))
            if columns is None:
                tables.append(table)
                continue
            _log.warning(
                "%s keeps %d files with deleted rows: DuckLake would forget the bounds of the column %s. To write them "
                "again, name sort keys: lakeconf rewrite TABLE --sorted-by COLUMN",
                joined_name(table.schema, table.name), len(table.files), columns[0],
            )  # fmt: skip
        sizes = [size for table in tables for _, size in table.files]
        if len(sizes) > FILES_READ or sum(sizes) > BYTES_READ:
            for table in sorted(tables, key=lambda found: -found.saved):
                self._rewrite_table(table)
        if not lost:
            self._rewrite("")
            return
        for schema, name in all_tables(reader):
            if (schema, name) not in lost:
                self._rewrite(f", {literal(name)}, schema => {literal(schema)}")

    def _rewrite_table(self, table: RewrittenFiles) -> None:
        arguments = f", {literal(table.name)}, schema => {literal(table.schema)}"
        for share in _parts(table.files):
            # A decimal number would be rounded.
            self._rewrite(f"{arguments}, delete_threshold => CAST({literal(repr(share))} AS DOUBLE)")

    def _rewrite(self, arguments: str) -> None:
        if not self.limit.is_over:
            run_step(self.session, f"CALL ducklake_rewrite_data_files({literal(self.session.alias)}{arguments})")


def _parts(files: Iterable[tuple[float, int]]) -> Iterator[float]:
    """The smallest share of deleted rows in each part of a transaction's size."""
    count, size, last = 0, 0, None
    for share, file_size in files:
        is_full = count + 1 > FILES_READ or size + file_size > BYTES_READ
        if last is not None and is_full and share < last:
            yield last
            count, size = 0, 0
        count, size, last = count + 1, size + file_size, share
    if last is not None:
        yield last
