"""Jobs on a real cluster: a master and two workers, whose Python has neither lakeconf nor a configuration."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cluster_job
import pyarrow as pa
import pytest
from cluster_job import TABLE
from doc_pages import block, named
from pyarrow import parquet
from server_process import HOST
from server_project import Project, make_project
from spark_classes import java_options
from spark_cluster import PYTHON, SPARK_HOME, SparkCluster, spark_cluster
from strength import PROVE

import lakeconf
from lakeconf.engines.spark.java_home import ensure_java

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servers import FaultProxy, PostgresServer, S3Server

Rows = dict[int, tuple[int, str]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


def submitted(cluster: SparkCluster) -> dict[str, str]:
    """The environment of spark-submit, whose driver has the packages of the tests."""
    ensure_java()
    programs = [str(Path(sys.executable).parent), str(SPARK_HOME / "bin"), os.environ["PATH"]]
    own = {"PATH": os.pathsep.join(programs), "PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_PYTHON": PYTHON}
    return os.environ | own | {"SPARK_MASTER": cluster.url, "JDK_JAVA_OPTIONS": java_options(), "SPARK_LOCAL_IP": HOST}


@pytest.mark.slow
def test_cluster_page_job_runs_on_separate_executors(project: Path, cluster: SparkCluster) -> None:
    toml = project / "lakeconf.toml"
    toml.write_text(toml.read_text().replace("dev", "prod"))
    sales = pa.table({"day": ["monday", "monday", "tuesday"], "amount": [1, 2, 4]})
    with lakeconf.init(project).get_store("prod").open() as lake:
        lake.create_table("raw.sales", sales)
        lake.table("raw.sales").append(sales)
    (project / "job.py").write_text(named("cluster.md", "python")["job.py"])
    done = subprocess.run(
        ["sh", "-ec", block("cluster.md", "sh", "spark.jars.")],  # noqa: S607 - the shell of the page
        cwd=project,
        env=submitted(cluster),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done marts.revenue 2\n"
    with lakeconf.init(project).get_store("prod").open() as lake:
        assert sorted(lake.table("marts.revenue").scan().collect("pyarrow").rows()) == [("monday", 3), ("tuesday", 4)]
        assert lake.snapshots()[-1].extra_info is not None
        assert "app-" in str(lake.snapshots()[-1].extra_info)


@pytest.fixture
def server_project(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    postgres_server: PostgresServer,
    s3_server: S3Server,
    s3_proxy: FaultProxy,
) -> Project:
    """A store on PostgreSQL and behind a proxy of S3, whose secrets are in variables of this process."""
    found = make_project(tmp_path, monkeypatch, postgres_server, s3_server, f"{HOST}:{s3_proxy.port}")
    # With a schema of its own, no staged commit is possible.
    file = tmp_path / "lakeconf.toml"
    file.write_text(file.read_text().replace('metadata_schema = "prod"', ""))
    return found


def made(start: int, end: int, value: str | None = None) -> Rows:
    return {number: (number % 3, value or f"v{number}") for number in range(start, end)}


def kept(rows: Rows, *parts: int) -> Rows:
    return {number: row for number, row in rows.items() if row[0] in parts}


# The rows after each operation, given those before it.
AFTER: dict[str, Any] = {
    "append": lambda _: made(0, 60),
    "overwrite": lambda rows: kept(rows, 0, 2) | kept(made(60, 90), 1),
    "merge": lambda rows: rows | made(30, 90, "merged"),
    "delete": lambda rows: {number: row for number, row in rows.items() if not 20 <= number < 40},
    "scan": lambda rows: rows,
    "stream": lambda rows: rows | made(100, 120),
    "merge_by_name": lambda rows: rows | made(110, 130, "named"),
    "scan_by_name": lambda rows: rows,
}
# The operations that lose an executor.
LOST = list(AFTER) if PROVE else list(AFTER)[::2]
# A request of an executor for a file of rows, which it writes or reads.
OF_EXECUTORS = re.compile(rb"(?:GET|PUT) \S+\.parquet HTTP[\s\S]*?Hadoop")
_SECONDS = 100.0


@pytest.fixture
def driver(
    server_project: Project, cluster: SparkCluster, hadoop_aws_settings: dict[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """A driver on the cluster, which has opened the lake; it logs events."""
    folder = server_project.folder
    for name in ("events", "source"):
        (folder / name).mkdir()
    rows = [{"id": number, "part": part, "value": value} for number, (part, value) in made(100, 120).items()]
    parquet.write_table(pa.Table.from_pylist(rows), folder / "source" / "rows.parquet")
    address = {"spark.driver.host": HOST, "spark.driver.bindAddress": HOST}
    events = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{folder}/events"}
    settings = hadoop_aws_settings | address | events | {"spark.master": cluster.url, "spark.executor.memory": "512m"}
    command = [sys.executable, cluster_job.__file__, str(folder), json.dumps(settings)]
    environment = submitted(cluster)
    with (
        (folder / "stderr").open("wb") as errors,
        subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as job,
    ):
        yield job


@pytest.mark.slow
@pytest.mark.hadoop_aws
def test_each_operation_survives_the_loss_of_an_executor(
    server_project: Project, cluster: SparkCluster, s3_proxy: FaultProxy, driver: subprocess.Popen[str]
) -> None:
    assert driver.stdin is not None
    assert driver.stdout is not None
    log = server_project.folder / "stderr"
    assert driver.stdout.readline() == "ready\n", log.read_text()
    rows: Rows = {}
    for operation, after in AFTER.items():
        if operation in LOST:
            s3_proxy.hold_on(OF_EXECUTORS)
        driver.stdin.write(f"{operation}\n")
        driver.stdin.flush()
        if operation in LOST:
            assert s3_proxy.wait_until_held(_SECONDS), log.read_text()
            server_project.assert_no_secret(text=cluster.shown())
            cluster.kill_executor_with(s3_proxy.held)
        answer = driver.stdout.readline()
        assert answer, log.read_text()
        rows = after(rows)
        expected = [(number, *row) for number, row in sorted(rows.items())]
        assert server_project.rows(f"SELECT id, part, value FROM {TABLE} ORDER BY id") == expected, operation
        if operation.startswith("scan"):
            scanned = json.loads(answer)
            assert scanned["rows"] == [list(row) for row in expected]
            server_project.assert_no_secret(text=scanned["plan"])
    driver.stdin.close()
    assert driver.wait() == 0
    server_project.assert_no_secret(cluster.folder)
