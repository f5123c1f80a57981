"""`lakeconf export`: prints or writes the configuration of another tool or the JSON Schema."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from lakeconf.config.config import init
from lakeconf.config.schema import json_schema
from lakeconf.integrations.exports import TOOLS, export
from lakeconf.pipelines.models.unit_tests import pipeline_schema

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def stores(project: Path, run_in_stores: Any, variables: None) -> Path:
    return project


@pytest.mark.parametrize("tool", sorted(TOOLS))
def test_every_tool_is_printed(tool: str, stores: Path, called: Any) -> None:
    made = export(init(), tool, "dev")
    code, out, err = called("export", tool, "--store", "dev")
    assert (code, out, err) == (0, made.text.rstrip("\n") + "\n", "")
    assert all(f"# {note}" in made.text for note in made.notes)


def test_file_is_written_to_a_path_or_a_folder(stores: Path, called: Any) -> None:
    made = export(init(), "dbt", "dev", "prod")
    code, out, err = called("export", "dbt", "--store", "dev", "--store", "prod", "-o", ".")
    assert (code, out, (stores / "profiles.yml").read_text()) == (0, "", made.text)
    assert err.startswith("note: threads: 1")
    assert "hunter2" not in made.text
    of_dev = export(init(), "dbt", "dev")
    expected = {"tool": "dbt", "path": None, "text": of_dev.text, "notes": list(of_dev.notes)}
    code, out, err = called("export", "dbt", "--format", "json")
    assert (code, err, json.loads(out)) == (0, "", expected)
    found = json.loads(called("export", "dbt", "--format", "json", "--output", "other.yml")[1])
    assert found == {**expected, "path": "other.yml"}
    assert (stores / "other.yml").read_text() == of_dev.text


def test_existing_file_is_kept_without_force(stores: Path, called: Any) -> None:
    (stores / "profiles.yml").write_text("mine")
    for output in ("profiles.yml", "."):
        code, out, err = called("export", "dbt", "--store", "dev", "-o", output)
        assert (code, out, (stores / "profiles.yml").read_text()) == (2, "", "mine")
        assert "profiles.yml already exists; use --force to overwrite it" in err
    assert called("export", "dbt", "--store", "dev", "-o", "profiles.yml", "--force")[0] == 0
    assert (stores / "profiles.yml").read_text() == export(init(), "dbt", "dev").text


def test_refused_exports(stores: Path, called: Any) -> None:
    for arguments, code, message in (
        (("dbt", "-o", "missing/profiles.yml"), 2, "missing/profiles.yml cannot be written: No such file"),
        (("dlt", "--store", "dev", "--store", "prod"), 1, "error: dlt supports one store at a time"),
        (("airflow",), 2, "'airflow'"),
        (("dbt", "--store", "nowhere"), 1, "nowhere"),
    ):
        found, out, err = called("export", *arguments)
        assert (found, out, message in err, "note:" in err) == (code, "", True, False)


def test_schema_prints_the_schema(run_in_stores: Any) -> None:
    code, out, _ = run_in_stores("export", "json-schema")
    assert code == 0
    assert json.loads(out) == json_schema(pipeline_schema())
    jsonschema.Draft202012Validator.check_schema(json.loads(out))
