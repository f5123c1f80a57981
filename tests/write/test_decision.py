"""Who carries out each kind of write: a statement of DuckDB, or an outcome of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from lake_parts import data_path_of, scope_of, session_of
from local_stores import on_postgres, store_of
from merge_cases import commit_info, committer, fetched
from plain_sql import run_plain
from strength import in_prove

from lakeconf import ducklake
from lakeconf.errors import CommitConflictError, LakeconfError, UnsupportedError
from lakeconf.write import capabilities
from lakeconf.write import strategy as rule
from lakeconf.write.capabilities import table_obstacle
from lakeconf.write.context import current_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from servers import PostgresServer

    from lakeconf import Lake, Table


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with store_of(tmp_path, data_inlining_row_limit=0).open() as lake:
        yield lake


def refusal_of(lake: Lake, table: str = "t") -> str | None:
    lake.refresh()
    return table_obstacle(session_of(lake), current_table(scope_of(lake), table).info, lake.snapshot_id)


# The columns and keys of a table, and the reason.
TABLES = {
    "types": ("id BIGINT, a STRUCT(b DATE, c DECIMAL(9, 2)), d BLOB, e TIMESTAMPTZ", None, None),
    "list": ("id BIGINT, a STRUCT(b INTEGER[])", None, "the type of the column 'a'"),
    "unsigned": ("id UBIGINT", None, "the type of the column 'id'"),
    "hidden": ("id BIGINT, FILENAME VARCHAR", None, "a column hides the places of rows"),
    "path": ('a STRUCT(b INTEGER), "a, b" INTEGER', None, "a column has the name of a field of another column"),
    "alike": ('k INTEGER, "\u212a" INTEGER', None, "Spark takes the names of two columns for the same"),
    "keys": ("id BIGINT, day DATE, s VARCHAR", "year(day), s", None),
    "bucket": ("id BIGINT", "bucket(3, id)", "the partition keys of the table"),
    "two keys on a column": ("day DATE", "year(day), month(day)", None),
    "float": ("a DOUBLE", "a", "the partition keys of the table"),
    "vectors": ("id BIGINT", None, "the table has deletion vectors"),
    "folder": ("id BIGINT", None, "the folder of the table is not relative to the data path"),
}
# What is done to some of the tables.
DONE = {
    "vectors": (
        "CALL ducklake_set_option('dev', 'write_deletion_vectors', true)",
        "INSERT INTO t SELECT i FROM range(100) AS r(i)",
        "DELETE FROM t WHERE id % 2 = 0",
    ),
    "folder": ("UPDATE __ducklake_metadata_dev.ducklake_table SET path_is_relative = false, path = '§main/t/'",),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_definition_of_a_table(lake: Lake, name: str) -> None:
    columns, keys, reason = TABLES[name]
    partitioned = [f"ALTER TABLE t SET PARTITIONED BY ({keys})"] if keys else []
    done = [statement.replace("§", data_path_of(lake)) for statement in DONE.get(name, ())]
    run_plain(lake, f"CREATE TABLE t ({columns})", *partitioned, *done)
    assert refusal_of(lake) == reason


@pytest.mark.parametrize("constant", ["STAGED_COMMIT_VERSIONS", "STAGED_COMMIT_CATALOGS"])
def test_untested_versions_and_catalogs(lake: Lake, monkeypatch: pytest.MonkeyPatch, constant: str) -> None:
    run_plain(lake, "CREATE TABLE t (id BIGINT)")
    assert getattr(capabilities, constant) is getattr(ducklake, constant)
    monkeypatch.setattr(capabilities, constant, frozenset({"another"}))
    assert refusal_of(lake) == "the version d8a1881e of the ducklake extension, or a catalog of the type sqlite"


def test_table_that_contains_a_file_twice(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    added = f"CALL ducklake_add_data_files('dev', 't', '{path}')"
    run_plain(lake, "CREATE TABLE t (id BIGINT)", f"COPY (SELECT 1::BIGINT AS id) TO '{path}'", added)
    assert refusal_of(lake) is None
    run_plain(lake, added)
    assert refusal_of(lake) == "the table contains a file twice"


@pytest.mark.slow
def test_catalog_in_a_schema_of_its_own(tmp_path: Path, postgres_server: PostgresServer) -> None:
    catalog = on_postgres(postgres_server) | {"metadata_schema": "shop"}
    with store_of(tmp_path, catalog).open() as lake:
        run_plain(lake, "CREATE TABLE t (id BIGINT)")
        assert refusal_of(lake) == "the catalog is in a schema of its own"


NEW = pa.table({"id": pa.array([1, 50], pa.int64()), "day": ["a", "b"]})
WRITES: dict[str, Callable[..., int]] = {
    "append": lambda table, **engine: table.append(NEW, **engine),
    "delete": lambda table, **engine: table.delete("id < 8", **engine),
    "overwrite": lambda table, **engine: table.overwrite(NEW, **engine),
    "overwrite some": lambda table, **engine: table.overwrite(NEW, where="id < 60", **engine),
    "overwrite_partitions": lambda table, **engine: table.overwrite_partitions(NEW, **engine),
    "update": lambda table, **engine: table.update({"day": "c"}, "id < 8", **engine),
    "update with an expression": lambda table, **engine: table.update({"id": nw.col("id") + 1}, "id < 8", **engine),
    "merge": lambda table, **engine: table.merge(NEW, on="id", **engine),
}
LIMITS = ("MOST_FRAME_BYTES", "LEAST_BYTES", "ROWS_PER_STATEMENT", "FEWEST_POSITIONS")


def create(lake: Lake, name: str) -> Table:
    table = lake.create_table(name, {"id": "BIGINT", "day": "VARCHAR"}, partitioned_by=["day"])
    run_plain(lake, f"INSERT INTO {name} SELECT i, ['a', 'b'][1 + i % 2] FROM range(20) AS r(i)")
    lake.refresh()
    return table


def carried_out(lake: Lake, name: str) -> tuple[str, str, list[tuple[object, ...]]]:
    """Who has committed and written the last snapshot, and the rows."""
    decision = str(commit_info(lake)["written_by"][f"main.{name}"])
    return committer(lake), decision, sorted(fetched(lake, f"SELECT id, day FROM {name}"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["append", *in_prove(kind for kind in WRITES if kind != "append")])
def test_engine_of_each_write(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The size decides, and `engine=` overrides it; all ways have the same rows."""
    write, always = WRITES[kind], kind == "append"
    with store_of(tmp_path, data_inlining_row_limit=0).open(spark) as lake:
        for name in ("small", "by_duckdb", "by_spark", "large"):
            create(lake, name)
        write(lake.table("small"))
        *small, wanted = carried_out(lake, "small")
        assert (small[0], small[1].partition(":")[0]) == ("public", "spark" if always else "duckdb")
        write(lake.table("by_spark"), engine="spark")
        staged = "public" if always else "staged"
        assert carried_out(lake, "by_spark") == (
            staged,
            "spark: its files become files of the table" if always else "spark: engine='spark'",
            wanted,
        )
        for limit in LIMITS:
            monkeypatch.setattr(rule, limit, -1)
        write(lake.table("large"))
        *large, rows = carried_out(lake, "large")
        assert (large[0], large[1].partition(":")[0], rows) == (staged, "spark", wanted)
        write(lake.table("by_duckdb"), engine="duckdb")
        assert carried_out(lake, "by_duckdb") == ("public", "duckdb: engine='duckdb'", wanted)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["append", *in_prove(kind for kind in WRITES if kind != "append")])
