"""The names of sorted files: in the staging folder, or in the folder of their partition."""

from __future__ import annotations

import pytest

from lakeconf.catalog.data_file import DataFile, FileGroup
from lakeconf.catalog.tables import TableInfo
from lakeconf.engines.duckdb import DuckDBEngine
from lakeconf.engines.sorted_files import SortEngine, SortRequest
from lakeconf.errors import UnsupportedError

TABLE = TableInfo(1, "main", "t", (), "/d/main/t/")


def request_for(*paths: str, partition_id: int | None = 3) -> SortRequest:
    files = tuple(DataFile(number, path, 1, 1, None, 1) for number, path in enumerate(paths))
    return SortRequest(TABLE, 1, FileGroup(files, partition_id), is_whole=True, keys=(), file_count=2, token="0a1b")


def test_files_without_partition_are_in_the_staging_folder() -> None:
    request = request_for("/anywhere/x.parquet", "/d/main/t/y.parquet", partition_id=None)
    assert request.paths(["a.parquet", "b.parquet"]) == [
        "/d/main/t/lakeconf-0a1b/a.parquet",
        "/d/main/t/lakeconf-0a1b/b.parquet",
    ]


def test_files_of_a_partition_are_in_its_folder() -> None:
    request = request_for("/d/main/t/day=1/k=%2F/x.parquet", "/d/main/t/day=1/k=%2F/y.parquet")
    assert request.paths(["a", "b"]) == [f"/d/main/t/day=1/k=%2F/lakeconf-0a1b-{number}.parquet" for number in (0, 1)]


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


def test_engines_can_sort() -> None:
    assert issubclass(DuckDBEngine, SortEngine)
