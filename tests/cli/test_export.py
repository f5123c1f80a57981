"""`lakeconf export`, `report` and `preview-sql`: what they print or write, and that it has no secrets."""

from __future__ import annotations

import json
import subprocess
import sys
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


@pytest.mark.slow
def test_page_is_written(events_folder: Path, called: Any) -> None:
    assert called("report", "--store", "dev") == (0, "wrote lake.html\n", "")
    page = (events_folder / "lake.html").read_text(encoding="utf-8")
    assert ">The lake of dev</h1>" in page
    assert ">raw.events</a></td>" in page
    code, out, err = called("report", "-o", "other.html", "--format", "json")
    size = (events_folder / "other.html").stat().st_size
    assert (code, err, json.loads(out)) == (0, "", {"path": "other.html", "store": "dev", "bytes": size})
    (events_folder / "lake.html").write_text("mine")
    code, out, err = called("report")
    assert (code, out, (events_folder / "lake.html").read_text()) == (2, "", "mine")
    assert "lake.html already exists; use --force to overwrite it" in err
    assert called("report", "--force") == (0, "wrote lake.html\n", "")
    assert (events_folder / "lake.html").read_text(encoding="utf-8") != "mine"
    code, out, err = called("report", "-o", "none/lake.html")
    assert (code, out, "none/lake.html cannot be written: No such file" in err) == (2, "", True)


def test_preview_sql_of_the_default_store(run_in_stores: Any, project: Path) -> None:
    code, out, err = run_in_stores("preview-sql")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == 'USE "dev";'
    assert f"sqlite:{project}/catalog.sqlite" in out
    assert not (project / "catalog.sqlite").exists()


def test_preview_sql_masks_shows_or_references_the_secret(run_in_stores: Any, variables: None) -> None:
    masked = run_in_stores("preview-sql", "--store", "prod")[1]
    assert "PASSWORD '***'" in masked
    assert "PASSWORD 'hunter2'" in run_in_stores("preview-sql", "--store", "prod", "--show-secrets")[1]
    portable = run_in_stores("preview-sql", "--store", "prod", "--portable")[1]
    assert "PASSWORD getenv('PGPASSWORD')" in portable
    assert portable.startswith("LOAD ducklake;")
    assert "hunter2" not in masked + portable
    code, out, err = run_in_stores("preview-sql", "--show-secrets", "--portable")
    assert (code, out, "cannot be combined" in err) == (2, "", True)
    data = json.loads(run_in_stores("preview-sql", "--store", "prod", "--format", "json")[1])
    assert data["store"] == data["alias"] == "prod"
    assert data["extensions"] == ["ducklake", "postgres_scanner", "httpfs", "aws"]
    assert data["statements"] == masked.splitlines()


def test_portable_script_with_a_literal_secret_is_refused(run_in_stores: Any, project: Path, variables: None) -> None:
    toml = project / "lakeconf.toml"
    toml.write_text(toml.read_text().replace("${PGPASSWORD}", "hunter3"))
    code, out, err = run_in_stores("preview-sql", "--store", "prod", "--portable")
    assert (code, out) == (1, "")
    assert err.startswith("error: stores.prod.metadata_backend.password is no variable")
    assert "  hint: " in err
    assert "hunter3" not in err


def test_preview_sql_imports_only_the_backends_it_needs(project: Path) -> None:
    code = (
        "import sys; from lakeconf.cli.app import run; run(['preview-sql']);"
        "print(*(name for name in sys.modules if name.startswith(('lakeconf.backends', 'duckdb', 'rich'))))"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=True)
    loaded = set(result.stdout.splitlines()[-1].split())
    # Only the backends of the previewed store are loaded: secrets of other stores are recognised by their keys.
    assert {name for name in loaded if name.count(".") == 3} == {
        "lakeconf.backends.metadata.file_catalogs",
        "lakeconf.backends.metadata.migration",
        "lakeconf.backends.storage.local",
    }
    assert not {name for name in loaded if not name.startswith("lakeconf")}