def test_outcome_that_is_impossible_is_an_error_if_it_is_demanded(
    tmp_path: Path, spark: SparkSession, kind: str
) -> None:
    write = WRITES[kind]
    with store_of(tmp_path, data_inlining_row_limit=0).open() as lake:
        table = create(lake, "t")
        before = lake.snapshot_id
        with pytest.raises(UnsupportedError, match="the lake was opened without Spark"):
            write(table, engine="spark")
        write(table, engine="duckdb")
        assert lake.snapshot_id == before + 1
        with pytest.raises(LakeconfError, match="engine of a write is 'Spark'"):
            write(table, engine="Spark")
    with store_of(tmp_path, data_inlining_row_limit=0).open(spark) as lake:
        table, before = lake.table("t"), lake.snapshot_id
        files = {*tmp_path.rglob("*.parquet")}
        if kind != "append":
            with (
                pytest.raises(UnsupportedError, match="the transaction contains more than one write"),
                lake.transaction() as transaction,
            ):
                write(transaction.table("t"), engine="spark")
            session_of(lake).committer = "public"
            with pytest.raises(UnsupportedError, match="the store's committer is public"):
                write(table, engine="spark")
        if kind != "delete":  # of any table
            run_plain(lake, "ALTER TABLE t SET PARTITIONED BY (bucket(2, id))")
            before = lake.refresh()
            session_of(lake).committer = "auto"
            with pytest.raises(UnsupportedError, match="Spark cannot carry out the write to "):
                write(table, engine="spark")
        assert lake.refresh() == before
        assert {*tmp_path.rglob("*.parquet")} == files


