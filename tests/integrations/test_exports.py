"""Exported files for other tools: they contain names instead of secrets, and the tools accept them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from doc_pages import blocks
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lakeconf
from lakeconf.config.config import init
from lakeconf.errors import LakeconfError
from lakeconf.integrations.exports import TOOLS, _property, export

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

GOLDEN = Path(__file__).parent / "exported"
PROD = """
[stores.prod]
alias = "lake"

[stores.prod.metadata_backend]
type = "postgres"
host = "${PGHOST}"
database = "lake"
user = "lake"
password = "${PGPASSWORD}"

[stores.prod.storage_backend]
type = "s3"
bucket = "acme"
endpoint = "127.0.0.1:9000"
use_ssl = false
key_id = "${S3_KEY}"
secret = "${S3_SECRET}"
"""
VARIABLES = {"PGHOST": "planted-host", "PGPASSWORD": "planted-1", "S3_KEY": "planted-2", "S3_SECRET": "planted-3"}


@pytest.fixture
def stores(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stores dev and prod; the variables of prod are set."""
    with (project / "lakeconf.toml").open("a") as file:
        file.write(PROD)
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    return project


@pytest.mark.parametrize("tool", TOOLS)
def test_exported_file_of_each_tool(tool: str, stores: Path, check_golden: Callable[[Path, str], None]) -> None:
    made = export(init(), tool, "prod")
    assert not any(value in made.text for value in VARIABLES.values())
    check_golden(GOLDEN / made.file_name, made.text)


