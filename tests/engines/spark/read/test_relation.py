"""A relation has exactly the files of the plan, with their sizes, and numbers that identify them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from lakeconf.engines.spark.internals import FileListing, ListedFile
from lakeconf.engines.spark.read.relation import _by_path, _Listed, _marks, check_local, relation
from lakeconf.errors import StorageError, UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


NUMBERS = StructType([StructField("id", LongType())])


@dataclass(frozen=True)
class Planned:
    """A file of a plan."""

    path: str
    file_size_bytes: int


def planned(path: Path) -> Planned:
    return Planned(str(path), path.stat().st_size)


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Planned]:
    """Two files with unusual names and different sizes."""
    folder = tmp_path_factory.mktemp("files")
    names = ("a b%20+ü [1]{x}.parquet", "c:d.parquet")
    files = []
    for number, name in enumerate(names, start=1):
        spark.range(number).coalesce(1).write.parquet(f"{folder}/{number}")
        (part,) = (folder / str(number)).glob("part-*.parquet")
        files.append(planned(part.rename(folder / name)))
    return files


def test_relation_has_the_files_of_the_plan(private: SparkSession, written: list[Planned]) -> None:
    opened = relation(private, written, NUMBERS)
    rows = opened.frame.selectExpr("id", "_metadata.file_path AS path", f"{opened.mark_sql} AS mark").collect()
    assert opened.marks is not None
    first, second = (file.path for file in written)
    expected = [(0, opened.names[first], opened.marks[first])]
    expected += [(n, opened.names[second], opened.marks[second]) for n in range(2)]
    assert sorted(map(tuple, rows)) == sorted(expected)
    assert opened.marks == {file.path: file.file_size_bytes for file in written}
    listed = {path: opened.listing.files[position].size for path, position in opened.positions.items()}
    assert listed == {file.path: file.file_size_bytes for file in written}


def test_requested_schema_replaces_that_of_the_files(private: SparkSession, written: list[Planned]) -> None:
    opened = relation(private, written[:1], StructType([StructField("other", LongType())]))
    assert opened.frame.columns == ["other"]
    contents = relation(private, written[:1], source="binaryFile").frame.select("length").collect()
    assert contents == [(written[0].file_size_bytes,)]


def test_missing_file_is_named(private: SparkSession, written: list[Planned], tmp_path: Path) -> None:
    missing = Planned(str(tmp_path / "missing.parquet"), 10)
    with pytest.raises(StorageError) as refused:
        relation(private, [*written, missing], NUMBERS)
    assert refused.value.message == f"{missing.path} is missing, but the catalog lists it"


def test_file_of_another_size_is_named(private: SparkSession, written: list[Planned]) -> None:
    size = written[0].file_size_bytes
    with pytest.raises(StorageError) as refused:
        relation(private, [Planned(written[0].path, size + 1)])
    assert refused.value.message == (
        f"{written[0].path} has {size} bytes, but the catalog says {size + 1}: it was truncated or replaced"
    )


def test_file_that_is_not_parquet_is_an_error(private: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("damaged")
    with pytest.raises(StorageError, match="Spark cannot open the files of the table"):
        relation(private, [planned(tmp_path / "a.parquet")])


@pytest.mark.parametrize("name", ["_a.parquet", ".a.parquet"])
def test_file_that_spark_does_not_list_is_rejected(
    spark: SparkSession, written: list[Planned], tmp_path: Path, name: str
) -> None:
    """A session with the default settings skips such files."""
    hidden = tmp_path / name
    hidden.write_bytes(Path(written[0].path).read_bytes())
    with pytest.raises(UnsupportedError) as refused:
        relation(spark, [written[0], planned(hidden)], NUMBERS)
    assert (refused.value.message, refused.value.hint) == (
        f"Spark does not read files of this name: {hidden}",
        "read it with DuckDB",
    )


def test_folder_in_place_of_a_file_is_an_error(private: SparkSession, written: list[Planned], tmp_path: Path) -> None:
    folder = tmp_path / "a.parquet"
    folder.mkdir()
    (folder / "b.parquet").write_bytes(Path(written[0].path).read_bytes())
    with pytest.raises((UnsupportedError, StorageError)):
        relation(private, [written[1], Planned(str(folder), written[0].file_size_bytes)], NUMBERS)


def test_local_files_are_checked_without_spark(written: list[Planned], tmp_path: Path) -> None:
    check_local(written)
    check_local([])
    with pytest.raises(StorageError, match=f"^{tmp_path}/missing is missing, but the catalog lists it$"):
        check_local([*written, Planned(f"{tmp_path}/missing", 1)])
    size = written[0].file_size_bytes
    with pytest.raises(StorageError, match=f"has {size} bytes, but the catalog says {size - 1}: it was truncated"):
        check_local([Planned(written[0].path, size - 1)])


def test_listed_files_are_found_by_their_paths() -> None:
    listing = FileListing(
        [ListedFile("file:///a%20b/c%2Bd.parquet", 5, 7), ListedFile("s3a://b/x.parquet", 6, 8)], None
    )
    assert _by_path(listing) == {
        "/a b/c+d.parquet": _Listed("file:/a%20b/c%2Bd.parquet", 5, 7, 0),
        "s3a://b/x.parquet": _Listed("s3a://b/x.parquet", 6, 8, 1),
    }


def listed(*files: tuple[int, int]) -> dict[str, _Listed]:
    """Files with these sizes and times."""
    return {f"/{at}": _Listed(f"file:/{at}", size, time, at) for at, (size, time) in enumerate(files)}


def test_marks_are_sizes_if_these_differ() -> None:
    mask = (1 << 31) - 1
    marks, sql = _marks(listed((5, 1), (6, 1), ((1 << 31) + 7, 1)))
    assert (marks, sql) == ({"/0": 5, "/1": 6, "/2": 7}, f"(_metadata.file_size & {mask})")
    assert _marks(listed((5, 1), ((1 << 31) + 5, 1)))[0] is None


@pytest.mark.parametrize("times", [(1_700_000_000_001, 1_700_000_000_002), (0, 1 << 31), (1, 2)])
def test_marks_of_files_of_the_same_size_depend_on_their_times(spark: SparkSession, times: tuple[int, int]) -> None:
    marks, sql = _marks(listed(*((1000, time) for time in times)))
    assert marks is not None
    assert len(set(marks.values())) == 2
    assert all(0 <= mark < 1 << 31 for mark in marks.values())
    for (path, mark), time in zip(marks.items(), times, strict=True):
        metadata = f"named_struct('file_size', 1000L, 'file_modification_time', timestamp_millis({time}L))"
        found = spark.range(1).selectExpr(f"{metadata} AS _metadata").selectExpr(f"{sql} AS mark").collect()
        assert found == [(mark,)], path


def test_files_of_the_same_size_and_time_have_no_marks() -> None:
    assert _marks(listed((5, 1), (5, 1))) == (None, "")
