"""The README and docs/getting-started.md: their commands and jobs run unchanged and give the output shown."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pytest
from source_tree import REPOSITORY

import lakeconf
from lakeconf.cli.app import commands, run
from lakeconf.config.config import read

README = (REPOSITORY / "README.md").read_text()
START = (REPOSITORY / "docs" / "getting-started.md").read_text()
EVENTS = pa.table(
    {
        "user_id": [1, 1, 2],
        "event_type": ["page_view", "purchase", "purchase"],
        "event_timestamp": pa.array([0, 1, 2], pa.timestamp("us")),
        "revenue": pa.array([None, "1.50", "2.25"]).cast(pa.decimal128(10, 2)),
    }
)


def block(language: str, marker: str, page: str = START) -> str:
    """The only fenced block of this language on the page that contains the marker."""
    found: list[str] = [text for text in re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL) if marker in text]
    assert len(found) == 1
    return found[0]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "lakeconf.toml").write_text(block("toml", "# lakeconf.toml"))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PGHOST", "db.example.org")
    monkeypatch.setenv("LAKE_PG_PASSWORD", "hunter2-planted")
    return folder


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_first_example_runs_unchanged(
    tmp_path: Path,
    engine: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if engine == "spark":
        request.getfixturevalue("spark")  # the session that `spark_session` returns
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["first.py", engine])
    for marker in ("lakeconf init", "python first.py", "lakeconf sql"):
        line, _, shown = block("console", f"$ {marker}", README).partition("\n")
        if marker == "python first.py":
            exec(compile(block("python", "# first.py", README), "first.py", "exec"), {})  # noqa: S102
        else:
            assert run(shlex.split(line)[2:]) == 0
        assert capsys.readouterr().out == shown


def test_readme_is_short() -> None:
    assert len(README.partition("## Documentation")[0].split()) <= 500


def test_configuration_is_valid(shop: Path) -> None:
    assert run(["validate", "--strict"]) == 0


def test_preview_sql_prints_the_output_shown(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = block("console", "$ lakeconf preview-sql\n").removeprefix("$ lakeconf preview-sql\n")
    assert run(["preview-sql"]) == 0
    assert capsys.readouterr().out.replace(str(shop), "/shop") == shown


def test_portable_script_contains_no_secret(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["preview-sql", "--store", "prod", "--portable"]) == 0
    shown = capsys.readouterr().out
    assert "getenv('LAKE_PG_PASSWORD')" in shown
    assert "hunter2" not in shown


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_job_runs_on_both_engines(
    shop: Path, engine: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    spark: Any = request.getfixturevalue("spark") if engine == "spark" else None
    exec(compile(block("python", "import narwhals"), "getting-started.md", "exec"), {"spark": spark, "events": EVENTS})  # noqa: S102
    assert "created_table" in capsys.readouterr().out
    with lakeconf.init().get_store("dev").connect() as con:
        found = con.execute("SELECT event_date::VARCHAR, users, revenue::VARCHAR FROM analytics.daily_revenue")
        assert found.fetchall() == [("1970-01-01", 2, "3.75")]


def test_make_commands_exist_in_the_makefile() -> None:
    targets = re.findall(r"^([a-z]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"(?:`|^)make ([a-z]+)", README, re.MULTILINE)) <= set(targets)


def test_commands_that_write_a_configuration_run_without_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = commands.get_command(click.Context(commands), "init")
    assert command is not None
    found = re.findall(r"lakeconf (init --store [^`\n]*)", f"{START}\n{command.help}")
    assert len(found) == 2
    for text in found:
        assert run(["init", "--force"]) == 0
        assert run(text.split()) == 0
        assert [*read(None).names] == ["dev", "prod"]
