"""DuckDB writes sorted files with field ids, row ids and statistics, in the folder of their partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from staged_changes import file_groups

from lakeconf.catalog.data_file import DataFile, FileGroup
from lakeconf.catalog.file_footers import Footer
from lakeconf.catalog.sort_keys import sort_keys
from lakeconf.catalog.tables import TableInfo, load_table
from lakeconf.ducklake import INTERNAL_ROW_ID
from lakeconf.engines.sorted_files import SortRequest, write_sorted
from lakeconf.errors import StorageError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_lake import Lake

    from lakeconf.connection.connection import Connection


@pytest.fixture
def writer(usual: Lake) -> Iterator[Connection]:
    """Writes to a lake with the table `t`, whose rows are not in order; one is deleted."""
    usual.run(
        'CREATE TABLE lake.t (a BIGINT, "b ""q" DOUBLE, s STRUCT("x, y" BIGINT, z VARCHAR[]), m MAP(VARCHAR, INTEGER))',
        "INSERT INTO lake.t SELECT (i * 7) % 30, CASE WHEN i < 15 THEN i / 2 WHEN i < 16 THEN 'nan' END, "
        "{'x, y': i, 'z': ['e' || i, NULL]}, MAP {'k': i} FROM range(30) AS r(i)",
        "DELETE FROM lake.t WHERE a = 7",
    )
    usual.run("CALL ducklake_flush_inlined_data('lake')")
    with usual.connection.cursor() as cursor:
        cursor.prefer_builtins("lake")
        yield cursor


def request_of(lake: Lake, key: str) -> SortRequest:
    info = load_table(lake.reader, "t", lake.newest)
    (group,) = file_groups(lake.reader, info, lake.newest)
    return SortRequest(info, lake.newest, group, sort_keys([key], info.columns), "0a")


def written(lake: Lake, writer: Connection, folder: Path, key: str = "a desc") -> Footer:
    return write_sorted(writer, "lake", request_of(lake, key), str(folder / "new" / "0.parquet"))


def test_rows_have_the_order_and_their_ids(usual: Lake, writer: Connection, tmp_path: Path) -> None:
    footer = written(usual, writer, tmp_path)
    columns = f'a, {INTERNAL_ROW_ID.name}, "b ""q"::VARCHAR, s::VARCHAR, m::VARCHAR'
    found = writer.rows(f"SELECT {columns} FROM read_parquet('{footer.path}')")
    assert found == writer.rows(f"SELECT {columns.replace(INTERNAL_ROW_ID.name, 'rowid')} FROM lake.t ORDER BY a DESC")
    assert (footer.row_count, len(found)) == (29, 29)
    schema = dict(writer.rows(f"SELECT name, field_id FROM parquet_schema('{footer.path}') WHERE field_id IS NOT NULL"))
    ids = {column.name: column.field_id for column in request_of(usual, "a").table.columns}
    assert ids.items() <= schema.items()
    assert schema[INTERNAL_ROW_ID.name] == INTERNAL_ROW_ID.field_id
    assert len(schema) == 10, "also the fields of nested columns"


def test_statistics_are_those_of_the_rows(usual: Lake, writer: Connection, tmp_path: Path) -> None:
    footer = written(usual, writer, tmp_path)
    size = writer.rows(f"SELECT file_size_bytes, footer_size FROM parquet_file_metadata('{footer.path}')")
    assert [(footer.file_size_bytes, footer.footer_size)] == size
    found = [(one.value_count, one.null_count, one.low, one.high, one.contains_nan) for one in footer.statistics]
    assert found == [
        (29, 0, "0", "29", None),
        (29, 14, "0.0", "7.0", True),
        (29, 0, "0", "29", None),
        (58, 29, "e0", "e9", None),
        (29, 0, "k", "k", None),
        (29, 0, "0", "29", None),
    ]
    assert len({one.field_id for one in footer.statistics}) == 6


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
def test_negative_zeros_of_a_sort_key_stay(usual: Lake, writer: Connection, tmp_path: Path, kind: str) -> None:
    usual.run(
        f"CREATE OR REPLACE TABLE lake.t (a {kind}, b BIGINT)",
        "INSERT INTO lake.t VALUES (1, 5), ('-0.0', 4), (NULL, 3), ('nan', 2), ('-inf', 1), ('-0.0', 0)",
    )
    usual.run("CALL ducklake_flush_inlined_data('lake')")
    footer = written(usual, writer, tmp_path, "a desc nulls first")
    found = writer.rows(f"SELECT a::VARCHAR FROM read_parquet('{footer.path}')")
    assert [value for (value,) in found] == [None, "nan", "1.0", "-0.0", "-0.0", "-inf"]


def test_options_of_the_lake_hold(usual: Lake, writer: Connection, tmp_path: Path) -> None:
    options: dict[str, Any] = {"compression": "zstd", "compression_level": 9, "version": 2, "row_group_size": 2048}
    for name, value in options.items():
        usual.run(f"CALL lake.set_option('parquet_{name}', '{value}')")
    footer = written(usual, writer, tmp_path)
    assert writer.rows(f"SELECT DISTINCT compression FROM parquet_metadata('{footer.path}')") == [("ZSTD",)]


def test_group_is_all_that_is_read(usual: Lake, writer: Connection, tmp_path: Path) -> None:
    request = request_of(usual, "a")
    usual.run("INSERT INTO lake.t SELECT 1000 + i, NULL, NULL, NULL FROM range(50) AS r(i)")
    newer = SortRequest(request.table, usual.newest, request.group, request.keys, "0a")
    footer = write_sorted(writer, "lake", newer, str(tmp_path / "x.parquet"))
    assert footer.row_count == 29


@pytest.mark.parametrize(("kind", "field"), [("VARIANT", "w"), ("INTEGER", "__DuckDB_field_id")])
def test_columns_that_duckdb_would_change_are_refused(
    usual: Lake, writer: Connection, tmp_path: Path, kind: str, field: str
) -> None:
    usual.run(f"ALTER TABLE lake.t ADD COLUMN v STRUCT({field} {kind})")
    with pytest.raises(UnsupportedError, match=rf"the column 'v\.{field}' of type \w+ cannot be written again exactly"):
        written(usual, writer, tmp_path)
    assert not (tmp_path / "new").exists()


def test_statistics_that_are_missing_are_an_error(
    usual: Lake, writer: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column without bounds would hide its rows."""
    monkeypatch.setattr("lakeconf.engines.sorted_files._leaves", lambda columns: [("gone", columns[0])])
    with pytest.raises(StorageError, match="DuckDB reported no statistics of gone in"):
        write_sorted(writer, "lake", request_of(usual, "a"), str(tmp_path / "x.parquet"))


@pytest.mark.parametrize("option", ["parquet_row_group_size", "parquet_compression_level"])
def test_options_that_are_no_numbers_are_refused(usual: Lake, writer: Connection, tmp_path: Path, option: str) -> None:
    """Another tool can write them to the catalog."""
    metadata = f"{usual.reader.metadata_database}.ducklake_metadata"
    usual.run(f"INSERT INTO {metadata} (key, value) VALUES ('{option}', '1, FILENAME_PATTERN x')")
    with pytest.raises(UnsupportedError, match=f"the lake's option {option} is '1, FILENAME_PATTERN x'"):
        written(usual, writer, tmp_path)


TABLE = TableInfo(1, "main", "t", (), "/d/main/t/")


def request_for(*paths: str, partition_id: int | None = 3) -> SortRequest:
    files = tuple(DataFile(number, path, 1, 1, None, 1) for number, path in enumerate(paths))
    return SortRequest(TABLE, 1, FileGroup(files, partition_id), keys=(), token="0a1b")


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
        request_for(*paths).path  # noqa: B018 - raises
