"""The built package works as the README says, installed in an empty environment with or without an extra."""

from __future__ import annotations

import email
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from source_tree import REPOSITORY, all_imports
from strength import in_prove

import lakeconf
from lakeconf.engines.spark.java_home import ensure_java

PYPROJECT: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
PROJECT: dict[str, Any] = PYPROJECT["project"]
INSTALL = re.search(r"## Install\n\n```console\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.DOTALL)
assert INSTALL is not None
README_LINES = [shlex.split(line, comments=True) for line in INSTALL[1].splitlines()]
# Dependencies that only other libraries import.
NOT_IMPORTED = {"pytz"}
STORES = "\n".join(
    f"""
[stores.{name}.metadata_backend]
type = "sqlite"
uri = "{name}/catalog.sqlite"

[stores.{name}.storage_backend]
type = "local"
path = "{name}/data"
"""
    for name in ("dev", "prod", "new")
)
# An error of the library itself, which reads the metadata of a table.
ADOPT = """
import lakeconf
from lakeconf.errors import QueryError
from pathlib import Path
Path("table", FOLDER).mkdir(parents=True)
for name, text in FILES.items():
    Path("table", FOLDER, name).write_text(text)
with lakeconf.init().get_store().open() as lake:
    try:
        lake.adopt("table", "adopted")
    except QueryError as error:
        assert "cannot be read" in str(error), error
    else:
        raise AssertionError("a damaged table was adopted")
"""
EXTRAS = {
    "delta": f'FOLDER, FILES = "_delta_log", {{"00000000000000000000.json": "{{"}}{ADOPT}',
    "iceberg": f'FOLDER, FILES = "metadata", {{"version-hint.text": "1", "v1.metadata.json": "{{"}}{ADOPT}',
    "polars": """
import lakeconf, polars as pl
with lakeconf.init().get_store().open() as lake:
    rows = pl.DataFrame({"id": [1, 2]})
    lake.create_table("t", like=rows)
    lake.table("t").append(rows)
assert lakeconf.scan_polars(None, "t").filter(pl.col("id") > 1).collect().rows() == [(2,)]
""",
    "arrow": """
import lakeconf, pyarrow
with lakeconf.init().get_store().open() as lake:
    rows = pyarrow.table({"id": [1, 2]})
    lake.create_table("t", like=rows)
    lake.table("t").append(rows)
    assert lake.table("t").scan().sort("id").collect().to_native().to_pylist() == [{"id": 1}, {"id": 2}]
""",
    "dotenv": """
import pathlib
from lakeconf.cli.options import env_variables
pathlib.Path("variables").write_text("A=1")
assert env_variables(pathlib.Path("variables")) == {"A": "1"}
""",
    "openlineage": """
from lakeconf.pipelines import Pipeline
from lakeconf.pipelines.openlineage import LineageEvents
with LineageEvents(Pipeline([]), "dev") as events:
    assert events.lost == []
""",
    "connect": """
import lakeconf
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote("local[1]").getOrCreate()
with lakeconf.init().get_store().open(spark) as lake:
    lake.create_table("t", spark.range(3)).append(spark.range(3))
    assert lake.table("t").scan(where="id > 0").to_native().count() == 2
spark.stop()
""",
    "sqlmesh": """
from lakeconf.integrations.sqlmesh import connection
adapter = connection("dev").create_engine_adapter()
adapter.execute("CREATE TABLE t AS SELECT 42 AS id")
assert adapter.fetchall("FROM t") == [(42,)]
""",
    "dbt": """
import duckdb
from dbt.adapters.duckdb.plugins import PluginConfig
from lakeconf.integrations.dbt import Plugin
with duckdb.connect() as connection:
    Plugin("lakeconf", {"stores": ["dev"]}).configure_connection(connection)
    assert connection.sql("SELECT current_database()").fetchall() == [("dev",)]
""",
    "dlt": """
import dlt
from lakeconf.integrations.dlt import destination
pipeline = dlt.pipeline("p", destination=destination("dev"), dataset_name="raw", pipelines_dir="pipelines")
pipeline.run([{"id": 42}], table_name="t")
import lakeconf
with lakeconf.init().get_store().open() as lake:
    assert lake.table("raw.t").scan(["id"]).to_native().fetchall() == [(42,)]
""",
    "dagster": """
import dagster, pandas
from lakeconf.integrations.dagster import LakeIOManager
@dagster.asset
def t() -> pandas.DataFrame:
    return pandas.DataFrame({"id": [42]})
@dagster.asset
def u(t: pandas.DataFrame) -> pandas.DataFrame:
    assert t["id"].tolist() == [42]
    return t
assert dagster.materialize([t, u], resources={"io_manager": LakeIOManager()}).success
""",
    "report": """
import lakeconf
from lakeconf.cli.app import run
with lakeconf.init().get_store().open() as lake:
    lake.create_table("t", like={"id": "BIGINT"})
assert run(["report"]) == 0
""",
}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the built wheel and source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    build(REPOSITORY, folder)
    return folder


def build(checkout: Path, folder: Path) -> None:
    """Builds as `make dist` does."""
    pinned = ["--build-constraints", str(REPOSITORY / "action-requirements.txt"), "--require-hashes"]
    uv("build", "--quiet", *pinned, "--out-dir", str(folder), cwd=checkout)


def test_the_metadata_has_a_version_that_checkers_know(dist: Path) -> None:
    """hatchling writes the newest version, which the action that publishes on PyPI rejects."""
    (wheel,), (source,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive, tarfile.open(source) as files:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        (member,) = (member for member in files if member.name.count("/") == 1 and member.name.endswith("/PKG-INFO"))
        packed = files.extractfile(member)
        assert packed is not None
        assert {archive.read(name).split(b"\n")[0], packed.readline().rstrip()} == {b"Metadata-Version: 2.4"}


@pytest.fixture
def installed_project(tmp_path: Path) -> Path:
    """A folder with two stores, a pipeline of one model in SQL and one in Python."""
    (tmp_path / "lakeconf.toml").write_text(
        'default_store = "dev"\n\n[pipeline]\npython = ["models.py"]\n\n'
        '[pipeline.models."marts.upper"]\nsql = "upper.sql"\n' + STORES
    )
    (tmp_path / "upper.sql").write_text("SELECT upper(name) AS name FROM marts.names")
    (tmp_path / "models.py").write_text(
        "from lakeconf.pipelines import Full, model\n\n\n"
        '@model("marts.names", Full(), inputs={"events": "raw.events"})\n'
        'def names(events):\n    return events.select("id", "name")\n'
    )
    return tmp_path


def uv(*arguments: str, cwd: Path = REPOSITORY) -> None:
    """Runs uv offline; if its cache is incomplete, runs it with the package index."""
    command = [str(Path(sys.executable).with_name("uv")), *arguments]
    for more in (["--offline"], []):
        result = subprocess.run([*command, *more], cwd=cwd, capture_output=True, text=True, check=False)
        if result.returncode == 0:
            return
    raise AssertionError(f"{' '.join(command)}\n{result.stdout}{result.stderr}")


def environment(dist: Path, folder: Path, extras: set[str]) -> Path:
    """Installs the wheel with these extras in an empty environment, and returns its Python executable."""
    home = folder / ".environment"
    uv("venv", "--quiet", "--python", sys.executable, str(home))
    python = home / "bin" / "python"
    (wheel,) = dist.glob("*.whl")
    requirement = f"{wheel}[{','.join(sorted(extras | {'bundled'}))}]"
    pinned = ["--constraint", str(REPOSITORY / "requirements.lock")]
    uv("pip", "install", "--quiet", "--python", str(python), *pinned, requirement)
    return python


def carried_out(python: Path, folder: Path, *arguments: str) -> str:
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "LAKECONF_"))}
    command = [str(python), *arguments]
    result = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def distributions(python: Path) -> set[str]:
    listed = "import importlib.metadata as m, json; print(json.dumps([d.name for d in m.distributions()]))"
    return set(json.loads(carried_out(python, Path.cwd(), "-c", listed)))


