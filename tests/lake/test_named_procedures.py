"""Spark's SQL calls procedures of a lake by name, and reads the history, the files and the changes of a table."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from local_stores import ids, store_of
from pyspark.errors import AnalysisException

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store

pytestmark = pytest.mark.slow


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    """The lake `dev` with two tables of two files, and a snapshot that deletes a row of the first."""
    with store.open() as lake:
        for name in ("raw.e", "raw.other"):
            lake.create_table(name, {"id": "BIGINT", "day": "DATE"}, partitioned_by=["day"])
            for start in (0, 20):
                lake.execute(f"INSERT INTO {name} SELECT i, DATE '2026-01-01' FROM range({start}, {start + 20}) t(i)")
        lake.execute("DELETE FROM raw.e WHERE id = 3")
        yield lake


def called(sql: SparkSession, statement: str) -> list[tuple[Any, ...]]:
    return list(map(tuple, sql.sql(f"CALL dev.system.{statement}").collect()))


def test_compact(sql: SparkSession, lake: Lake) -> None:
    filled = "INSERT INTO {} SELECT i, DATE '2026-01-01' FROM range(20) t(i)"
    lake.create_table("raw.third", {"id": "BIGINT", "day": "DATE"})
    for _ in range(2):
        lake.execute(filled.format("raw.third"))
    ((before, after, bytes_before, bytes_after, complete),) = called(sql, "compact('raw.other')")
    assert (before, after, complete) == (2, 1, True)
    assert bytes_before > bytes_after
    lake.refresh()
    assert [len(lake.table(f"raw.{name}").files()) for name in ("other", "third")] == [1, 2]
    assert called(sql, "compact(table => 'dev.raw.third')")[0][:2] == (2, 1)
    lake.refresh()
    lake.execute(filled.format("raw.third"))
    lake.execute(filled.format("raw.other"))
    before, after, *_ = called(sql, "compact()")[0]
    assert before - after == 2


def test_procedures_that_delete_need_an_argument_for_it(sql: SparkSession, lake: Lake, tmp_path: Path) -> None:
    lake.maintenance.compact()
    before, paths = len(lake.snapshots()), set(tmp_path.rglob("*.parquet"))
    plan = lake.maintenance.expire_snapshots(older_than=timedelta(), keep=2, dry_run=True, force=True)
    now = "older_than => current_timestamp()"
    for dry in ("", ", dry_run => true"):
        assert called(sql, f"expire_snapshots({now}, keep => 2, force => true{dry})") == [
            (version, False) for version in plan
        ]
    assert len(lake.snapshots()) == before
    expired = called(sql, f"expire_snapshots({now}, keep => 2, force => true, dry_run => false)")
    assert expired == [(version, True) for version in plan]
    assert len(lake.snapshots()) == 2
    removable = called(sql, f"cleanup({now}, force => true)")
    assert removable
    assert set(tmp_path.rglob("*.parquet")) == paths
    removed = called(sql, f"cleanup({now}, force => true, dry_run => false)")
    assert removed == [(path, True) for path, _ in removable]
    assert paths - set(tmp_path.rglob("*.parquet")) == {tmp_path / path for path, _ in removed}
    assert called(sql, "expire_snapshots(current_timestamp() - INTERVAL 2 DAYS, dry_run => false)") == []


def test_restore(sql: SparkSession, lake: Lake) -> None:
    versions = [change.snapshot_id for change in lake.table("raw.e").history()]
    time = next(snapshot.time for snapshot in lake.snapshots() if snapshot.snapshot_id == versions[2])
    sql.sql("CACHE TABLE raw.e")
    assert sql.table("raw.e").count() == 39
    assert called(sql, f"restore('raw.e', {versions[1]})") == [(versions[-1] + 1,)]
    assert sql.table("raw.e").count() == 20
    called(sql, f"restore(timestamp => TIMESTAMP '{time.isoformat()}', table => 'raw.e')")
    assert sql.table("raw.e").count() == 40
    sql.sql("UNCACHE TABLE raw.e")
    sql.sql("DROP TABLE raw.e")
    called(sql, f"restore('dev.raw.e', {versions[-1]})")
    lake.refresh()
    assert (len(ids(lake, "raw.e")), lake.snapshots()[-1].message) == (39, f"restore raw.e to version {versions[-1]}")
    sql.sql("USE dev.raw")
    before = len(lake.snapshots())
    sql.sql(f"EXPLAIN CALL system.restore('e', {versions[1]})").collect()
    assert len(lake.snapshots()) == before
    assert called(sql, f"restore('e', {versions[1]})") == [(before,)]


def test_names_are_those_of_queries(sql: SparkSession, lake: Lake) -> None:
    for text, name in (('"a b"."c.d"', "`a b`.`c.d`"), ('"q""u\'o"."`t`"', "`q\"u'o`.```t```"), ("main.T", "t")):
        lake.create_table(text, {"id": "BIGINT"}).append([{"id": 1}])
        (version,) = (change.snapshot_id for change in lake.table(text).history() if "inserted" in str(change.changes))
        lake.table(text).delete("id = 1")
        literal = name.replace("'", "\\'")
        assert called(sql, f"restore('{literal}', {version})")
        assert [
            row.id for row in sql.sql(f"SELECT id FROM table_changes('{literal}', {version}, {version})").collect()
        ] == [1]
        assert sql.sql(f"SELECT * FROM {name if '.' in name else f'main.{name}'}.history").count() == 4
        assert called(sql, f"compact('{literal}')")


def test_history_and_files_of_a_table(sql: SparkSession, lake: Lake) -> None:
    table = lake.table("raw.e")
    changes = sql.sql("SELECT snapshot_id, changes, message, author FROM dev.raw.e.history").collect()
    assert list(map(tuple, changes)) == [
        (change.snapshot_id, list(change.changes), change.message, change.author) for change in table.history()
    ]
    (last,) = sql.sql("SELECT max(time) AS time FROM raw.e.history").collect()
    assert last.time.timestamp() == pytest.approx(table.history()[-1].time.timestamp())
    files = sql.table("dev.raw.e.files").collect()
    assert [(file.path, file.rows, file.deleted_rows, tuple(file.partition)) for file in files] == [
        (file.path, file.rows, file.deleted_rows, file.partition) for file in table.files()
    ]
    assert sql.sql(
        "SELECT count(*) FROM raw.e.files f JOIN raw.e.history USING (snapshot_id)".replace(
            "USING (snapshot_id)", "h ON f.begin_snapshot = h.snapshot_id"
        )
    ).collect() == [(2,)]
    first = table.history()[1].snapshot_id
    assert sql.sql(f"SELECT * FROM raw.e.history VERSION AS OF {first}").count() == 2
    assert sql.sql(f"SELECT * FROM raw.e.files VERSION AS OF {first}").count() == 1
    for statement, text in {
        "SELECT * FROM raw.e.nothing": "TABLE_OR_VIEW_NOT_FOUND",
        "SELECT * FROM raw.nothing.history": "TABLE_OR_VIEW_NOT_FOUND",
        "DELETE FROM raw.e.history": "raw.e.history cannot be changed",
        "UPDATE raw.e.history SET message = 'x'": "raw.e.history cannot be changed",
        "MERGE INTO raw.e.files t USING raw.e s ON t.rows = s.id WHEN MATCHED THEN DELETE": "cannot be changed",
        "TRUNCATE TABLE raw.e.files": "raw.e.files cannot be changed",
        "INSERT INTO raw.e.files SELECT * FROM raw.e.files": "cannot be changed",
        "INSERT OVERWRITE raw.e.files SELECT * FROM raw.e.files": "cannot be changed",
        "DROP TABLE raw.e.history": "one schema",
        "ALTER TABLE raw.e.history DROP COLUMN time": "one schema",
        "CREATE TABLE raw.e.history (a INT)": "already exists",
        "CREATE TABLE raw.e.more (a INT)": "one schema",
    }.items():
        with pytest.raises(AnalysisException, match=text):
            sql.sql(statement)


def test_changes_of_a_table(sql: SparkSession, lake: Lake) -> None:
    table = lake.table("raw.e")
    created, first, second, deleted = (change.snapshot_id for change in table.history())
    times = {snapshot.snapshot_id: snapshot.time.isoformat() for snapshot in lake.snapshots()}

    def changes(arguments: str) -> list[tuple[Any, ...]]:
        frame = sql.sql(f"SELECT snapshot_id, rowid, change_type, id FROM table_changes({arguments})")
        return sorted(map(tuple, frame.collect()))

    for arguments, (since, until) in {
        f"'dev.raw.e', {first}, {second}": (first, second),
        f"'raw.e', {second}": (second, deleted),
        f"'raw.e', 1 + {first}, CAST({deleted} AS SMALLINT)": (first + 1, deleted),
        f"'raw.e', '{times[second]}', TIMESTAMP '{times[deleted]}'": (second, deleted),
    }.items():
        rows = table.changes(since, until).collect("pyarrow").to_native().to_pylist()
        assert changes(arguments) == sorted(
            (row["snapshot_id"], row["rowid"], row["change_type"], row["id"]) for row in rows
        )
    joined = f"SELECT e.id FROM raw.e RIGHT JOIN table_changes('raw.e', {deleted}) c ON e.id = c.id"
    assert [tuple(row) for row in sql.sql(joined).collect()] == [(None,)]
    for arguments, text in {
        "'raw.e'": "two or three arguments",
        "'raw.e', 1, 2, 3": "two or three arguments",
        "'raw.e', NULL": "a snapshot of the range is NULL",
        "NULL, 1": "the name of the table is not a string",
        "'raw.e', 1.5": "1.5BD is not a snapshot or a time",
        "'raw.e', DATE '2026-01-01'": "is not a snapshot or a time",
        "'raw.e', since => 3": "is not a constant",
        "'raw.e', '2026-01-01'": "no time zone",
        f"'raw.e', {created}, 99": "until snapshot 99",
        "'raw.nothing', 1": "TableNotFoundError: no table 'raw.nothing'",
        "'spark_catalog.raw.e', 1": "not a table of a lake",
        "'raw.e-f', 1": "is not the name of a table",
        "'dev.raw.e.history', 1": "one schema",
        "'', 1": "is not the name of a table",
    }.items():
        with pytest.raises(AnalysisException, match=text):
            sql.sql(f"SELECT * FROM table_changes({arguments})")


def test_a_function_of_the_same_name_keeps_its_tables(own: SparkSession, store: Store, lake: Lake) -> None:
    own.sql(
        "CREATE TEMPORARY FUNCTION table_changes(name STRING, since INT) RETURNS TABLE (text STRING) "
        "RETURN SELECT 'changes of ' || name"
    )
    for _ in range(2):
        store.attach(own, use=False)
    assert own.sql("SELECT * FROM table_changes('mine', 1)").collect() == [("changes of mine",)]
    assert "change_type" in own.sql("SELECT * FROM table_changes('dev.raw.e', 2)").columns


REFUSED = {
    "nothing()": "a lake has no procedure 'nothing'.*system.compact, system.expire_snapshots",
    "compact('raw.nothing')": "TableNotFoundError: no table 'raw.nothing'",
    "compact('raw.e', 3)": "WRONG_NUM_ARGS|too many|PROCEDURE",
    "compact('a.b.c')": "one schema",
    "compact('spark_catalog.raw.e')": "is not a table of dev",
    "compact('e-f')": "is not the name of a table",
    "restore('raw.e')": "either a version or a timestamp",
    "restore('raw.e', 1, current_timestamp())": "either a version or a timestamp",
    "restore(version => 1)": "REQUIRED_PARAMETER_NOT_FOUND",
    "restore(NULL, 1)": "table of restore is NULL",
    "restore('raw.e', 99)": "SnapshotNotFoundError",
    "restore('raw.e', -1)": "SnapshotNotFoundError",
    "restore('raw.e', timestamp => TIMESTAMP '+200000-01-01 00:00:00')": "a year from 1 to 9999",
    "restore('raw.e', 1, other => 2)": "UNRECOGNIZED_PARAMETER_NAME",
    "expire_snapshots()": "REQUIRED_PARAMETER_NOT_FOUND",
    "expire_snapshots(NULL, dry_run => false)": "older_than of expire_snapshots is NULL",
    "expire_snapshots(current_timestamp(), dry_run => false)": "less than a day",
    "expire_snapshots(current_timestamp(), dry_run => NULL)": "dry_run of expire_snapshots is NULL",
    "expire_snapshots(TIMESTAMP '2020-01-01', keep => 0)": "keep is 0",
    "cleanup(current_timestamp(), dry_run => false)": "less than a day",
    "cleanup(TIMESTAMP '2020-01-01', force => NULL)": "force of cleanup is NULL",
}


def test_wrong_calls_change_nothing(sql: SparkSession, lake: Lake) -> None:
    before = len(lake.snapshots())
    for statement, text in REFUSED.items():
        with pytest.raises(AnalysisException, match=f"(?s){text}"):
            called(sql, statement)
    with pytest.raises(AnalysisException, match=r"no procedure 'raw\.compact'"):
        sql.sql("CALL dev.raw.compact()")
    assert len(lake.snapshots()) == before


def test_a_pinned_or_read_only_lake_refuses_procedures(own: SparkSession, lake: Lake, tmp_path: Path) -> None:
    pinned: dict[str, dict[str, Any]] = {"old": {"snapshot_version": 2}, "ro": {"read_only": True}}
    for alias, options in pinned.items():
        store_of(tmp_path, **options).replace(alias=alias).attach(own, use=False)
        for call in ("compact()", "restore('raw.e', 1)", "expire_snapshots(TIMESTAMP '2020-01-01', dry_run => false)"):
            with pytest.raises(AnalysisException, match=r"read_only|read-only|pinned"):
                own.sql(f"CALL {alias}.system.{call}")
    assert own.table("old.raw.e.history").count() == 2


def test_partitions_and_properties(sql: SparkSession, lake: Lake) -> None:
    lake.create_table("raw.two", {"a": "INTEGER", "b": "VARCHAR", "c": "INTEGER"}, partitioned_by=["b", "a"])
    lake.table("raw.two").append(
        [{"a": 1, "b": "x=y", "c": 1}, {"a": None, "b": None, "c": 1}, {"a": 2, "b": "z", "c": 1}]
    )
    lake.create_table("raw.years", {"ts": "TIMESTAMP"}, partitioned_by=["year(ts)"], comment="some table")
    shown = [row.partition for row in sql.sql("SHOW PARTITIONS raw.two").collect()]
    assert shown == ["b=null/a=null", "b=x%3Dy/a=1", "b=z/a=2"]
    assert [row.partition for row in sql.sql("SHOW PARTITIONS raw.two PARTITION (a = 2)").collect()] == ["b=z/a=2"]
    assert sql.sql("SHOW TABLE EXTENDED IN dev.raw LIKE '*'").count() == 4
    assert sql.sql("SHOW TBLPROPERTIES raw.years").collect() == []
    for statement, text in {
        "SHOW PARTITIONS raw.years": "raw.years is partitioned by year\\(ts\\).*raw.years.files",
        "SHOW PARTITIONS raw.e.history": "not partitioned",
        "ALTER TABLE raw.two DROP PARTITION (a = 2, b = 'z')": "DELETE FROM",
        "ALTER TABLE raw.two ADD PARTITION (a = 1, b = 'n')": "DELETE FROM",
        "TRUNCATE TABLE raw.two PARTITION (a = 2, b = 'z')": "DELETE FROM",
        "SHOW VIEWS IN dev.raw": "has no SHOW VIEWS",
    }.items():
        with pytest.raises(AnalysisException, match=f"(?s){text}"):
            sql.sql(statement)
