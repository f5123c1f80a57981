"""A Spark Connect server in a process of its own, and one session for all tests that need it. A pytest plugin.

`pyspark.sql.functions` are those of Spark Connect while a variable of the environment is set. So a test over Connect
runs beside the classic session of other tests.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from server_process import HOST, accepts_connections, free_port, run_server, wait_until_ready
from spark_classes import spark_settings

from lakeconf.engines.spark.java_home import ensure_java

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# pyspark sets it when it creates a session of Spark Connect.
_MODE = "SPARK_CONNECT_MODE_ENABLED"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--spark-connect", action="store_true", help="run the tests of Spark over Spark Connect")


@pytest.fixture(scope="session")
def connect_url(hadoop_aws_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the server, for clients in other processes."""
    folder, port = tmp_path_factory.mktemp("spark-connect"), free_port()
    log = folder / "server.log"
    python = os.environ.get("LAKECONF_CONNECT_SERVER", sys.executable)  # its version of Spark may be another one
    command = [python, __file__, str(port), str(folder), json.dumps(hadoop_aws_settings)]
    with log.open("wb") as output, run_server(command, output) as process:
        wait_until_ready(process, log, lambda: accepts_connections(port))
        yield f"sc://{HOST}:{port}"


@pytest.fixture(scope="session")
def connect_session(connect_url: str) -> Iterator[SparkSession]:
    """The session of Spark Connect of most tests; they use `connect`."""
    from pyspark.sql import SparkSession  # slow; only for tests that need Spark

    session = SparkSession.builder.remote(connect_url).create()
    os.environ.pop(_MODE)
    yield session
    session.stop()


@pytest.fixture
def connect(connect_session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """A session of Spark Connect, in a process that uses no other; its settings are reset after the test."""
    monkeypatch.setenv(_MODE, "1")
    before = dict(connect_session.conf.getAll)
    yield connect_session
    for key, value in connect_session.conf.getAll.items():
        if key not in before:
            connect_session.conf.unset(key)
        elif value != before[key]:
            connect_session.conf.set(key, before[key])
    assert connect_session.conf.getAll == before


@pytest.fixture(scope="session")
def only_connect_session(connect_session: SparkSession) -> Iterator[SparkSession]:
    """The session of the fixture `spark` in a run with `--spark-connect`; no test of the run uses a classic one."""
    os.environ[_MODE] = "1"
    yield connect_session
    os.environ.pop(_MODE)


def main(port: str, folder: str, more: str) -> None:
    """Becomes the server."""
    import pyspark

    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = spark_settings() | json.loads(more)
    settings |= {
        "spark.master": "local[2]",
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": port,
        "spark.sql.artifact.isolation.enabled": "true",
        "spark.sql.warehouse.dir": Path(folder, "warehouse").as_uri(),
    }
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    server = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    options = [option for key, value in settings.items() for option in ("--conf", f"{key}={value}")]
    os.execv(submit, [submit, *server, *options, "spark-internal"])  # noqa: S606 - the command of this installation


if __name__ == "__main__":
    main(*sys.argv[1:])