# The DuckDB extensions are always installed as packages, so that the test needs no DuckDB server.
@pytest.mark.slow
@pytest.mark.prove("extras1")
@pytest.mark.parametrize(
    "extras", sorted({tuple(sorted(Requirement(line[2]).extras - {"bundled"})) for line in README_LINES})
)
def test_each_install_line_of_the_readme_works(extras: tuple[str, ...], dist: Path, installed_project: Path) -> None:
    assert all(line[:2] == ["pip", "install"] and Requirement(line[2]).name == "lakeconf" for line in README_LINES)
    python = environment(dist, installed_project, set(extras))
    optional = {"pyarrow", "pandas", "polars", "rich", "numpy", "pyspark", "sqlglot"}
    assert ("spark" in extras) == bool(distributions(python) & optional)
    if "spark" in extras:
        ensure_java()  # sets JAVA_HOME if Spark would find no Java
    job = str(REPOSITORY / "tests" / "support" / "installed_job.py")
    assert carried_out(python, installed_project, job, *(["spark"] * ("spark" in extras))).endswith("done\n")


@pytest.mark.slow
@pytest.mark.parametrize("extra", ["arrow", *in_prove(sorted(EXTRAS.keys() - {"arrow"}))])
def test_each_extra_works_alone(extra: str, dist: Path, installed_project: Path) -> None:
    python = environment(dist, installed_project, {extra})
    carried_out(python, installed_project, "-c", EXTRAS[extra])


