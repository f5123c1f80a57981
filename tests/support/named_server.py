"""A server of Spark that no Python starts, for Spark Connect and JDBC: its settings name a lake as a catalog.

Its clients have no lakeconf.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
from server_process import HOST, accepts_connections, free_port, run_server, wait_until_ready
from spark_classes import java_options, spark_settings

from lakeconf.engines.spark.java_home import ensure_java

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_HOME = Path(pyspark.__file__).parent
_CLIENT = Path(__file__).with_name("connect_client.py")
_SERVER = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
_PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"


@dataclass(frozen=True)
class NamedServer:
    """A running server."""

    folder: Path  # its settings, its log and its event log
    connect_port: int
    thrift_port: int
    process: int

    def by_connect(self, *sessions: Sequence[str]) -> list[list[Any]]:
        """The rows or the error of each statement, of a Python process whose threads have a session each."""
        command = [sys.executable, "-S", str(_CLIENT), sysconfig.get_path("purelib")]
        command += [f"sc://{HOST}:{self.connect_port}", json.dumps(sessions)]
        environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(command, cwd="/", env=environment, capture_output=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr.decode()
        answers: list[list[Any]] = json.loads(done.stdout)
        return answers

    def by_jdbc(self, *statements: str) -> str:
        """The rows and errors of statements, as Hive's client prints them, from one session."""
        url = f"jdbc:hive2://{HOST}:{self.thrift_port}/"
        options = ["--outputformat=csv2", "--showHeader=false", "--force=true"]
        command = [str(_HOME / "bin" / "beeline"), "-u", url, "-n", "tests", *options]
        for statement in statements:
            command += ["-e", f"{statement};"]
        done = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=False, timeout=300)
        return done.stdout + done.stderr

    def pythons(self) -> list[int]:
        """The ids of the processes that answer for its catalogs."""
        return [int(child) for child in Path(f"/proc/{self.process}/task/{self.process}/children").read_text().split()]


def _environment() -> dict[str, str]:
    own = {"JAVA_HOME": str(ensure_java()), "SPARK_HOME": str(_HOME), "SPARK_LOCAL_IP": HOST}
    return os.environ | own | {"JDK_JAVA_OPTIONS": java_options()}


@contextlib.contextmanager
def named_server(project: Path, store: str, more: Mapping[str, str]) -> Iterator[NamedServer]:
    """Starts a server with the lines that `lakeconf export spark` has written for a project."""
    folder, ports = project / "server", (free_port(), free_port())
    folder.mkdir()
    export = [sys.executable, "-m", "lakeconf", "export", "spark", "--store", store, "-o", str(folder)]
    subprocess.run(export, cwd=project, check=True, capture_output=True)
    file, log = folder / "spark-defaults.conf", folder / "log"
    # The packages are in the settings of the tests. A Thrift session that ends closes the loader of `spark.jars`.
    lines = [line for line in file.read_text().splitlines() if not line.startswith("spark.jars.")]
    jars = more.get("spark.jars", "").replace(",", os.pathsep)
    lines = [f"{line}{os.pathsep}{jars}" if line.startswith("spark.driver.extraClassPath ") else line for line in lines]
    settings = (
        spark_settings()
        | {key: value for key, value in more.items() if key != "spark.jars"}
        | {
            "spark.master": "local[2]",
            "spark.plugins": _PLUGIN,
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": str(ports[0]),
            "spark.hadoop.hive.server2.thrift.bind.host": HOST,
            "spark.hadoop.hive.server2.thrift.port": str(ports[1]),
            "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
            "spark.sql.catalogImplementation": "in-memory",  # Hive's metastore takes half a minute to start
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": folder.as_uri(),
        }
    )
    file.write_text("\n".join([*lines, *(f"{key} {value}" for key, value in settings.items())]))
    command = [str(_HOME / "bin" / "spark-submit"), "--class", _SERVER, "spark-internal"]
    environment = _environment() | {"SPARK_CONF_DIR": str(folder)}
    with log.open("wb") as output, run_server(command, output, env=environment) as process:
        wait_until_ready(process, log, lambda: all(map(accepts_connections, ports)))
        yield NamedServer(folder, *ports, process.pid)
