"""docs/integrations/duckdb.md: the portable script in the DuckDB CLI, and stores on a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from doc_pages import block
from shell import run_shell

if TYPE_CHECKING:
    from pathlib import Path

    from server_project import Project

PAGE = "integrations/duckdb.md"


def fill(project: Project) -> None:
    project.rows("CREATE SCHEMA raw; CREATE TABLE raw.events AS SELECT range AS id FROM range(3)")


@pytest.mark.slow
def test_duckdb_cli_runs_the_portable_script(server_project: Project, home_with_extensions: Path) -> None:
    fill(server_project)
    output = run_shell(block(PAGE, "sh", "preview-sql"), HOME=str(home_with_extensions))
    assert "3" in [word.strip() for word in output.split("│")], output
    assert "getenv('LAKE_S3_SECRET')" in (server_project.folder / "init.sql").read_text()
    server_project.assert_no_secret(text=output)


def test_several_stores_on_one_connection(server_project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    fill(server_project)
    names: dict[str, object] = {}
    exec(block(PAGE, "python", "attach"), names)  # noqa: S102 - that is what is tested
    assert capsys.readouterr().out == "[(3,)]\n"
    server_project.assert_no_secret()
