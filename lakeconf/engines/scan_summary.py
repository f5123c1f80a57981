"""What a scan reads and skips, and how writes to these files would be carried out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.errors import UnsupportedError
from lakeconf.wording import byte_size

if TYPE_CHECKING:
    from lakeconf.catalog.pruning.where import Where
    from lakeconf.catalog.reader import CatalogReader
    from lakeconf.engines.engine import Engine


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
        writes: Who would carry out each kind of write to these files, and why; empty if DuckDB carries out all.
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
    writes: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [
            f"scan of {self.table} at snapshot {self.snapshot_id} by {self.engine}",
            f"  data files    {self.files} of {self.files + self.files_skipped} read, "
            f"{byte_size(self.bytes)} of {byte_size(self.bytes + self.bytes_skipped)}",
            f"  delete files  {self.delete_files}",
            f"  in catalog    {self.inlined_rows} rows, {self.inlined_deletes} deletes",
        ]
        lines += [f"  {kind:<12}  {strategy}" for kind, strategy in self.writes.items()]
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
    )
