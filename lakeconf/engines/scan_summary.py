"""What a scan reads, and the size up to which DuckDB computes a merge into these files for Spark."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.errors import UnsupportedError
from lakeconf.wording import byte_size

if TYPE_CHECKING:
    from lakeconf.catalog.pruning.where import Where
    from lakeconf.catalog.reader import CatalogReader
    from lakeconf.engines.engine import Engine


# Sizes of Parquet files. DuckDB keeps the frame in memory; of the files it reads the keys and the rows that change.
MOST_FRAME_BYTES = 128 * 1024**2
MOST_FILE_BYTES = 4 * 1024**3


def size_refusal(frame_bytes: int, file_bytes: int) -> str | None:
    """Why Spark must compute a merge because of its size; None if it is small."""
    if frame_bytes > MOST_FRAME_BYTES:
        return f"the frame has {byte_size(frame_bytes)}, more than {byte_size(MOST_FRAME_BYTES)}"
    if file_bytes > MOST_FILE_BYTES:
        return f"the files have {byte_size(file_bytes)}, more than {byte_size(MOST_FILE_BYTES)}"
    return None


@dataclass(frozen=True)
class ScanSummary:
    """The files and rows that a scan reads and skips, according to the catalog.

    Spark reads exactly these files. DuckDB decides again when the scan runs, with the same statistics.

    Attributes:
        table: The table, with its schema.
        snapshot_id: The snapshot.
        engine: `duckdb` or `spark`.
        files: Number of data files that are read.
        files_skipped: Number of data files that cannot contain a matching row.
        bytes: Size of the data files that are read, in bytes, including all their columns.
        bytes_skipped: Size of the skipped data files, in bytes.
        delete_files: Number of delete files of the data files that are read.
        inlined_deletes: Number of rows in these data files that the catalog lists as deleted.
        inlined_rows: Number of rows that the catalog contains, whether they match or not.
        refusal: Why the engine refuses the scan; None if it accepts it.
        merge: Which engine would compute a merge into these files, and when; None if there is no choice.
        commit: Who would commit the rows that Spark updates in a merge; None if there is no choice.
    """

    table: str
    snapshot_id: int
    engine: str
    files: int
    files_skipped: int
    bytes: int
    bytes_skipped: int
    delete_files: int
    inlined_deletes: int
    inlined_rows: int
    refusal: str | None = None
    merge: str | None = None
    commit: str | None = None

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def __str__(self) -> str:
        lines = [
            f"scan of {self.table} at snapshot {self.snapshot_id} by {self.engine}",
            f"  data files    {self.files} of {self.files + self.files_skipped} read, "
            f"{byte_size(self.bytes)} of {byte_size(self.bytes + self.bytes_skipped)}",
            f"  delete files  {self.delete_files}",
            f"  in catalog    {self.inlined_rows} rows, {self.inlined_deletes} deletes",
        ]
        if self.merge is not None:
            lines.append(f"  merge         {self.merge}")
        if self.commit is not None:
            lines.append(f"  commit        {self.commit}")
        if self.refusal is not None:
            lines.append(f"  refused       {self.refusal}")
        return "\n".join(lines)


def summary(
    engine: Engine,
    reader: CatalogReader,
    table: str,
    snapshot_id: int,
    columns: Sequence[str] | None,
    where: Where | None,
) -> ScanSummary:
    """Plans a scan and summarizes it; see `Table.explain`."""
    plan = plan_scan(reader, table, snapshot_id, columns, where)
    refusal = None
    try:
        engine.scan(table, snapshot_id, columns, where)
    except UnsupportedError as error:
        refusal = str(error)
    read = sum(file.file_size_bytes for file in plan.files)
    return ScanSummary(
        table=plan.table.full_name,
        snapshot_id=snapshot_id,
        engine=engine.name,
        files=len(plan.files),
        files_skipped=plan.files_skipped,
        bytes=read,
        bytes_skipped=plan.bytes_skipped,
        delete_files=sum(file.delete_file is not None for file in plan.files),
        inlined_deletes=sum(len(file.inlined_deletes) for file in plan.files),
        inlined_rows=plan.inlined_row_count,
        refusal=refusal,
        merge=None if engine.for_small_merges() is None else _merge(read),
    )


def _merge(size: int) -> str:
    refused = size_refusal(0, size)
    if refused is not None:
        return f"by Spark: {refused}"
    return f"by DuckDB, if the frame has at most {byte_size(MOST_FRAME_BYTES)}"