def test_every_extra_is_installed_by_a_test() -> None:
    in_readme = {extra for line in README_LINES for extra in Requirement(line[2]).extras}
    assert set(PROJECT["optional-dependencies"]) - {"dev", "docs"} == set(EXTRAS) | in_readme


def test_every_dependency_is_imported() -> None:
    imported = {found.imported.partition(".")[0] for found in all_imports()}
    needed = {Requirement(line).name.replace("-", "_") for line in PROJECT["dependencies"]}
    assert needed - NOT_IMPORTED <= imported


def test_packages_contain_the_modules_and_nothing_else(dist: Path) -> None:
    (wheel,), (archive,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    git = shutil.which("git") or "git"
    tracked = subprocess.run([git, "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    tops = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    modules = {name for name in tracked.stdout.splitlines() if name.partition("/")[0] in tops}
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    metadata = {name for name in names if ".dist-info/" in name}
    assert names - metadata == modules
    assert {name.partition("/")[2] for name in metadata} == {
        *("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
    }
    with tarfile.open(archive) as packed_source:
        sources = {name.partition("/")[2] for name in packed_source.getnames()}
    assert sources == modules | {"CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml", ".gitignore", "PKG-INFO"}


def test_the_readme_in_the_metadata_links_to_the_files_of_the_release(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(packed.read(name))
    readme = (REPOSITORY / "README.md").read_text()
    files = [link for link in re.findall(r"\]\(([^)]*)\)", readme) if not link.startswith("https://")]
    source = f"{PROJECT['urls']['Source']}/(?:blob|raw)/v{lakeconf.__version__}/"
    shown = metadata.get_payload()
    assert isinstance(shown, str)
    links = re.findall(r"\]\(([^)]*)\)", shown)
    assert [link for link in links if not link.startswith("https://")] == []
    assert [re.sub(source, "", link) for link in links if re.match(source, link)] == files
    assert len(files) > 50
    assert [link for link in files if not (REPOSITORY / link).exists()] == []
    assert re.findall(r"/raw/v[^)]*/(\w+)\.svg", shown) == ["overview"]


@pytest.mark.parametrize("checker", [["twine", "check", "--strict"], ["check_wheel_contents"]], ids=["twine", "wheel"])
def test_built_package_passes_the_checks_of_a_release(checker: list[str], dist: Path) -> None:
    command = [sys.executable, "-m", *checker, *map(str, dist.glob("*.whl" if len(checker) == 1 else "lakeconf-*"))]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow
def test_another_checkout_builds_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    git = shutil.which("git") or "git"
    changed = subprocess.run([git, "stash", "create"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    commit = changed.stdout.strip() or "HEAD"
    packed = subprocess.run([git, "archive", commit], cwd=REPOSITORY, capture_output=True, check=True)
    checkout = tmp_path / "elsewhere"
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
        files.extractall(checkout, filter="data")
    build(checkout, tmp_path / "dist")
    names = sorted(path.name for path in dist.glob("lakeconf-*"))
    assert len(names) == 2
    assert [(dist / name).read_bytes() == (tmp_path / "dist" / name).read_bytes() for name in names] == [True, True]


def test_error_for_missing_pyarrow_names_the_extra(project: Path) -> None:
    (project / "job.py").write_text(
        "import sys\nsys.modules['pyarrow'] = None\nimport lakeconf, pandas\n"
        "with lakeconf.init().get_store().open() as lake:\n"
        "    lake.create_table('t', like=pandas.DataFrame({'id': [1]}))\n"
    )
    result = subprocess.run([sys.executable, "job.py"], capture_output=True, text=True, check=False)
    assert "MissingDependencyError" in result.stderr
    assert "pip install 'lakeconf[arrow]'" in result.stderr
