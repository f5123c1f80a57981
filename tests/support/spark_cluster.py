"""A standalone cluster of Spark on loopback: a master and two workers in processes of their own.

Its executors have neither lakeconf nor a configuration: their Python is one without packages, in an empty folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from server_process import HOST, accepts_connections, free_port, run_server, wait_until_ready
from spark_classes import java_options

from lakeconf.engines.spark.java_home import ensure_java

if TYPE_CHECKING:
    from collections.abc import Iterator

SPARK_HOME = Path(pyspark.__file__).parent
# The Python of the environment has no packages.
PYTHON = str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")
_DEPLOY = "org.apache.spark.deploy"
_WORKERS = 2


@dataclass(frozen=True)
class SparkCluster:
    """A running cluster."""

    url: str  # its address for drivers
    folder: Path  # what its processes write: logs, and the output of executors

    def executors(self) -> list[int]:
        """The ids of the processes of all executors."""
        java = [process for process in _processes() if "CoarseGrainedExecutorBackend" in _read(process, "cmdline")]
        return [process for process in java if str(self.folder) in _working_folder(process)]

    def kill_executor_with(self, port: int) -> None:
        """Kills the executor that has a connection from a port."""
        (killed,) = (process for process in self.executors() if _has_connection(process, port))
        os.kill(killed, signal.SIGKILL)

    def shown(self) -> str:
        """The command line of each process of the machine, and the variables of the executors and of the workers."""
        lines = {process: _read(process, "cmdline") for process in _processes()}
        of_cluster = [*self.executors(), *(process for process, line in lines.items() if f"{_DEPLOY}.worker" in line)]
        return "\n".join([*lines.values(), *(_read(process, "environ") for process in of_cluster)])


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _read(process: int, name: str) -> str:
    """A file about a process; empty if the process has ended."""
    with contextlib.suppress(OSError):
        return (Path("/proc") / str(process) / name).read_text(errors="replace")
    return ""


def _working_folder(process: int) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{process}/cwd")
    return ""


def _has_connection(process: int, port: int) -> bool:
    sockets = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if int(fields[1].rpartition(":")[2], 16) == port:
                sockets.add(f"socket:[{fields[9]}]")
    folder = Path("/proc") / str(process) / "fd"
    opened = set()
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            opened.add(os.readlink(folder / name))
    return not sockets.isdisjoint(opened)


@contextlib.contextmanager
def spark_cluster(folder: Path) -> Iterator[SparkCluster]:
    """Starts a cluster, whose processes write to a folder."""
    java = ensure_java()
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    settings = {"JAVA_HOME": str(java), "SPARK_HOME": str(SPARK_HOME), "JDK_JAVA_OPTIONS": java_options()}
    settings |= {"PYSPARK_PYTHON": PYTHON, "SPARK_LOCAL_IP": HOST, "SPARK_NO_DAEMONIZE": "1"}
    environment, port, page = kept | settings, free_port(), free_port()
    start = [str(SPARK_HOME / "bin" / "spark-class")]
    master = [*start, f"{_DEPLOY}.master.Master", "--host", HOST, "--port", str(port), "--webui-port", str(page)]
    log, url = folder / "log", f"spark://{HOST}:{port}"
    worker = [*start, f"{_DEPLOY}.worker.Worker", "--host", HOST, "--cores", "1", "--memory", "1g"]
    worker += ["--webui-port", "0", "--work-dir", str(folder / "work"), url]

    def workers() -> bool:
        # The master serves its HTML page at each path until it has added that of /json: ValueError.
        status = f"http://{HOST}:{page}/json/"
        with contextlib.suppress(OSError, ValueError), urllib.request.urlopen(status, timeout=5) as reply:
            return bool(json.load(reply)["aliveworkers"] == _WORKERS)
        return False

    with log.open("ab") as output, contextlib.ExitStack() as stack:
        process = stack.enter_context(run_server(master, output, env=environment))
        wait_until_ready(process, log, lambda: accepts_connections(port))
        for _ in range(_WORKERS):
            stack.enter_context(run_server(worker, output, env=environment))
        wait_until_ready(process, log, workers)
        yield SparkCluster(url, folder)