@pytest.mark.slow
def test_rows_of_a_delete_are_counted_unless_the_files_are_large(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delete of few rows of a large table is a statement: it takes a twentieth of the time of a Spark job."""
    monkeypatch.setattr(rule, "ROWS_PER_STATEMENT", 5)
    monkeypatch.setattr(rule, "FEWEST_POSITIONS", 1)
    with store_of(tmp_path, data_inlining_row_limit=0).open(spark) as lake:
        table = create(lake, "t")
        table.delete("id IN (1, 2, 3)")
        assert carried_out(lake, "t")[:2] == ("public", "duckdb: those to delete are 3 rows")
        table.delete("id BETWEEN 4 AND 9")
        assert carried_out(lake, "t")[:2] == ("staged", "spark: those to delete are 6 rows, more than 5 rows")
        monkeypatch.setattr(rule, "MOST_FILE_BYTES", 0)
        table.delete("id IN (15, 16, 17)")
        found = "spark: the files that can match (2) have 20 rows, more than 5 rows"
        committed, decision, rows = carried_out(lake, "t")
        assert (committed, decision, [row[0] for row in rows]) == ("staged", found, [0, 10, 11, 12, 13, 14, 18, 19])


IMPOSSIBLE: dict[str, Callable[[Table], int]] = {
    "delete": lambda table: table.delete("id % 2 = 0", engine="spark"),
    "update": lambda table: table.update({"a.b": "c"}, "id < 8", engine="spark"),
}


@pytest.mark.slow
def test_hint_of_a_demanded_engine_names_the_other(tmp_path: Path, spark: SparkSession) -> None:
    with store_of(tmp_path).open(spark) as lake:
        table = lake.create_table("t", {"id": "BIGINT", "a.b": "VARCHAR"}, partitioned_by=["id"])
        table.append(pa.table({"id": pa.array([1, 2], pa.int64()), "a.b": ["a", "b"]}))
        for write in IMPOSSIBLE.values():
            with pytest.raises(UnsupportedError) as error:
                write(table)
            assert error.value.hint == 'omit engine="spark": then DuckDB carries it out'
        table.overwrite_partitions(pa.table({"id": pa.array([], pa.int64()), "a.b": []}), engine="spark")
        assert sorted(fetched(lake, "SELECT id FROM t")) == [(1,), (2,)]


@pytest.mark.slow
def test_explain_shows_the_way_of_each_write(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(tmp_path, data_inlining_row_limit=0)
    with store.open() as lake:
        assert create(lake, "t").explain().writes == {}
    with store.open(spark) as lake:
        table = lake.table("t")
        writes = table.explain(where="id < 8").writes
        assert list(writes) == ["append", "delete", "overwrite", "update", "merge", "execute"]
        assert writes["append"] == "spark: its files become files of the table"
        assert writes["delete"] == writes["overwrite"] == "duckdb: the files that can match (2) have 20 rows"
        assert writes["update"].startswith("duckdb: with all rows of the files, the updated rows have ")
        assert writes["merge"].startswith("duckdb: the files that can match (2) have ")
        assert writes["merge"].endswith("; spark, if the frame has more than 128 MiB")
        assert writes["execute"] == "duckdb: SQL runs in the commit"
        assert f"  merge         {writes['merge']}" in str(table.explain(where="id < 8")).splitlines()
        for limit in LIMITS:
            monkeypatch.setattr(rule, limit, 0)
        counts = (
            "spark: the files that can match (2) have 20 rows, more than 0 rows; duckdb, if at most 0 rows of them "
        )
        assert table.explain().writes["delete"] == f"{counts}satisfy the condition"
        writes = table.explain(where="id < 8").writes
        assert writes["overwrite"] == writes["delete"] == f"{counts}satisfy the condition"
        monkeypatch.setattr(rule, "MOST_FILE_BYTES", 0)
        writes = table.explain().writes
        assert [writes[kind].partition(":")[0] for kind in writes] == [*["spark"] * 5, "duckdb"]
        monkeypatch.setattr(capabilities, "PROVEN_STAGED_COMMITS", {("d8a1881e", "duckdb"), ("another", "sqlite")})
        reason = "the committer auto waits for proof: version d8a1881e of the ducklake extension, sqlite catalog"
        writes = table.explain().writes
        assert [writes[kind] for kind in ("delete", "overwrite", "update")] == [f"duckdb: {reason}"] * 3
        assert writes["merge"].endswith(f"; not staged: {reason}")
        with lake.transaction() as transaction:
            assert transaction.table("t").explain().writes["delete"].startswith("duckdb: ")


OTHERS = {"columns": "ALTER TABLE t RENAME day TO d", "name": "ALTER TABLE t RENAME TO u", "no table": "DROP TABLE t"}


@pytest.mark.slow
@pytest.mark.parametrize("engine", [None, "spark", "duckdb"])
@pytest.mark.parametrize("other", ["columns", *in_prove(["name", "no table"])])
def test_delete_after_a_change_of_the_table_is_a_conflict(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, other: str, engine: Any
) -> None:
    """Whatever way the delete would have gone, also if the change comes while its rows are counted."""
    monkeypatch.setattr(rule, "ROWS_PER_STATEMENT", 0)
    with store_of(tmp_path, data_inlining_row_limit=0).open(spark) as lake:
        for late in (False, True):
            table = create(lake, "t")

            def change(*_: object) -> rule.Amount:
                with store_of(tmp_path).connect() as plain:
                    plain.execute(f"USE dev; {OTHERS[other]}")
                return rule.Amount("nothing has", 0, 1)

            with monkeypatch.context() as patch:
                if late and engine is None:
                    patch.setattr(rule, "_matching_files", change)
                else:
                    change()
                with pytest.raises(CommitConflictError):
                    table.delete("id = 1", engine=engine)
            lake.refresh()
            run_plain(lake, "DROP TABLE IF EXISTS t", "DROP TABLE IF EXISTS u")
            lake.refresh()
