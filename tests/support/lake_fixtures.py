"""Lakes for tests: created by DuckDB without lakeconf, or with one table on each engine. A pytest plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from catalog_lake import AttachedLake
from catalog_lake import lake as attached_lake

import lakeconf
from lakeconf.connection.connection import load_extension
from lakeconf.lake.compaction_step import CompactionStep
from lakeconf.write import strategy as rule

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(params=["duckdb", "sqlite", "postgres"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AttachedLake]:
    """An empty lake with DuckLake's default settings, on each kind of catalog, created by DuckDB without lakeconf."""
    server = request.getfixturevalue("postgres_server") if request.param == "postgres" else None
    with attached_lake(request.param, tmp_path, server=server) as attached:
        yield attached


def lake_with(table: str, rows: pa.Table) -> Any:
    """A fixture: the lake of the fixture `store` on each engine, with one table that contains the rows."""

    @pytest.fixture
    def lake(store: lakeconf.Store, engine: Any) -> Iterator[lakeconf.Lake]:
        with store.open(engine) as lake:
            lake.create_table(table, rows).append(rows)
            yield lake

    return lake


@pytest.fixture
def events_folder(project: Path) -> Path:
    """The folder of `project`, whose lake has one table, `raw.events`, with a delete and two files."""
    with lakeconf.init().get_store().open() as opened:
        table = opened.create_table("raw.events", {"id": "BIGINT", "kind": "VARCHAR"})
        table.append(pa.table({"id": [1, 2], "kind": ["view", "view"]}))
        table.delete("id = 1")
        table.append(pa.table({"id": [3], "kind": ["buy"]}))
    return project


@pytest.fixture
def inlining_lake(tmp_path: Path) -> Iterator[AttachedLake]:
    """An empty lake in a DuckDB file, with DuckLake's default settings."""
    with attached_lake("duckdb", tmp_path) as attached:
        yield attached


@pytest.fixture
def file_lake(tmp_path: Path) -> Iterator[AttachedLake]:
    """An empty lake in a DuckDB file that writes small inserts and deletes to files as well."""
    with attached_lake("duckdb", tmp_path, options=", DATA_INLINING_ROW_LIMIT 0") as attached:
        yield attached


@pytest.fixture
def three_files(file_lake: AttachedLake) -> AttachedLake:
    """The same lake with a table `t`; the snapshots 2, 3 and 4 add the files 0, 1 and 2 with ten rows each."""
    file_lake.run("CREATE TABLE lake.t (a INTEGER)")
    for start in (0, 10, 20):
        file_lake.run(f"INSERT INTO lake.t SELECT * FROM range({start}, {start + 10})")
    return file_lake


@pytest.fixture
def vectors(tmp_path: Path) -> Iterator[AttachedLake]:
    """An empty lake that writes deletion vectors."""
    with attached_lake(
        "duckdb", tmp_path, options=", WRITE_DELETION_VECTORS true, DATA_INLINING_ROW_LIMIT 0"
    ) as attached:
        yield attached


@pytest.fixture
def encrypted(tmp_path: Path) -> Iterator[AttachedLake]:
    """An empty lake with encrypted files."""
    with attached_lake("duckdb", tmp_path, options=", ENCRYPTED true, DATA_INLINING_ROW_LIMIT 0") as attached:
        load_extension(attached.connection, "httpfs")  # DuckDB writes encrypted files with the OpenSSL of httpfs
        yield attached


@pytest.fixture
def lake(store: lakeconf.Store, engine: Any) -> Iterator[lakeconf.Lake]:
    """The empty lake of the fixture `store`, open on each engine."""
    with store.open(engine) as lake:
        yield lake


@pytest.fixture
def two_tables(store: lakeconf.Store) -> Iterator[lakeconf.Lake]:
    """The lake of the fixture `store` with the empty tables `t` and `u`, at snapshot 2."""
    with store.open() as lake:
        for name in ("t", "u"):
            lake.create_table(name, {"id": "BIGINT"})
        yield lake


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[list[tuple[str, int]]]:
    """For each transaction of a rewrite or a merge: the tables, and the numbers of files read."""
    done: list[list[tuple[str, int]]] = []

    run = CompactionStep.run

    def spied(self: CompactionStep) -> list[tuple[Any, ...]]:
        rows = run(self)
        if "ducklake_flush" not in self.call:
            done.append([(table, read) for _, table, read, _ in rows])
        return rows

    monkeypatch.setattr(CompactionStep, "run", spied)
    return done


@pytest.fixture
def searching(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark searches files of any size."""
    for limit in ("ROWS_PER_STATEMENT", "MOST_FILE_BYTES"):
        monkeypatch.setattr(rule, limit, -1)


@pytest.fixture
def own(spark: SparkSession) -> SparkSession:
    """A Spark session of this test, whose settings it may change."""
    return spark.newSession()


@pytest.fixture
def sql(store: lakeconf.Store, lake: lakeconf.Lake, own: SparkSession) -> SparkSession:
    """A session whose current schema is `main` of the lake of the fixture `lake`: its catalog is `dev`."""
    store.attach(own)
    return own
