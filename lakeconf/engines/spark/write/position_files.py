"""Sorts the positions of rows on the executors, into one file for each data file."""

from __future__ import annotations

import re

from lakeconf.engines.base import Staged, StagingRequest
from lakeconf.engines.positions import FILE_ID, FILE_ROW_NUMBER, PositionFiles
from lakeconf.engines.spark.internals import rebind
from lakeconf.engines.spark.write.files import writing_session
from lakeconf.engines.spark.write.staged_merge import staged_frame
from lakeconf.engines.spark.write.storage import LakeStorage
from lakeconf.engines.staging import staging_folder
from lakeconf.errors import SparkError

_FOLDER = re.compile(rf"/{FILE_ID}=(\d+)/[^/]*$")


def sort_positions(storage: LakeStorage, staged: Staged, condition: str, request: StagingRequest) -> PositionFiles:
    """Writes the positions of staged rows to a staging folder; see `PositionEngine.sort_positions`.

    Args:
        storage: The storage of the files.
        staged: The rows.
        condition: Selects rows of data files.
        request: The table, and the token of the write.

    Raises:
        SparkError: The job failed.
    """
    rows = staged_frame(storage.spark, staged, condition, [FILE_ID, FILE_ROW_NUMBER])
    private = writing_session(storage.spark)
    # A task must write all positions of its data files, each in one file.
    private.conf.set("spark.sql.adaptive.enabled", "false")
    tasks = 2 * storage.spark.sparkContext.defaultParallelism
    ordered = rebind(rows, private).repartition(tasks, FILE_ID).sortWithinPartitions(FILE_ID, FILE_ROW_NUMBER)
    with storage.removed_after_errors(request):
        paths: dict[int, str] = {}
        written = storage.write(ordered, request, by=[FILE_ID], temporary=True)
        for path in written:
            found = _FOLDER.search(path)
            # A task without rows writes a file too, outside these folders.
            if found is not None and paths.setdefault(int(found[1]), path) != path:
                raise SparkError(f"Spark divided the deleted positions of one data file of {request.table.full_name}")
    folder = staging_folder(request.table, request.token)
    return PositionFiles(Staged("", tuple(written), folder=folder, row_count=0, keeps_files=False), paths)
