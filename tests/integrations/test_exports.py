"""Exported files for other tools: they contain names instead of secrets, and the tools accept them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from doc_pages import blocks

import lakeconf
from lakeconf.config.config import init
from lakeconf.errors import LakeconfError
from lakeconf.integrations.exports import TOOLS, export

if TYPE_CHECKING:
    from collections.abc import Callable


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
def test_exported_file_of_each_tool(
    tool: str, stores: Path, check_golden: Callable[[Path, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/env/bin/python")
    made = export(init(), tool, "prod")
    assert not any(value in made.text for value in VARIABLES.values())
    check_golden(GOLDEN / made.file_name, made.text.replace(str(stores), "/shop"))
    if tool in ("dagster", "dbt", "dlt", "sqlmesh"):  # they only name a store, and need no variables
        for name in VARIABLES:
            monkeypatch.delenv(name)
        assert export(init(), tool, "prod") == made


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_page_shows_the_exported_files(stores: Path) -> None:
    (block,) = blocks("export.md", "console")
    command, _, output = block.partition("\n")
    assert output == export(init(), *command.removeprefix("$ lakeconf export ").split(" --store ")).text
    pages = {path.stem for path in (Path(__file__).parents[2] / "docs" / "integrations").glob("*.md")}
    assert pages - {"duckdb", "polars", "pytest"} | {"spark"} == TOOLS.keys()


def test_names_in_the_file_for_dbt_are_text(stores: Path) -> None:
    """Names that are values in YAML stay names, and an alias with special characters is refused."""
    file = stores / "lakeconf.toml"
    for name in ("yes", "on", "null", "true", "dev"):
        file.write_text(PROD.replace("stores.prod", f"stores.{name}").replace('"lake"', f'"{name}"'))
        found = yaml.safe_load(export(init(), "dbt", name).text)["lakeconf"]
        assert (found["target"], list(found["outputs"])) == (name, [name])
        assert found["outputs"][name]["attach"][0]["alias"] == found["outputs"][name]["database"] == name
        assert found["outputs"][name]["plugins"][0]["config"] == {"stores": [name]}
    for text in ("a\nb", "x}\n      - evil: {", "{{ env_var('S3_SECRET') }}", "a: b", "a b"):
        file.write_text(PROD.replace('"lake"', json.dumps(text), 1))
        with pytest.raises(LakeconfError, match="cannot be written for dbt"):
            export(init(), "dbt", "prod")
