"""Inlined rows become a frame; columns that are constant in a file."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeconf.catalog.data_file import DataFile, NameMapping
from lakeconf.catalog.pruning.scan_plan import ScanPlan
from lakeconf.catalog.tables import Column, TableInfo
from lakeconf.connection.connection import connect
from lakeconf.engines.spark.read.groups import path_text
from lakeconf.errors import StorageError


def arrow(query: str) -> pa.Table:
    with connect() as connection:
        connection.execute("SET TimeZone = 'Asia/Tokyo'")
        return connection.arrow(query)


def column(type_name: str = "varchar", field_id: int = 4) -> Column:
    return Column(field_id, "P", type_name, nullable=True, initial_default=None)


def plan_of(*columns: Column, source_name: str = "p") -> ScanPlan:
    mappings = tuple(NameMapping(source_name, each.field_id, in_path=True) for each in columns)
    other = NameMapping("other", 1)
    table = TableInfo(1, "main", "t", columns, "/t/")
    return ScanPlan(5, table, columns, (), {3: (other, *mappings)}, ())


def file_of(path: str) -> DataFile:
    return DataFile(1, path, 10, 100, row_id_start=7, begin_snapshot=2, mapping_id=3)


@pytest.mark.parametrize(
    "path", ["/t/f.parquet", "/t/q=7/f.parquet", "/t/p=1=2/f.parquet", "/t/a/p=7", "/t/p/f.parquet"]
)
def test_path_without_the_value_is_rejected(path: str) -> None:
    with pytest.raises(StorageError) as refused:
        path_text(plan_of(column()), file_of(path), column())
    assert refused.value.message == f"the path of {path} has no value for 'P': no folder P=…"


def test_value_that_is_not_utf_8_is_rejected() -> None:
    with pytest.raises(StorageError, match=r"^the value of 'P' in the path of /t/p=%FF/f\.parquet is not UTF-8$"):
        path_text(plan_of(column()), file_of("/t/p=%FF/f.parquet"), column())
