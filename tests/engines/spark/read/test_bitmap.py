"""Deleted rows as bits in the plan: the limits, the lookup of a file's bits, and the bits of every file."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from lakeconf.catalog.data_file import DataFile, DeleteFile
from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.engines.spark.read import scan_source
from lakeconf.engines.spark.read.file_index import relation
from lakeconf.engines.spark.read.scan_source import _bits, _is_at_hand, bitmap_condition
from lakeconf.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_lake import Lake
    from pyspark.sql import SparkSession

NUMBERS = StructType([StructField("a", IntegerType())])
DELETES = DeleteFile("/d.parquet", "parquet", 5, 100)
FILE = DataFile(1, "/f.parquet", 10, 100, 0, 1, delete_file=DELETES)
PLAIN = replace(FILE, delete_file=None)


def test_limits_apply_to_all_files_together() -> None:
    assert _is_at_hand([PLAIN] * 500)
    assert not _is_at_hand([PLAIN] * 501)
    half = replace(PLAIN, record_count=1 << 25)
    assert _is_at_hand([half, half])
    assert not _is_at_hand([half, half, PLAIN])
    many = replace(FILE, delete_file=replace(DELETES, delete_count=2_500_000))
    assert _is_at_hand([many, many])
    assert not _is_at_hand([many, many, FILE])


def deleted(files: Sequence[DataFile], bases: dict[str, int], end: int, snapshot_id: int) -> set[int]:
    """The positions of the set bits."""
    content = _bits(files, bases, end, snapshot_id)
    words = struct.unpack(f"<{len(content) // 8}Q", content)
    assert len(words) == end // 64 + 1
    return {64 * index + bit for index, word in enumerate(words) for bit in range(64) if word >> bit & 1}


@pytest.fixture
def three(files: Lake) -> Lake:
    """Files with 100, 64 and 10 rows; rows deleted in two snapshots, in delete files and in the catalog."""
    files.run("CREATE TABLE lake.t (a INTEGER)")
    for start, end in ((0, 100), (100, 164), (164, 174)):
        files.run(f"INSERT INTO lake.t SELECT i FROM range({start}, {end}) r(i)")
    files.run("DELETE FROM lake.t WHERE a IN (0, 63, 64, 99)", "DELETE FROM lake.t WHERE a IN (1, 100, 163)")
    files.run("CALL lake.set_option('data_inlining_row_limit', 10)", "DELETE FROM lake.t WHERE a IN (2, 173)")
    return files


def test_each_deleted_row_has_a_bit(three: Lake) -> None:
    plan = plan_scan(three.reader, "t", three.newest)
    first, second, third = sorted(plan.files, key=lambda file: file.data_file_id)
    bases = {first.path: 0, second.path: 128, third.path: 192}
    assert deleted(plan.files, bases, 256, three.newest) == {0, 1, 2, 63, 64, 99, 128, 191, 201}
    # The delete file of the first file also contains the deletes of a later snapshot.
    before = three.newest - 2
    assert plan_scan(three.reader, "t", before).snapshot_id == before
    without = [replace(file, inlined_deletes=()) for file in plan.files]
    assert deleted(without, bases, 256, before) == {0, 63, 64, 99, 128, 191}
    assert deleted([third], {third.path: 0}, 64, three.newest) == {9}
    assert deleted([replace(third, inlined_deletes=())], {third.path: 0}, 64, three.newest) == set()


def test_damaged_or_missing_delete_file_is_an_error(three: Lake) -> None:
    (file, *_) = [file for file in plan_scan(three.reader, "t", three.newest).files if file.delete_file]
    assert file.delete_file is not None
    wrong = replace(file, delete_file=replace(file.delete_file, file_size_bytes=1))
    with pytest.raises(StorageError, match="truncated or replaced"):
        _bits([wrong], {file.path: 0}, 128, three.newest)
    Path(file.delete_file.path).unlink()
    with pytest.raises(StorageError, match="is missing"):
        _bits([file], {file.path: 0}, 128, three.newest)


def test_delete_files_are_read_once_for_a_snapshot(
    spark: SparkSession, three: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unread(*_: object) -> None:
        raise AssertionError

    plan, before = (plan_scan(three.reader, "t", three.newest - past) for past in (0, 2))
    assert bitmap_condition(spark, plan.files, plan.snapshot_id) is not None
    monkeypatch.setattr(scan_source, "connect", unread)
    again = plan_scan(three.reader, "t", three.newest)
    condition = bitmap_condition(spark, again.files, again.snapshot_id)
    assert condition is not None
    assert relation(spark, again.files, NUMBERS).where(condition).count() == 174 - 9
    with pytest.raises(AssertionError):
        bitmap_condition(spark, before.files, before.snapshot_id)
    (path, *_) = [file.delete_file.path for file in plan.files if file.delete_file]
    Path(path).unlink()
    with pytest.raises(StorageError, match="is missing"):
        bitmap_condition(spark, plan.files, plan.snapshot_id)
