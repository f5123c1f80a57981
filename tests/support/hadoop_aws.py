"""The real hadoop-aws and hadoop-azure that match the installed Spark, for tests marked `hadoop_aws`. A pytest plugin.

Maven downloads the jars into its local repository once; later runs need no network. Spark gets them as `spark.jars`:
with `spark.jars.packages` it would find the same jars, but query servers for each of them first, which without a
network takes as long as the rest of its startup.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from missing_tools import LEFT_OUT

from lakeconf.backends.storage.azure import azure_packages
from lakeconf.backends.storage.s3a import package_settings
from lakeconf.engines.spark.start import merged_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

_JARS = pytest.StashKey[list[str]]()
_TIMEOUT_SECONDS = 900
_DESELECTED = (
    "tests of Spark on object storage were deselected: Maven has no hadoop-aws and hadoop-azure that fit Spark in its "
    "local repository, and could not fetch it from Maven Central"
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "hadoop_aws: reads or writes object storage with Spark, through hadoop-aws")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects tests that need hadoop-aws if it is neither installed nor downloadable."""
    needing = [item for item in items if item.get_closest_marker("hadoop_aws")]
    if not needing:
        return
    worker: dict[str, list[str]] | None = getattr(config, "workerinput", None)
    jars = find_jars(config) if worker is None else worker["hadoop_aws"]
    if jars:
        config.stash[_JARS] = jars
        return
    config.hook.pytest_deselected(items=needing)
    items[:] = [item for item in items if item not in needing]
    config.stash[LEFT_OUT] = f"{len(needing)} {_DESELECTED}"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """With several test processes, only one calls Maven: two concurrent calls interfere with each other."""
    config: pytest.Config = node.config
    if _JARS not in config.stash:
        config.stash[_JARS] = find_jars(config)
    node.workerinput["hadoop_aws"] = config.stash[_JARS]
    if not config.stash[_JARS]:
        config.stash[LEFT_OUT] = f"the {_DESELECTED}"


@pytest.fixture(scope="session")
def hadoop_aws_settings(pytestconfig: pytest.Config) -> dict[str, str]:
    """Additional Spark settings if a selected test needs hadoop-aws."""
    jars = pytestconfig.stash.get(_JARS, None)
    return {"spark.jars": ",".join(jars)} if jars else {}


def find_jars(config: pytest.Config) -> list[str]:
    """The paths of hadoop-aws and its dependencies; empty if they are unavailable."""
    packages = merged_settings([package_settings(), azure_packages()])
    cache: Any = config.cache
    wanted = packages.get("spark.jars.packages", "")
    known: dict[str, list[str]] = cache.get("lakeconf/hadoop_aws", {})
    if known.get(wanted) and all(Path(jar).is_file() for jar in known[wanted]):
        return known[wanted]
    jars = _ask_maven(wanted.split(","), packages.get("spark.jars.excludes", "").split(",")) if wanted else []
    if jars:
        cache.set("lakeconf/hadoop_aws", {wanted: jars})
    return jars


def _ask_maven(packages: Iterable[str], excludes: Iterable[str]) -> list[str]:
    if not shutil.which("mvn"):
        return []
    with tempfile.TemporaryDirectory() as folder:
        pom, output = Path(folder, "pom.xml"), Path(folder, "classpath")
        pom.write_text(_pom(packages, excludes))
        goal = ["dependency:build-classpath", f"-Dmdep.outputFile={output}"]
        for network in ("--offline", "--update-snapshots"):
            command = ["mvn", "--batch-mode", "--quiet", network, f"--file={pom}", *goal]
            done = subprocess.run(command, capture_output=True, check=False, timeout=_TIMEOUT_SECONDS)
            if done.returncode == 0 and output.is_file():
                return output.read_text().strip().split(":")
    return []


def _pom(packages: Iterable[str], excludes: Iterable[str]) -> str:
    excluded = "".join(f"<exclusion>{_coordinates(each)}</exclusion>" for each in excludes if each)
    dependencies = "".join(
        f"<dependency>{_coordinates(each)}<exclusions>{excluded}</exclusions></dependency>" for each in packages
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion>"
        "<groupId>lakeconf</groupId><artifactId>tests</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )


def _coordinates(package: str) -> str:
    names = ("groupId", "artifactId", "version")
    return "".join(f"<{name}>{value}</{name}>" for name, value in zip(names, package.split(":"), strict=False))
