"""Sessions that change the same tables by name at the same time: each statement is done once, or is an error."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import TYPE_CHECKING

import pytest
from local_stores import config_of, on_postgres, rows
from named_writer import carried_out, start
from pyspark.errors import AnalysisException, PySparkException
from spark_classes import spark_settings
from strength import in_prove

import lakeconf

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from postgres_server import PostgresServer
    from pyspark.sql import SparkSession

    from lakeconf import Store

pytestmark = pytest.mark.slow

TIMES = 3
OVERWRITE = "INSERT OVERWRITE t SELECT id, n FROM t"


@pytest.fixture
def sessions(spark: SparkSession, store: Store) -> list[SparkSession]:
    """Sessions whose lakes share nothing but the catalog; the last one prepares and judges."""
    made = [spark.newSession() for _ in range(3)]
    for session in made:
        store.attach(session)
    return made


def at_once(*jobs: Callable[[], object]) -> None:
    """Runs jobs in threads that start together; the first error is raised."""
    barrier = Barrier(len(jobs))

    def run(job: Callable[[], object]) -> None:
        barrier.wait(60)
        job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        for done in [pool.submit(run, job) for job in jobs]:
            done.result()


def test_merges_of_the_same_keys_count_once(sessions: list[SparkSession]) -> None:
    *writers, judge = sessions
    judge.sql("CREATE TABLE t AS SELECT id, 0 AS n FROM range(2)")
    merge = (
        "MERGE INTO t USING (SELECT explode(array(0, 1, {own})) AS id) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET n = t.n + 1 WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, 1)"
    )
    done = [0, 0]

    def write(at: int) -> None:
        done[at] = len(carried_out(writers[at], [merge.format(own=10 + at)] * TIMES))

    at_once(lambda: write(0), lambda: write(1))
    assert sum(done)
    left = {row.id: row.n for row in judge.table("t").collect()}
    own = {10 + at: count for at, count in enumerate(done) if count}
    assert left == {0: sum(done), 1: sum(done)} | own
    assert judge.table("t").count() == len(left)


@pytest.mark.parametrize(
    "overwrite",
    [
        "INSERT OVERWRITE t SELECT id, part FROM t",
        *in_prove(
            [
                "INSERT INTO t REPLACE WHERE part = 1 SELECT id, part FROM t WHERE part = 1",
                "CREATE OR REPLACE TABLE t AS SELECT id, part FROM t",
            ]
        ),
    ],
    ids=["all", "where", "table"],
)
def test_an_overwrite_keeps_the_rows_of_inserts(sessions: list[SparkSession], overwrite: str) -> None:
    """It writes what it has read: no row that another session inserts is lost or doubled."""
    *writers, judge = sessions
    judge.sql("CREATE TABLE t AS SELECT id, CAST(1 AS INT) AS part FROM range(3)")
    inserts = [f"INSERT INTO t VALUES ({100 + number}, 1)" for number in range(TIMES)]
    inserted = list[int]()

    def insert() -> None:
        inserted.extend(number for number, each in enumerate(inserts) if carried_out(writers[0], [each]))

    at_once(insert, lambda: carried_out(writers[1], [overwrite] * TIMES))
    expected = [0, 1, 2, *(100 + number for number in inserted)]
    assert sorted(row.id for row in judge.table("t").collect()) == expected
    assert inserted


def test_a_table_is_created_once(sessions: list[SparkSession], store: Store) -> None:
    created = list[tuple[str, int]]()

    def create(name: str, at: int) -> None:
        try:
            sessions[at].sql(f"CREATE TABLE {name} AS SELECT {at} AS session FROM range(4)")
        except AnalysisException as error:
            if "already exists" not in str(error) and "CommitConflictError" not in str(error):
                raise
        else:
            created.append((name, at))

    names = [f"new.t{number}" for number in range(TIMES)]
    for name in names:
        at_once(*(partial(create, name, at) for at in (0, 1)))
    assert [name for name, _ in created] == names
    with store.open() as lake:
        for name, winner in created:
            assert rows(lake, f"FROM {name}") == [(winner,)] * 4


@pytest.mark.prove
def test_reads_during_maintenance_are_whole_or_errors(sessions: list[SparkSession]) -> None:
    """Also those of a snapshot that expires."""
    writer, reader, judge = sessions
    judge.sql("CREATE TABLE t AS SELECT id, id % 7 AS n FROM range(70)")
    first = judge.sql("SELECT max(snapshot_id) FROM main.t.history").collect()[0][0]
    seen = list[int]()

    def maintain() -> None:
        for _ in range(TIMES):
            writer.sql("UPDATE t SET n = n + 1 WHERE id % 3 = 0")
            writer.sql("UPDATE t SET n = n - 1 WHERE id % 3 = 0")
            writer.sql("CALL dev.system.compact('t')")
            ages = "older_than => current_timestamp(), force => true, dry_run => false"
            writer.sql(f"CALL dev.system.expire_snapshots({ages})")
            writer.sql(f"CALL dev.system.cleanup({ages})")
        seen.append(-1)

    def read() -> None:
        while -1 not in seen:
            for source in ("t", f"t VERSION AS OF {first}"):
                try:
                    ((count, ids),) = reader.sql(f"SELECT count(*), sum(id) FROM {source}").collect()
                except PySparkException:
                    continue
                assert (count, ids) == (70, sum(range(70)))
                seen.append(count)

    at_once(maintain, read)
    assert len(seen) > 1
    assert judge.sql("SELECT count(*), sum(id) FROM t").collect() == [(70, sum(range(70)))]


@pytest.mark.prove
def test_two_processes_lose_and_double_nothing(
    spark: SparkSession, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    """Each has its own Spark; the catalog is on PostgreSQL."""
    config = config_of(tmp_path, on_postgres(postgres_server))
    own = spark.newSession()
    lakeconf.init(config).get_store("dev").attach(own)
    own.sql("CREATE TABLE t AS SELECT id, CAST(0 AS INT) AS n FROM range(2)")

    def statements(writer: int) -> list[str]:
        merge = (
            f"MERGE INTO t USING (SELECT explode(array(0, 1, {10 + writer})) AS id) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET n = t.n + 1 WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, 1)"
        )
        each = [[f"INSERT INTO t VALUES ({100 * writer + number}, 0)", merge, OVERWRITE] for number in range(1, 7)]
        return [statement for three in each for statement in three]

    done: dict[int, list[int]] = {}
    with start(config, spark_settings(), statements(2)) as process:
        at_once(
            lambda: done.update({1: carried_out(own, statements(1))}),
            lambda: done.update({2: json.loads(process.communicate("go\n")[0])}),
        )
    merges = {writer: sum(number % 3 == 1 for number in numbers) for writer, numbers in done.items()}
    assert all(merges.values())
    expected = {0: sum(merges.values()), 1: sum(merges.values())}
    for writer, numbers in done.items():
        expected[10 + writer] = merges[writer]
        expected |= {100 * writer + number // 3 + 1: 0 for number in numbers if number % 3 == 0}
    left = own.table("t").collect()
    assert len(left) == len(expected)
    assert {row.id: row.n for row in left} == expected
