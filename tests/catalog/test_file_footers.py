"""The statistics of new files: a bound only where every value is known to be within it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.catalog.file_footers import ColumnStatistics, read_footers
from lakeconf.catalog.tables import Column
from lakeconf.connection.connection import connect
from lakeconf.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf.connection.connection import Connection


@pytest.fixture
def connection() -> Iterator[Connection]:
    with connect() as opened:
        yield opened


def column(field_id: int, name: str, type_name: str, *children: Column) -> Column:
    return Column(field_id, name, type_name, nullable=True, initial_default=None, children=children)


def write(connection: Connection, path: Path, query: str, rows_per_group: int = 100000) -> str:
    connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE {rows_per_group})")
    return str(path)


def statistics(connection: Connection, path: str, *columns: Column) -> dict[int, tuple[object, ...]]:
    """Values, NULLs and bounds by field id."""
    (footer,) = read_footers(connection, [path], columns)
    return {found.field_id: (found.value_count, found.null_count, found.low, found.high) for found in footer.statistics}


def test_sizes_and_counts_of_a_file(connection: Connection, tmp_path: Path) -> None:
    path = write(connection, tmp_path / "a.parquet", "SELECT i FROM range(5) AS r(i)")
    (footer,) = read_footers(connection, [path])
    assert (footer.path, footer.row_count, footer.statistics) == (path, 5, ())
    assert (tmp_path / "a.parquet").stat().st_size == footer.file_size_bytes > footer.footer_size > 0


def test_bounds_span_all_row_groups(connection: Connection, tmp_path: Path) -> None:
    """Numbers are compared as numbers, not as text."""
    query = "SELECT CASE WHEN i < 2048 THEN 9 WHEN i < 4096 THEN 10 END AS n, 'a' || i AS s FROM range(6000) AS r(i)"
    path = write(connection, tmp_path / "a.parquet", query, 2048)
    found = statistics(connection, path, column(1, "n", "int32"), column(2, "s", "varchar"))
    assert found == {1: (6000, 1904, "9", "10"), 2: (6000, 0, "a0", "a999")}


def test_fields_of_structs_are_columns(connection: Connection, tmp_path: Path) -> None:
    query = "SELECT {'x': 7, 'y, z': NULL::DATE} AS s UNION ALL SELECT NULL"
    path = write(connection, tmp_path / "a.parquet", query)
    struct = column(3, "s", "struct", column(4, "x", "int32"), column(5, "y, z", "date"))
    assert statistics(connection, path, struct) == {4: (2, 1, "7", "7"), 5: (2, 2, None, None)}


@pytest.mark.parametrize("value", ["0.5::DOUBLE", "'nan'::FLOAT", "true", r"'\xFF'::BLOB"])
def test_types_and_values_without_exact_bounds_have_none(connection: Connection, tmp_path: Path, value: str) -> None:
    path = write(connection, tmp_path / "a.parquet", f"SELECT {value} AS v")
    names = {"DOUBLE": "float64", "FLOAT": "float32", "BLOB": "blob", "true": "boolean"}
    assert statistics(connection, path, column(1, "v", names[value.rpartition("::")[2]])) == {1: (1, 0, None, None)}


@pytest.mark.parametrize("value", ["chr(0)", r"'C:\xy'"])
def test_text_that_cannot_be_a_bound_has_the_widest_bounds(connection: Connection, tmp_path: Path, value: str) -> None:
    path = write(connection, tmp_path / "a.parquet", f"SELECT {value} AS v")
    assert statistics(connection, path, column(1, "v", "varchar")) == {1: (1, 0, "", "\U0010ffff" * 64)}


def test_column_with_the_name_of_a_field_is_refused(connection: Connection, tmp_path: Path) -> None:
    path = write(connection, tmp_path / "a.parquet", """SELECT {'b': NULL::INTEGER} AS a, 1 AS "a, b\"""")
    columns = [column(1, "a", "struct", column(2, "b", "int32")), column(3, "a, b", "int32")]
    with pytest.raises(StorageError, match="two columns have the same path"):
        read_footers(connection, [path], columns)


@pytest.mark.parametrize(
    ("value", "type_name", "text"),
    [
        ("-1.50::DECIMAL(5,2)", "decimal(5,2)", "-1.50"),
        ("'2024-07-01 12:00:00+02'::TIMESTAMPTZ", "timestamptz", "2024-07-01 10:00:00+00"),
        ("'2024-07-01 12:00:00.000001'::TIMESTAMP", "timestamp", "2024-07-01 12:00:00.000001"),
    ],
)
def test_bounds_are_text_as_in_the_catalog(
    connection: Connection, tmp_path: Path, value: str, type_name: str, text: str
) -> None:
    """In UTC, whatever the session's time zone is."""
    connection.execute("SET TimeZone = 'America/New_York'")
    path = write(connection, tmp_path / "a.parquet", f"SELECT {value} AS v")
    assert statistics(connection, path, column(1, "v", type_name)) == {1: (1, 0, text, text)}


def test_file_without_a_column_is_refused(connection: Connection, tmp_path: Path) -> None:
    path = write(connection, tmp_path / "a.parquet", "SELECT 1 AS a")
    with pytest.raises(StorageError, match="does not have exactly the columns"):
        read_footers(connection, [path], [column(1, "a", "int32"), column(2, "b", "int32")])


def test_column_of_nulls_has_no_bounds(connection: Connection, tmp_path: Path) -> None:
    path = write(connection, tmp_path / "a.parquet", "SELECT NULL::INTEGER AS a")
    (footer,) = read_footers(connection, [path], [column(1, "a", "int32")])
    size = footer.statistics[0].size
    assert footer.statistics == (ColumnStatistics(1, size, 1, 1, None, None),)
