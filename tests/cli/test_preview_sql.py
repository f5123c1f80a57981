"""`lakeconf preview-sql`: SQL without secrets, as text, as JSON and as a portable script."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def test_preview_sql_of_the_default_store(run_in_stores: Any, project: Path) -> None:
    code, out, err = run_in_stores("preview-sql")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == 'USE "dev";'
    assert f"sqlite:{project}/catalog.sqlite" in out
    assert not (project / "catalog.sqlite").exists()


def test_preview_sql_masks_shows_or_references_the_secret(run_in_stores: Any, variables: None) -> None:
    assert "PASSWORD '***'" in run_in_stores("preview-sql", "--store", "prod")[1]
    assert "PASSWORD 'hunter2'" in run_in_stores("preview-sql", "--store", "prod", "--show-secrets")[1]
    portable = run_in_stores("preview-sql", "--store", "prod", "--portable")[1]
    assert "PASSWORD getenv('PGPASSWORD')" in portable
    assert portable.startswith("LOAD ducklake;")
    assert "hunter2" not in run_in_stores("preview-sql", "--store", "prod")[1] + portable


def test_preview_sql_as_json(run_in_stores: Any, variables: None) -> None:
    data = json.loads(run_in_stores("preview-sql", "--store", "prod", "--format", "json")[1])
    assert data["store"] == data["alias"] == "prod"
    assert data["extensions"] == ["ducklake", "postgres_scanner", "httpfs", "aws"]
    assert data["statements"] == run_in_stores("preview-sql", "--store", "prod")[1].splitlines()


def test_show_secrets_and_portable_cannot_be_combined(run_in_stores: Any) -> None:
    code, out, err = run_in_stores("preview-sql", "--show-secrets", "--portable")
    assert (code, out) == (2, "")
    assert "cannot be combined" in err


def test_portable_script_with_a_literal_secret_is_refused(run_in_stores: Any, project: Path, variables: None) -> None:
    toml = project / "lakeconf.toml"
    toml.write_text(toml.read_text().replace("${PGPASSWORD}", "hunter3"))
    code, out, err = run_in_stores("preview-sql", "--store", "prod", "--portable")
    assert (code, out) == (1, "")
    assert err.startswith("error: stores.prod.metadata_backend.password is a literal")
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
