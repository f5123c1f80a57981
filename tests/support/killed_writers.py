"""What must be true of a lake after a writer of `writing_process` or `merging_process` was killed."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

from writing_process import Rows, ids_of, read

if TYPE_CHECKING:
    from lakeconf import Lake, Store


def after(rows: Rows, operation: str, number: int) -> Rows:
    """The rows of the table after an operation."""
    ids = ids_of(operation, number)
    kept = [row for row in rows if row[0] not in ids]
    return kept if operation == "delete" else sorted(kept + [(key, number) for key in ids])


def known_files(lake: Lake) -> set[str]:
    """The names of the files that the catalog knows."""
    paths = "SELECT path FROM __ducklake_metadata_dev.ducklake_{}_file"
    found = lake.sql(f"{paths.format('data')} UNION ALL {paths.format('delete')}").collect("pyarrow")
    return {Path(path).name for (path,) in found.iter_rows()}


def files(folder: Path) -> set[Path]:
    """The Parquet files of a lake, relative to its data path `data`: `<schema>/<table>/…`."""
    data = folder / "data"
    return {path.relative_to(data) for path in data.rglob("*.parquet")}


def check(store: Store, folder: Path, allowed: list[Rows]) -> Rows:
    """Checks that the lake is in an allowed state, and that cleanup removes all unknown files of its tables."""
    foreign = folder / "data" / "raw" / "t" / "of-another-writer.parquet"
    foreign.parent.mkdir(parents=True, exist_ok=True)
    foreign.write_text("not of lakeconf")
    with store.open() as lake:
        rows = read(lake)
        assert rows in allowed
        lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True)
        assert foreign.exists()
        foreign.unlink()
        # Cleanup keeps the files of a table that was never committed: it cannot tell who wrote them.
        names = lake.sql("SELECT table_name FROM __ducklake_metadata_dev.ducklake_table").collect("pyarrow")
        tables = {name for (name,) in names.iter_rows()}
        assert {path.name for path in files(folder) if path.parts[1] in tables} == known_files(lake)
        assert read(lake) == rows
        doubled = lake.sql(
            "SELECT 1 FROM __ducklake_metadata_dev.ducklake_delete_file "
            "GROUP BY data_file_id, begin_snapshot HAVING count(*) > 1"
        )
        assert len(doubled.collect()) == 0
    return rows
