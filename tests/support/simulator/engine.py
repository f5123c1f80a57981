"""An engine for tables with one column. Its frames are lists of integers; it stages rows as Spark or DuckDB does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakeconf.engines.engine import Staged, StagingRequest
from lakeconf.engines.file_names import announce, manifest_path, staging_folder
from lakeconf.sql import identifier

if TYPE_CHECKING:
    from lakeconf.catalog.reader import CatalogReader
    from lakeconf.connection.connection import Connection
    from simulator.world import World


class SimulatedEngine:
    """Stages rows as values in SQL, as registered files, or as files whose rows are inserted; the world decides."""

    name = "simulator"

    def __init__(self, reader: CatalogReader, writer: Connection, world: World) -> None:
        self._reader, self._writer, self._world = reader, writer, world

    def details(self) -> Mapping[str, str]:
        return {}

    def adopt(self, frame: Any) -> Any:
        return frame

    def schema(self, adopted: Any) -> dict[str, str]:
        return {"id": "BIGINT"}

    def scan(self, table: str, snapshot_id: int, columns: Any = None, where: Any = None) -> Any:
        path = ".".join(map(identifier, ("dev", "main", table)))
        return [
            row for (row,) in self._reader.connection.rows(f'SELECT "id" FROM {path} AT (VERSION => {snapshot_id})')
        ]

    def stage(self, adopted: Sequence[int], request: StagingRequest) -> Staged:
        style = self._world.values.choice(["values", "values", "registered", "inserted"])
        rows = f"SELECT * FROM (VALUES {', '.join(f'({row})' for row in adopted)}) AS rows(id)"
        if style == "values":
            return Staged(rows, row_count=len(adopted))
        folder = staging_folder(request.table, request.token)
        announce(self._writer, folder, self._reader.lake_id)
        path = _file(folder)
        try:
            self._writer.execute(f"COPY ({rows}) TO '{path}' (FORMAT parquet)")
        except BaseException:
            self._remove(folder, path)
            raise
        source = f"SELECT id FROM read_parquet(['{path}'], hive_partitioning = false)"
        registered = style == "registered"
        files = (path,) if registered else ()
        return Staged(source, files, folder=folder, row_count=len(adopted), keeps_files=registered)

    def release(self, staged: Staged) -> None:
        if staged.folder is not None:
            self._remove(staged.folder, None if staged.keeps_files else _file(staged.folder))

    def _remove(self, folder: str, path: str | None) -> None:
        """Removes staged files as Spark does, outside of DuckDB."""
        for one in (path, manifest_path(folder)):
            if one is not None:
                self._world.scheduler.step(f"remove {one}")
                self._world.remove_staged(one)


def _file(folder: str) -> str:
    """The file in a staging folder; its name is unique, like those of Spark."""
    return f"{folder}part-0-{folder.rstrip('/').rpartition('-')[2]}.parquet"
