"""Spark's SQL, its data source and streams read and write the tables of a branch, as its `Table` does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from branched_lakes import SHORT, lake_and_branch, rows_of, state_of, write_configuration
from pyspark.errors import AnalysisException
from strength import PROVE
from whole_lakes import fill

from lakeconf.datasource.planning import Options, plan, resolve
from lakeconf.datasource.stream_reader import batch, initial_offset, latest_offset
from lakeconf.datasource.writing import begin, commit, write_rows
from lakeconf.engines.spark.read.parts import read_part
from lakeconf.engines.spark.spark_types import spark_schema
from lakeconf.engines.spark.versions import arrow_schema
from lakeconf.errors import TableNotFoundError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from lakeconf import Store

pytestmark = pytest.mark.slow


@pytest.fixture
def branch(tmp_path: Path, request: pytest.FixtureRequest) -> Store:
    """A branch of a small lake."""
    prod, branch = lake_and_branch(request, tmp_path)
    fill(prod, (*SHORT, "ALTER TABLE raw.e DROP COLUMN name", "ALTER TABLE raw.e ADD COLUMN kind VARCHAR DEFAULT 'k'"))
    branch.create_branch()
    return branch


def numbers(spark: SparkSession, query: str) -> list[Any]:
    return sorted(row[0] for row in spark.sql(query).collect())


def test_queries_by_name_read_what_the_branch_has_not_written(own: SparkSession, branch: Store) -> None:
    branch.attach(own)
    assert numbers(own, "SELECT id FROM pr.raw.e WHERE id > 95 OR id < 42") == [40, 41, 96, 97, 98, 99]
    assert numbers(own, "SELECT count(*) FROM pr.raw.E JOIN pr.raw.f ON e.id = f.id + 40 JOIN pr.raw.v ON n = 60") == [
        10
    ]
    assert own.table("pr.raw.e").columns == ["id", "kind"]
    assert {row.tableName for row in own.sql("SHOW TABLES IN pr.raw").collect()} == {"e", "f"}
    assert numbers(own, "SELECT count(*) FROM pr.raw.e.files") == [1]
    with pytest.raises(AnalysisException, match=r"UnsupportedError: raw\.e is a table of the lake that this one is a"):
        own.sql("SELECT * FROM pr.raw.e.history")


# Statements of Spark, each with those of DuckDB that change a table in the same way.
CHANGES = {
    "INSERT INTO raw.e VALUES (500, 'new')": "INSERT INTO raw.e VALUES (500, 'new')",
    "INSERT INTO raw.e REPLACE WHERE id < 50 VALUES (1, 'one')": "DELETE FROM raw.e WHERE id < 50; "
    "INSERT INTO raw.e VALUES (1, 'one')",
    "DELETE FROM raw.e WHERE id < 90 AND kind = 'k'": "DELETE FROM raw.e WHERE id < 90 AND kind = 'k'",
    "UPDATE raw.e SET kind = concat(kind, id) WHERE id % 2 = 0": "UPDATE raw.e SET kind = concat(kind, id) "
    "WHERE id % 2 = 0",
    "MERGE INTO raw.e USING raw.f ON e.id = f.id + 35 WHEN MATCHED THEN UPDATE SET kind = 'm' "
    "WHEN NOT MATCHED THEN INSERT (id, kind) VALUES (f.id, 'i')": "UPDATE raw.e SET kind = 'm' WHERE id < 45; "
    "INSERT INTO raw.e SELECT id, 'i' FROM raw.f WHERE id < 5",
}
MORE_CHANGES = {
    "INSERT OVERWRITE raw.e SELECT id, 'x' FROM raw.f": "DELETE FROM raw.e; INSERT INTO raw.e SELECT id, 'x' "
    "FROM raw.f",
    "DELETE FROM raw.e WHERE id % 2 = 0": "DELETE FROM raw.e WHERE id % 2 = 0",
    "TRUNCATE TABLE raw.e": "DELETE FROM raw.e",
    "ALTER TABLE raw.e ADD COLUMN more INT": "ALTER TABLE raw.e ADD COLUMN more INTEGER",
    "ALTER TABLE raw.e ALTER COLUMN kind SET DEFAULT 'other'": "ALTER TABLE raw.e ALTER kind SET DEFAULT 'other'",
    "CREATE OR REPLACE TABLE raw.e AS SELECT id + 1 AS id FROM raw.e": "CREATE OR REPLACE TABLE raw.e AS SELECT "
    "id + 1 AS id FROM raw.e",
}


def test_the_first_statement_by_name_gives_the_branch_its_own_table(
    own: SparkSession, branch: Store, tmp_path: Path
) -> None:
    branch.attach(own, use=True)
    assert branch.branch_of is not None
    before = state_of(branch.branch_of, tmp_path / "prod")
    with branch.open() as lake, duckdb.connect() as plain:
        start, rows = lake.snapshot_id, rows_of(lake, "raw.e")
        plain.execute("CREATE SCHEMA raw; CREATE TABLE raw.f AS SELECT range AS id FROM range(10)")
        for statement, in_duckdb in (CHANGES | (MORE_CHANGES if PROVE else {})).items():
            plain.execute("CREATE OR REPLACE TABLE raw.e (id BIGINT, kind VARCHAR)")
            plain.executemany("INSERT INTO raw.e VALUES (?, ?)", rows)
            plain.execute(in_duckdb)
            own.sql(statement)
            lake.refresh()
            assert rows_of(lake, "raw.e") == sorted(plain.execute("FROM raw.e").fetchall(), key=repr), statement
            assert lake.table("raw.e").history(), statement
            lake.restore("raw.e", version=start)
        assert own.table("raw.e").count() == 60
        own.sql("DROP TABLE raw.e")
        lake.refresh()
        assert lake.tables() == ["raw.f"]
    assert state_of(branch.branch_of, tmp_path / "prod") == before


def test_an_explained_statement_gives_the_branch_no_table(own: SparkSession, branch: Store) -> None:
    branch.attach(own, use=True)
    with branch.open() as lake:
        before = lake.snapshot_id
        own.sql("EXPLAIN UPDATE raw.e SET kind = 'x'").collect()
        lake.refresh()
        assert lake.snapshot_id == before


def test_a_table_is_created_like_one_that_the_branch_has_not_written(own: SparkSession, branch: Store) -> None:
    branch.attach(own, use=True)
    with branch.open() as lake:
        before = lake.snapshot_id
        own.sql("CREATE TABLE raw.g LIKE raw.e")
        own.sql("CREATE TABLE IF NOT EXISTS raw.e LIKE raw.f")
        lake.refresh()
        assert lake.snapshot_id == before + 1
        assert lake.table("raw.g").schema == lake.table("raw.e").schema == {"id": "BIGINT", "kind": "VARCHAR"}
        own.sql("INSERT INTO raw.g (id, kind) VALUES (1, DEFAULT)")
        lake.refresh()
        assert rows_of(lake, "raw.g") == [(1, "k")]
        with pytest.raises(UnsupportedError, match="has not written it"):
            lake.table("raw.e").history()
    assert numbers(own, "SELECT count(*) FROM raw.e") == [60]


def options(folder: Path, monkeypatch: pytest.MonkeyPatch, **more: Any) -> Options:
    monkeypatch.chdir(folder)
    return Options("raw.e", "pr", str(write_configuration(folder)), **more)


def ids(parts: Sequence[Any], columns: Sequence[Any]) -> list[int]:
    schema = arrow_schema(spark_schema(columns))
    return sorted(row for part in parts for rows in read_part(part, schema) for row in rows.column("id").to_pylist())


def test_the_data_source_reads_and_writes_a_branch(
    branch: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = options(tmp_path, monkeypatch, where="id > 90")
    columns, snapshot_id = resolve(chosen)
    assert ids(plan(chosen, snapshot_id), columns) == list(range(91, 100))
    chosen = options(tmp_path, monkeypatch)
    rows = pa.RecordBatch.from_pydict({"id": [1000], "kind": ["new"]})
    written = begin(chosen, {"id": "BIGINT", "kind": "VARCHAR"})
    commit(written, [str(write_rows(written, iter([rows])))])
    columns, newest = resolve(chosen)
    assert ids(plan(chosen, newest), columns) == [*range(40, 100), 1000]
    assert ids(plan(chosen, snapshot_id), columns) == list(range(40, 100))
    with branch.open() as lake:
        assert lake.table("raw.e").count() == 61


def test_a_stream_has_the_table_until_the_branch_writes_it(
    branch: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = options(tmp_path, monkeypatch)
    columns = resolve(chosen)[0]
    with pytest.raises(UnsupportedError, match=r"has not written raw\.e: a stream of it has rows, and no changes"):
        initial_offset(options(tmp_path, monkeypatch, since=0))
    start = initial_offset(chosen)
    end = latest_offset(chosen, columns, start, None)
    assert ids(batch(chosen, columns, start, end), columns) == list(range(40, 100))
    assert latest_offset(chosen, columns, end, None) == end
    with branch.open() as lake:
        lake.table("raw.f").append([{"id": 1}])
        later = {**end, "snapshot": lake.snapshot_id, "time": None}
        assert batch(chosen, columns, end, later) == []
        lake.table("raw.e").delete("id < 50")
    assert ids(batch(chosen, columns, start, end), columns) == list(range(40, 100))
    with pytest.raises(TableNotFoundError, match=r"raw\.e is a table of the branch now"):
        latest_offset(chosen, columns, end, None)
