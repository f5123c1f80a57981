"""Rewrites files with deleted rows in transactions of a limited size.

DuckLake rewrites the files of a table above a share of deleted rows, and has no other limit. Decreasing shares make it
rewrite a table in parts: first the files that free most space for the rows that are written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lakeconf.catalog.lost_bounds import lost_bounds
from lakeconf.catalog.table_name import joined_name
from lakeconf.commit.maintenance_commit import of_table, run_step
from lakeconf.commit.session import Session
from lakeconf.lake.compaction import RewrittenFiles, all_tables, rewritten_files
from lakeconf.lake.staged_rewriting import BYTES_READ, FILES_READ, StagedRewriting
from lakeconf.lake.time_limit import TimeLimit
from lakeconf.logs import EventLogger
from lakeconf.sql import literal

_log = EventLogger("maintenance")


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

        Tables whose bounds DuckLake would forget come last; they are left if no staged commit can carry them.
        """
        reader = self.session.reader
        lost = lost_bounds(reader)
        found = rewritten_files(reader)
        tables = [table for table in found if (table.schema, table.name) not in lost]
        sizes = [size for table in tables for _, size in table.files]
        if len(sizes) > FILES_READ or sum(sizes) > BYTES_READ:
            for table in sorted(tables, key=lambda found: -found.saved):
                self._rewrite_table(table)
        if not lost:
            self._rewrite("")
            return
        for schema, name in all_tables(reader):
            if (schema, name) not in lost:
                self._rewrite(of_table(schema, name))
        for table in sorted(found, key=lambda one: -one.saved):
            columns = lost.get((table.schema, table.name))
            if columns is not None:
                self._replace_files(table, columns[0])

    def _replace_files(self, table: RewrittenFiles, column: str) -> None:
        reason = StagedRewriting(self.session, self.limit).run(table)
        if reason is not None:
            _log.warning(
                "%s keeps files with deleted rows: DuckLake would forget the bounds of the column %s, and a staged "
                "commit is not possible: %s", joined_name(table.schema, table.name), column, reason,
            )  # fmt: skip

    def _rewrite_table(self, table: RewrittenFiles) -> None:
        arguments = of_table(table.schema, table.name)
        for share in _parts(table.files):
            # A decimal number would be rounded.
            self._rewrite(f"{arguments}, delete_threshold => CAST({literal(repr(share))} AS DOUBLE)")

    def _rewrite(self, arguments: str) -> None:
        if not self.limit.is_over:
            run_step(self.session, f"CALL ducklake_rewrite_data_files({literal(self.session.alias)}{arguments})")


def _parts(files: Iterable[tuple[float, int]]) -> Iterator[float]:
    """The smallest share of deleted rows in each part of a transaction's size; equal shares cannot be separated."""
    count, size, last = 0, 0, None
    for share, file_size in files:
        is_full = count + 1 > FILES_READ or size + file_size > BYTES_READ
        if last is not None and is_full and share < last:
            yield last
            count, size = 0, 0
        count, size, last = count + 1, size + file_size, share
    if last is not None:
        yield last
