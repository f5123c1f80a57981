"""`lakeconf report` and `lakeconf preview-sql`: what they write, and that it has no secrets."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


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
