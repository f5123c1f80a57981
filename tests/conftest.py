"""Fixtures for all tests: a clean environment, a project folder, a shared Spark session."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import hypothesis
import pytest
from local_stores import store_of
from spark_classes import java_options, spark_settings
from strength import PROVE

from lakeconf.engines.spark.java_home import ensure_java

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from lakeconf import Store


_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  # the only folder in memory that every Linux has
_NEEDED_BYTES = 6 * 2**30


def use_memory() -> None:
    """Sets the folder for temporary files, also of subprocesses, unless TMPDIR names one or the memory is small."""
    if "TMPDIR" in os.environ or not os.access(_SHARED_MEMORY, os.W_OK):
        return
    if shutil.disk_usage(_SHARED_MEMORY).free >= _NEEDED_BYTES and _available_bytes() >= _NEEDED_BYTES:
        os.environ["TMPDIR"] = str(_SHARED_MEMORY)
        os.environ.setdefault("SPARK_LOCAL_DIRS", str(_SHARED_MEMORY))
        tempfile.tempdir = None  # `tempfile` then reads TMPDIR again


def _available_bytes() -> int:
    """The memory that programs can have without swapping."""
    found = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(found["MemAvailable"].split()[0]) * 1024


# dbt and SQLMesh do not support Python 3.14 yet, as docs/platforms.md says: importing them fails there.
_NEED_DBT = (
    "integrations/test_dbt.py",
    "integrations/test_sqlmesh.py",
    "docs/test_names.py",
    "test_public_interface.py",
)
collect_ignore = [*_NEED_DBT] if sys.version_info >= (3, 14) else []

pytest_plugins = [
    "crash_reports",
    "tiers",
    "comparisons",
    "missing_tools",
    "server_fixtures",
    "hadoop_aws",
    "golden_files",
    "example_backends",
    "damaged_catalogs",
    "lake_fixtures",
    "connect_server",
]

# `make test` runs few examples, the same every time; `make prove` runs many more random ones.
_SLOW_IS_FINE = [hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.function_scoped_fixture]
hypothesis.settings.register_profile(
    "test", max_examples=50, deadline=None, derandomize=True, suppress_health_check=_SLOW_IS_FINE
)
hypothesis.settings.register_profile("prove", max_examples=2000, deadline=None, suppress_health_check=_SLOW_IS_FINE)
hypothesis.settings.load_profile("prove" if PROVE else "test")
if not PROVE:
    os.environ.setdefault("SPARK_SUBMIT_OPTS", java_options())
    use_memory()

# For each column, PySpark looks for this module anew in all folders of packages. `None` says that it is missing.
if importlib.util.find_spec("ipykernel") is None:
    sys.modules["ipykernel"] = None  # type: ignore[assignment]

_connect = duckdb.connect
# Verifying the signature of an extension takes 0.1 s, thousands of times in a run.
_CHEAP = {"allow_unsigned_extensions": "true"}
if not PROVE:
    # Tables of tests have few rows, which DuckDB never divides, but each instance starts its threads and wakes them for
    # each query: a quarter of the CPU time.
    _CHEAP["threads"] = "1"


def _connect_cheaply(*arguments: Any, config: Any = None, **settings: Any) -> duckdb.DuckDBPyConnection:
    """`duckdb.connect` without the cost of signatures and threads. Subprocesses of tests have both."""
    return _connect(*arguments, **settings | {"config": {**_CHEAP, **(config or {})}})


duckdb.connect = _connect_cheaply

PROJECT = """\
default_store = "dev"

[stores.dev.metadata_backend]
type = "sqlite"
uri = "catalog.sqlite"

[stores.dev.storage_backend]
type = "local"
path = "data"
"""


def pytest_collection_finish() -> None:
    """Spares Python's garbage collector the objects of the 11,000 collected tests, which live to the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes the `LAKECONF_` variables of the developer who runs the tests."""
    for name in list(os.environ):
        if name.startswith("LAKECONF_"):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def default_connection() -> Iterator[None]:
    """No test leaves DuckDB's default connection, which all tests of the process share, in a failed transaction."""
    yield
    with contextlib.suppress(duckdb.Error):
        duckdb.rollback()


# The session of the fixture `spark`, once a test has requested it.
sessions: list[SparkSession] = []


@pytest.fixture(autouse=True)
def spark_session_is_kept() -> Iterator[None]:
    """No test leaves changed settings or another active session to later tests, which share the Spark session."""

    def settings() -> list[Any]:
        return [session._jsparkSession.conf().getAllAsJava() for session in sessions]

    before = settings()
    yield
    after = settings()
    # A test that starts the session has nothing to compare. Stores in buckets add settings of Hadoop and of packages.
    if before and after and not before[0].equals(after[0]):
        # A lake that is attached stays a catalog of the session, until the next one with its name.
        old, new = (
            {
                name: value
                for name, value in found[0].items()
                if name.startswith("spark.sql.") and not name.startswith("spark.sql.catalog.")
            }
            for found in (before, after)
        )
        assert new == old
    for session in sessions:
        # Not `getActiveSession`: it imports pyspark, which a test may have hidden.
        active = type(session)._activeSession
        if active is not None and not active._jsparkSession.equals(session._jsparkSession):
            session.createDataFrame([], "i int")  # activates its session
            pytest.fail("another Spark session is active")


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables of the store `prod`, which some tests declare."""
    monkeypatch.setenv("PGHOST", "db.example.com")
    monkeypatch.setenv("PGPASSWORD", "hunter2")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder; it contains only a lakeconf.toml with one store, `dev`, on SQLite and local files."""
    (tmp_path / "lakeconf.toml").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store on a SQLite catalog and a folder; the lake does not exist yet."""
    return store_of(tmp_path)


@pytest.fixture(params=["on_duckdb", "on_spark"])
def engine(request: pytest.FixtureRequest) -> SparkSession | None:
    """The argument of `store.open` for each engine."""
    return request.getfixturevalue("spark") if request.param == "on_spark" else None


@pytest.fixture(scope="session")
def spark_event_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for the event log of the session, with plans and settings."""
    return tmp_path_factory.mktemp("spark-events")


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> SparkSession:
    """The only Spark session of the run, because starting one takes longer than most tests."""
    over_connect = request.config.getoption("--spark-connect")
    found: SparkSession = request.getfixturevalue("only_connect_session" if over_connect else "classic_session")
    return found


def _import_classes(session: SparkSession) -> None:
    """The classes that PySpark names without their package: otherwise each use searches the JAR files of Spark."""
    from py4j.java_gateway import java_import

    for name in ("sql.api.python.PythonSQLUtils", "api.python.PythonUtils", "api.python.PythonErrorUtils"):
        java_import(session._jvm, f"org.apache.spark.{name}")


@pytest.fixture(scope="session")
def classic_session(
    hadoop_aws_settings: dict[str, str], spark_event_log: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """The session of the fixture `spark` in a run without `--spark-connect`."""
    from pyspark.sql import SparkSession  # slow; only for tests that need Spark

    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("lakeconf tests")
    settings = (
        spark_settings()
        | hadoop_aws_settings
        | {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",  # compressed logs cannot be searched for secrets
            "spark.eventLog.dir": spark_event_log.as_uri(),
            "spark.sql.warehouse.dir": tmp_path_factory.mktemp("spark-warehouse").as_uri(),
        }
    )
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    _import_classes(session)
    sessions.append(session)
    yield session
    sessions.remove(session)
    session.stop()
