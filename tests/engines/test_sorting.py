"""The names of sorted files: in the staging folder, or in the folder of their partition."""

from __future__ import annotations

import pytest

from lakeconf.catalog.data_file import DataFile, FileGroup
from lakeconf.catalog.tables import TableInfo
from lakeconf.engines.sorted_files import SortRequest
from lakeconf.errors import UnsupportedError

TABLE = TableInfo(1, "main", "t", (), "/d/main/t/")


def request_for(*paths: str, partition_id: int | None = 3) -> SortRequest:
    files = tuple(DataFile(number, path, 1, 1, None, 1) for number, path in enumerate(paths))
    return SortRequest(TABLE, 1, FileGroup(files, partition_id), is_whole=True, keys=(), file_count=2, token="0a1b")


@pytest.mark.parametrize(
    "paths",
    [
        ("/d/main/t/k=1/x.parquet", "/d/main/t/k=2/x.parquet"),
        ("/d/main/t/x.parquet",),
        ("/elsewhere/k=1/x.parquet",),
        ("/d/main/t/k=1/lakeconf-0a/x.parquet",),
    ],
)
def test_partitions_without_a_folder_of_their_own_are_refused(paths: tuple[str, ...]) -> None:
    with pytest.raises(UnsupportedError, match=r"the files of a partition of main.t are not in a folder of their own"):
        request_for(*paths).paths(["a"])
