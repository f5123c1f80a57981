"""A catalog is checked before its migration. tests/differential/test_ducklake_0_3.py migrates a real one."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import duckdb
import pytest
from source_tree import REPOSITORY

from lakeconf.backends.backend import StoreNames
from lakeconf.backends.metadata.file_catalogs import DuckDBMetadata, SQLiteMetadata
from lakeconf.backends.metadata.migration import check_merged_files
from lakeconf.connection.connection import Connection, load_extension
from lakeconf.errors import CatalogError, LakeconfError
from lakeconf.sql import identifier

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES = StoreNames("dev", "lake")


@pytest.fixture
def connection() -> Iterator[Connection]:
    with duckdb.connect() as native:
        yield Connection(native)


def catalog(path: Path, *files: tuple[int, str | None], snapshots: int = 9, schema: str = "main") -> DuckDBMetadata:
    """A catalog of DuckLake 0.3 with data files: their first snapshot, and the snapshots that were merged into them."""
    with duckdb.connect(str(path)) as native:
        native.execute(f"CREATE SCHEMA IF NOT EXISTS {identifier(schema)}; USE {identifier(schema)}")
        native.execute("CREATE TABLE ducklake_snapshot AS SELECT range AS snapshot_id FROM range(?)", [snapshots])
        native.execute("CREATE TABLE ducklake_data_file (begin_snapshot BIGINT, partial_file_info VARCHAR)")
        for file in files:
            native.execute("INSERT INTO ducklake_data_file VALUES (?, ?)", file)
    return DuckDBMetadata(uri=str(path), metadata_schema=None if schema == "main" else schema)


def databases(connection: Connection) -> list[str]:
    return [name for (name,) in connection.rows("SELECT database_name FROM duckdb_databases() WHERE NOT internal")]


@pytest.mark.parametrize(
    "files", [[], [(1, None)], [(1, "")], [(3, "3:5")], [(3, "3:5|3:9")], [(8, "3:5|3:9")]], ids=str
)
def test_catalog_whose_files_have_rows_of_one_snapshot_is_accepted(
    files: list[tuple[int, str | None]], connection: Connection, tmp_path: Path
) -> None:
    check_merged_files(connection, catalog(tmp_path / "c", *files), NAMES, {})
    assert databases(connection) == ["memory"]


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ([(3, "3:5|4:9")], (1, 3, 3)),
        ([(3, "3:5|7:9")], (4, 3, 6)),
        ([(0, "0:1|1:1|2:2")], (2, 0, 1)),
        ([(1, "1:5|3:9"), (2, "2:1|4:2")], (3, 1, 3)),
        ([(7, "7:5|99:9")], (2, 7, 8)),
        ([(5, None), (3, "3:5|10:9")], (6, 3, 8)),
    ],
    ids=str,
)
def test_snapshots_within_a_merged_file_are_counted_and_named(
    files: list[tuple[int, str | None]], found: tuple[int, int, int], connection: Connection, tmp_path: Path
) -> None:
    count, first, last = found
    with pytest.raises(CatalogError) as raised:
        check_merged_files(connection, catalog(tmp_path / "c", *files), NAMES, {})
    assert raised.value.message == (
        f"stores.dev: after the migration, {count} snapshots between {first} and {last} would contain rows of later "
        "ones, because it loses which snapshot added which rows of a merged file"
    )
    assert raised.value.hint == (
        "expire these snapshots first, with the DuckDB version that created the lake: "
        f"CALL ducklake_expire_snapshots('lake', versions => [{first}, …, {last}])"
    )
    assert databases(connection) == ["memory"]


def test_catalog_in_another_schema_is_checked(connection: Connection, tmp_path: Path) -> None:
    for number, schema in enumerate(("lake", 'a"b; --')):
        path = tmp_path / f"c{number}"
        backend = catalog(path, (1, "1:1|2:2"), schema=schema)
        check_merged_files(connection, DuckDBMetadata(uri=str(path)), NAMES, {})
        with pytest.raises(CatalogError, match="1 snapshots between 1 and 1"):
            check_merged_files(connection, backend, NAMES, {})


def test_catalog_of_another_version_is_accepted(connection: Connection, tmp_path: Path) -> None:
    path = tmp_path / "c"
    with duckdb.connect(str(path)) as native:
        native.execute("CREATE TABLE ducklake_data_file (begin_snapshot BIGINT, partial_max BIGINT)")
        native.execute("CREATE TABLE other (partial_file_info VARCHAR)")
    check_merged_files(connection, DuckDBMetadata(uri=str(path)), NAMES, {})


def test_options_of_a_real_catalog_are_passed_on_and_merged_snapshots_refused(
    connection: Connection, tmp_path: Path
) -> None:
    """The others are DuckLake's, which an ATTACH of the catalog itself would refuse."""
    shutil.copy(REPOSITORY / "tests" / "data" / "ducklake_0_3" / "catalog.sqlite", tmp_path / "c")
    load_extension(connection, "sqlite_scanner")
    backend = SQLiteMetadata(uri=str(tmp_path / "c"))
    options = {"meta_busy_timeout": 1000, "override_data_path": True}
    check_merged_files(connection, backend, NAMES, options)
    with pytest.raises(LakeconfError, match="nonsense"):
        check_merged_files(connection, backend, NAMES, {"meta_nonsense": 1})
    shutil.copy(REPOSITORY / "tests" / "data" / "ducklake_0_3" / "all_snapshots.sqlite", tmp_path / "merged")
    with pytest.raises(CatalogError, match="2 snapshots between 28 and 29 would contain rows of later ones"):
        check_merged_files(connection, SQLiteMetadata(uri=str(tmp_path / "merged")), NAMES, {})
