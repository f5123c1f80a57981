"""A Spark application has a lake by its settings: it starts the Python process that answers, and starts it again."""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jvm_calls import jvm_of
from pyspark.errors import AnalysisException

import lakeconf
from lakeconf.engines.spark import internals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def processes(of: SparkSession) -> list[int]:
    """The Python processes that answer for catalogs of the application."""
    jvm = int(jvm_of(of).ProcessHandle.current().pid())
    found = []
    for process in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            status, line = (Path(f"/proc/{process}/{name}").read_text() for name in ("status", "cmdline"))
        except OSError:
            continue
        if f"PPid:\t{jvm}\n" in status and "pyspark_lakeconf.named_process" in line:
            found.append(process)
    return found


@pytest.fixture
def configured(spark: SparkSession, project: Path) -> Iterator[Callable[..., SparkSession]]:
    """Makes sessions of an application whose settings name the store `dev` as the catalog `named`."""
    keys = {"": internals.CATALOG_CLASS, ".store": "dev", ".config": str(project / "lakeconf.toml")}
    settings = {f"spark.sql.catalog.named{key}": text for key, text in keys.items()}
    settings["spark.sql.catalog.named.python"] = sys.executable
    own = spark.newSession()
    internals.define_catalog(own)

    def configure(**changes: str) -> SparkSession:
        changed = {f"spark.sql.catalog.named.{key}": text for key, text in changes.items()}
        internals.configure(own, settings | changed)
        return own.newSession()

    yield configure
    context = own.sparkContext._jsc.sc()
    for key in settings:
        own._jsparkSession.sharedState().conf().remove(key)
        context.conf().remove(key)
    for process in processes(own):
        kill(process)


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    while Path(f"/proc/{process}").exists():  # until Java has its exit code
        os.sched_yield()


def counted(spark: SparkSession) -> Any:
    return spark.sql("SELECT count(*), sum(n) FROM named.raw.t").collect()[0]


def test_the_process_answers_until_it_is_killed_and_then_another_one(configured: Callable[..., SparkSession]) -> None:
    spark = configured()
    spark.sql("CREATE TABLE named.raw.t AS SELECT id AS n FROM range(3)")
    frame = spark.table("named.raw.t")
    (process,) = processes(spark)
    assert processes(spark) == [process]
    other = spark.newSession()
    assert counted(other) == (3, 3)
    kill(process)
    with pytest.raises(AnalysisException, match="the Python process of the lake has ended"):
        frame.count()
    assert counted(spark) == (3, 3)
    (second,) = processes(spark)
    assert second != process
    other.sql("INSERT INTO named.raw.t VALUES (10)")
    assert counted(spark) == (4, 13)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"store": "nothing"}, "ConfigError.*nothing"),
        ({"config": "/nowhere/lakeconf.toml"}, "ConfigError.*/nowhere/lakeconf.toml"),
        ({"python": "/bin/false"}, "SparkError: the Python process of lakeconf did not start"),
        ({"python": "/nowhere/python"}, "Cannot run program"),
    ],
)
def test_a_process_that_does_not_start_is_an_error_of_the_statement(
    configured: Callable[..., SparkSession], changes: dict[str, str], error: str
) -> None:
    spark = configured(**changes)
    for _ in range(2):
        with pytest.raises(Exception, match=f"(?s){error}"):
            spark.sql("SHOW NAMESPACES IN named")
    assert processes(spark) == []


def test_a_session_cannot_choose_the_program(spark: SparkSession, project: Path) -> None:
    own = spark.newSession()
    internals.define_catalog(own)
    for key, text in {"": internals.CATALOG_CLASS, ".store": "dev", ".python": sys.executable}.items():
        own.conf.set(f"spark.sql.catalog.chosen{key}", text)
    with pytest.raises(AnalysisException, match="the lake was not attached to this Spark application"):
        own.sql("SHOW NAMESPACES IN chosen")


def test_sessions_at_the_same_time_have_their_own_state(configured: Callable[..., SparkSession], project: Path) -> None:
    spark = configured()
    spark.sql("CREATE TABLE named.raw.t AS SELECT id AS n FROM range(3)")
    spark.sql("CREATE TABLE named.own.u AS SELECT id AS n FROM range(1)")
    spark.sql("USE named.own")

    def writer(number: int) -> list[Any]:
        session = spark.newSession()
        session.sql("USE named.raw")
        counts = []
        for step in range(3):
            session.sql(f"CREATE TABLE t{number}_{step} AS SELECT {number} AS n FROM t")
            session.sql(f"INSERT INTO t SELECT {100 * number + step} AS n")
            rows = session.sql("SELECT count(*), count(DISTINCT n) FROM t").collect()[0]
            both = session.sql("SELECT (SELECT count(*) FROM t) - (SELECT count(n) FROM t)").collect()[0][0]
            counts.append((rows[0] == rows[1], both, session.catalog.currentDatabase()))
        return counts

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(writer, range(1, 5))) == [[(True, 0, "raw")] * 3] * 4
    assert spark.catalog.currentDatabase() == "own"
    assert [row.n for row in spark.sql("SELECT * FROM u").collect()] == [0]
    with lakeconf.init(project).get_store("dev").connect() as connection:
        (rows,) = connection.execute("SELECT list(n ORDER BY n) FROM raw.t").fetchone() or ()
        assert rows == [0, 1, 2, *(100 * number + step for number in range(1, 5) for step in range(3))]
        assert len(connection.execute("SELECT 1 FROM duckdb_tables() WHERE schema_name = 'raw'").fetchall()) == 13