@pytest.mark.parametrize("tool", ["dagster", "dbt", "dlt", "sqlmesh"])
def test_files_that_only_name_a_store_need_no_variables(
    tool: str, stores: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = export(init(), tool, "prod")
    for name in VARIABLES:
        monkeypatch.delenv(name)
    assert export(init(), tool, "prod") == expected


def test_literal_secret_is_refused(stores: Path) -> None:
    file = stores / "lakeconf.toml"
    file.write_text(file.read_text().replace('"${S3_SECRET}"', '"planted-4"'))
    with pytest.raises(LakeconfError) as caught:
        export(init(), "spark", "prod")
    assert "planted" not in str(caught.value)


SHARING = PROD.replace("stores.prod", "stores.other").replace("S3_KEY", "OTHER_KEY")


def test_stores_with_conflicting_settings_are_refused(stores: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_KEY", VARIABLES["S3_KEY"])
    with (stores / "lakeconf.toml").open("a") as file:
        file.write(SHARING)
    with pytest.raises(
        LakeconfError,
        match=r"'other' and an earlier store .* different values for spark.hadoop.fs.s3a.bucket.acme.access",
    ):
        export(init(), "spark", "prod", "other")
    # Each store references its own variable, even if both have the same value.
    assert "${env.OTHER_KEY}" in export(init(), "spark", "other").text
    assert "${env.S3_KEY}" in export(init(), "spark", "prod").text


def test_literal_that_equals_a_variable_is_not_a_reference(stores: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "http://127.0.0.1:9000")
    assert "http://127.0.0.1:9000" in export(init(), "spark", "prod").text


@pytest.mark.parametrize("written", ["pre-${S3_SECRET}", "${S3_SECRET:-planted-5}"])
def test_partly_literal_secret_is_refused(written: str, stores: Path) -> None:
    file = stores / "lakeconf.toml"
    file.write_text(file.read_text().replace("${S3_SECRET}", written))
    with pytest.raises(LakeconfError, match="is not a single variable"):
        export(init(), "spark", "prod")


def test_secret_in_a_bucket_name_is_refused(stores: Path) -> None:
    file = stores / "lakeconf.toml"
    file.write_text(file.read_text().replace('"acme"', '"x-${S3_SECRET}"'))
    with pytest.raises(LakeconfError, match="bucket name of the store 'prod' contains a secret") as refused:
        export(init(), "spark", "prod")
    assert "planted" not in str(refused.value)


def test_dbt_runs_with_the_exported_profile(stores: Path) -> None:
    (stores / "profiles.yml").write_text(export(init(), "dbt", "dev").text)
    (stores / "models").mkdir()
    (stores / "models" / "one.sql").write_text("{{ config(materialized='table') }} SELECT 1 AS id")
    project = {"name": "shop", "version": "1.0", "profile": "lakeconf", "model-paths": ["models"]}
    (stores / "dbt_project.yml").write_text(yaml.safe_dump(project | {"flags": {"send_anonymous_usage_stats": False}}))
    command = [str(Path(sys.executable).parent / "dbt"), "run", "--profiles-dir", "."]
    done = subprocess.run(command, cwd=stores, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    with lakeconf.init().get_store("dev").open() as lake:
        assert lake.tables() == ["main.one"]


@pytest.mark.parametrize(("tool", "name"), [("sqlmesh", "config"), ("dagster", "definitions"), ("dlt", "pipeline")])
def test_exported_python_files_run(tool: str, name: str, stores: Path) -> None:
    made = export(init(), tool, "dev")
    path = stores / made.file_name
    path.write_text(made.text)
    code = f"import runpy; print(type(runpy.run_path({str(path)!r})[{name!r}]).__name__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=stores, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [{"sqlmesh": "Config", "dagster": "Definitions", "dlt": "Pipeline"}[tool]], (
        done.stderr
    )


def test_hadoop_resolves_environment_variables(stores: Path, spark: SparkSession) -> None:
    lines = dict(
        line.split(maxsplit=1) for line in export(init(), "spark", "prod").text.splitlines() if not line.startswith("#")
    )
    own: Any = init().get_store("prod").spark_conf()
    assert lines.keys() == own.keys()
    jvm: Any = spark._jvm
    configuration = jvm.org.apache.hadoop.conf.Configuration()
    # A variable that was set before Spark started.
    configuration.set("one", "${env.HOME}")
    assert configuration.get("one") == os.environ["HOME"]
    assert {key for key, value in lines.items() if value.startswith("${env.")} == own.secret_keys != set()


def test_page_shows_the_exported_files(stores: Path) -> None:
    shown = [block.partition("\n") for block in blocks("export.md", "console")]
    assert len(shown) == 2
    for command, _, output in shown:
        assert output == export(init(), *command.removeprefix("$ lakeconf export ").split(" --store ")).text


def test_every_documented_tool_has_an_export() -> None:
    pages = {path.stem for path in (Path(__file__).parents[2] / "docs" / "integrations").glob("*.md")}
    assert pages - {"duckdb", "polars", "pytest"} == TOOLS.keys() - {"spark"}


TEXT = st.text(st.characters(codec="utf-8"), min_size=1)


@given(TEXT, TEXT)
@example("0", ":")
@example("0", "=x")
@example("0", " = x")
def test_properties_are_read_back(key: str, value: str) -> None:
    """Each line is one property by the rules of Java's `Properties.load`, which `read_properties` follows."""
    line = f"{_property(key, is_key=True)}  {_property(value)}\n"
    assert line.isascii()
    assert line.count("\n") == 1
    assert "\r" not in line
    assert read_properties(line) == {key: value}


def read_properties(line: str) -> dict[str, str]:
    unescaped: list[tuple[str, bool]] = []
    units = iter(line.rstrip("\n"))
    for unit in units:
        if unit != "\\":
            unescaped.append((unit, False))
            continue
        following = next(units)
        known = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
        code = "".join(next(units) for _ in range(4)) if following == "u" else None
        unescaped.append((chr(int(code, 16)) if code else known.get(following, following), True))
    ends = [index for index, (unit, escaped) in enumerate(unescaped) if not escaped and unit in " =:\t\f"]
    end = ends[0] if ends else len(unescaped)
    rest = unescaped[end:]
    while rest and not rest[0][1] and rest[0][0] in " =:\t\f":
        rest = rest[1:]
    texts = ("".join(unit for unit, _ in part) for part in (unescaped[:end], rest))
    key, value = (text.encode("utf-16", "surrogatepass").decode("utf-16") for text in texts)
    return {key: value}


@pytest.mark.parametrize("name", ["yes", "on", "null", "true", "dev"])
def test_dbt_reads_names_as_text(name: str, stores: Path) -> None:
    (stores / "lakeconf.toml").write_text(PROD.replace("stores.prod", f"stores.{name}").replace('"lake"', f'"{name}"'))
    found = yaml.safe_load(export(init(), "dbt", name).text)["lakeconf"]
    assert (found["target"], list(found["outputs"])) == (name, [name])
    assert found["outputs"][name]["attach"][0]["alias"] == found["outputs"][name]["database"] == name
    assert found["outputs"][name]["plugins"][0]["config"] == {"stores": [name]}


HOSTILE = ["a\nb", "x}\n      - evil: {", "{{ env_var('S3_SECRET') }}", "a: b", "a b"]


@pytest.mark.parametrize("text", HOSTILE)
def test_alias_with_special_characters_is_refused(text: str, stores: Path) -> None:
    file = stores / "lakeconf.toml"
    file.write_text(PROD.replace('"lake"', json.dumps(text), 1))
    with pytest.raises(LakeconfError, match="cannot be written for dbt"):
        export(init(), "dbt", "prod")
    with pytest.raises(LakeconfError):
        export(init(), "spark", "prod")


@given(st.sampled_from(["region", "endpoint", "key_id", "bucket", "prefix"]), TEXT | st.sampled_from(HOSTILE))
@settings(max_examples=40)
def test_values_cannot_add_lines_or_statements(key: str, text: str) -> None:
    backend = {"type": "s3", "bucket": "acme", "key_id": "key", "secret": "${S3_SECRET}", key: text}
    data = {"stores": {"prod": {"metadata_backend": {"type": "sqlite", "uri": "c"}, "storage_backend": backend}}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("S3_SECRET", "planted-3")
        try:
            made = export(init(data), "spark", "prod")
        except LakeconfError:
            return
    lines = [line for line in made.text.splitlines() if not line.startswith("#")]
    assert {next(iter(read_properties(line))).partition(".")[0] for line in lines} == {"spark"}


def test_variables_that_only_hadoop_would_resolve_are_refused(stores: Path) -> None:
    file = stores / "lakeconf.toml"
    file.write_text(PROD.replace('"127.0.0.1:9000"', '"$${env.S3_SECRET}.example.com"'))
    with pytest.raises(LakeconfError, match="Hadoop would resolve as a variable"):
        export(init(), "spark", "prod")
