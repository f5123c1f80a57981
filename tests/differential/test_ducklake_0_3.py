"""A DuckLake 0.3 lake made by DuckDB 1.4: rejected without migration, and correct at every snapshot afterwards."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from catalog_lake import AttachedLake, lake
from pyspark.sql import SparkSession
from source_tree import REPOSITORY
from spark_rows import differences
from strength import PROVE

from lakeconf.backends.metadata.file_catalogs import SQLiteMetadata
from lakeconf.backends.storage.local import LocalStorage
from lakeconf.errors import CatalogError
from lakeconf.store import Store

MADE = REPOSITORY / "tests" / "data" / "ducklake_0_3"
CHANGES: dict[str, dict[str, list[str] | None]] = json.loads((MADE / "expected.json").read_text())


def copy_of_the_lake(folder: Path, catalog: str = "catalog.sqlite") -> Path:
    shutil.copytree(MADE / "data", folder / "data")
    shutil.copy(MADE / catalog, folder / "catalog.sqlite")
    return folder


def store(folder: Path, **attach_options: Any) -> Store:
    backends = SQLiteMetadata(uri=str(folder / "catalog.sqlite")), LocalStorage(path=str(folder / "data"))
    return Store("dev", *backends, attach_options={"override_data_path": True, **attach_options})


def version(folder: Path) -> str:
    with contextlib.closing(sqlite3.connect(folder / "catalog.sqlite")) as connection:
        ((found,),) = connection.execute("SELECT value FROM ducklake_metadata WHERE key = 'version'").fetchall()
    return str(found)


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttachedLake]:
    """A copy that was migrated when it was opened, attached by DuckDB without lakeconf."""
    folder = copy_of_the_lake(tmp_path_factory.mktemp("ducklake_0_3"))
    store(folder, automatic_migration=True).open().close()
    with lake("sqlite", folder, options=", OVERRIDE_DATA_PATH true") as attached:
        attached.run("SET TimeZone = 'UTC'")
        yield attached


def rows_at(version: int) -> dict[str, list[str]]:
    """The rows of each table at a snapshot, as DuckDB 1.4 read them."""
    found: dict[str, list[str]] = {}
    for number in range(version + 1):
        for table, rows in CHANGES.get(str(number), {}).items():
            found.pop(table, None)
            if rows is not None:
                found[table] = rows
    return found


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_old_lake_is_rejected_with_a_hint_and_unchanged(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder = copy_of_the_lake(tmp_path)
    session = request.getfixturevalue("spark") if engine == "spark" else None
    with pytest.raises(CatalogError, match=r"version 0\.3, but .* supports 1\.0: open a copy .* cannot be undone"):
        store(folder).open(session)
    assert version(folder) == "0.3"


def test_migration_that_would_mix_rows_of_different_snapshots_is_rejected(tmp_path: Path) -> None:
    folder = copy_of_the_lake(tmp_path, "all_snapshots.sqlite")
    with pytest.raises(CatalogError, match=r"2 snapshots between 28 and 29 would contain rows of later ones"):
        store(folder, automatic_migration=True).open()
    assert version(folder) == "0.3"


@pytest.mark.slow
@pytest.mark.parametrize("version", [int(version) for version in CHANGES])
def test_migrated_lake_has_the_rows_that_duckdb_1_4_read(migrated: AttachedLake, version: int) -> None:
    expected = rows_at(version)
    assert {name for (name,) in migrated.rows(_tables(version))} == expected.keys()
    for table, rows in expected.items():
        found = migrated.rows(
            f"SELECT CAST(to_json(x) AS VARCHAR) FROM (SELECT rowid AS row_id, * FROM lake.{table} "
            f"AT (VERSION => {version})) AS x"
        )
        assert sorted(text for (text,) in found) == rows


@pytest.mark.slow
def test_spark_reads_the_migrated_lake_like_duckdb(migrated: AttachedLake, spark: SparkSession) -> None:
    # A table that a snapshot did not change is compared at the newest snapshot only, except in `make prove`.
    newest = max(map(int, CHANGES))
    looked_at = {(int(number), table) for number, tables in CHANGES.items() for table in tables}
    looked_at |= {(number, table) for number in (map(int, CHANGES) if PROVE else [newest]) for table in rows_at(number)}
    for number, table in sorted(looked_at):
        if table in rows_at(number):
            assert differences(spark, migrated, table, number) == {}, f"{table} at version {number}"


def _tables(version: int) -> str:
    return (
        "SELECT table_name FROM __ducklake_metadata_lake.ducklake_table "
        f"WHERE begin_snapshot <= {version} AND coalesce(end_snapshot > {version}, true)"
    )
