"""Untrusted names, data and messages cannot control the terminal or the CI log."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING

import click
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_tree import PACKAGE

import lakeconf
from lakeconf.cli.app import run
from lakeconf.cli.output import github_annotations as github
from lakeconf.cli.output import safe_line, show, show_error, show_json, show_table, style
from lakeconf.errors import ConfigError, LakeconfError, Problem

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "\x1b[2J\x9b31m\r\n::stop-commands::x\u202e##[error]\x07\x7f\u2028\ud800"
# C0 and C1 control characters except the line end, text direction marks, and surrogates.
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
COMMAND = re.compile(r"^\s*::|##\[|##vso\[|##teamcity\[", re.MULTILINE)


def assert_harmless(text: str, lines: int | None = None) -> None:
    assert CONTROL.search(text) is None, repr(text)
    assert COMMAND.search(text) is None, repr(text)
    assert lines is None or text.count("\n") == lines


@given(st.text() | st.just(HOSTILE) | st.text(alphabet=":# [\n\x1bvs0;3m"))
def test_any_text_is_harmless(text: str) -> None:
    """As a line, in JSON and in an annotation."""
    assert_harmless(safe_line(text), 0)
    assert safe_line(safe_line(text)) == safe_line(text)
    with pytest.MonkeyPatch.context() as patch:
        said: list[str] = []
        patch.setattr(click, "echo", lambda text, **_: said.append(text))
        show_json({text: [text, 1]})
    assert_harmless(said[0])
    assert json.loads(said[0]) == {text: [text, 1]}
    (line,) = github([Problem("LC010", text, text, text)], "error")
    assert line.startswith("::error title=LC010::")
    assert CONTROL.search(line) is None
    assert "\n" not in line


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters=":#")))
def test_ordinary_text_is_printed_unchanged(text: str) -> None:
    assert safe_line(text) == text


def test_only_colours_set_by_lakeconf_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert safe_line(style("a\x1b[2J", fg="red", bold=True)) == click.style("a\\x1b[2J", fg="red", bold=True)
    assert safe_line(style("::a", fg="red")) == click.style("::a", fg="red")
    assert safe_line(style(click.style("done", fg="green"), bold=True)).count("\x1b") == 2
    show(f"{style('done', fg='green')} {click.style('fake', fg='green')}")
    assert capsys.readouterr().out == "done \\x1b[32mfake\\x1b[0m\n"


def test_commands_print_only_through_the_output_module() -> None:
    for path in (PACKAGE / "cli").rglob("*.py"):
        if path.name != "output.py":
            assert re.search(r"click\.(style|echo|secho)|\bprint\(", path.read_text()) is None, path.name


def test_errors_and_tables_are_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    problem = Problem("LC010", f"unknown {HOSTILE}", f"hint {HOSTILE}", f"stores.{HOSTILE}")
    show_error(LakeconfError(f"{HOSTILE} failed", hint=HOSTILE))
    show_error(ConfigError([problem]))
    show_table([("name", HOSTILE), (HOSTILE, "x")])
    output = capsys.readouterr()
    assert_harmless(output.out, 2)
    # Three lines for the error, whose message contains a line end, with its hint; two for the problem.
    assert_harmless(output.err, 5)


@pytest.fixture
def hostile_lake(project: Path) -> Path:
    """A lake with names and rows that attack the terminal, and values that spreadsheets evaluate."""
    text = HOSTILE[:-1]
    with lakeconf.init().get_store().open() as lake:
        rows = pa.table({f"c{text}": [text], "=1+1": ["=cmd|' /C calc'!A0"], "::set-env": ["::warning::x"]})
        lake.create_table("raw.t", like=rows).append(rows)
        with lake.transaction(text, author=text) as write:
            write.table("raw.t").append(rows)
    return project


def test_commands_on_a_hostile_lake(hostile_lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (
        ["sql", "FROM raw.t"],
        ["sql", "FROM raw.t", "--format", "json"],
        ["snapshots"],
        ["snapshots", "--format", "json"],
        ["tables", "raw.t"],
        ["tables"],
        ["sql", "SELECT error(chr(27) || '[2J' || chr(10) || '::error::x')"],
        ["sql", "SELECT \x1b[2J\n::error::"],
        ["tables", HOSTILE[:-1]],
        ["stores", "--config", "\x1b[2J\n::error::.toml"],
        ["\x1b[2J\n::error::"],
    ):
        run(command)
        output = capsys.readouterr()
        assert output.out + output.err
        assert_harmless(output.out)
        assert_harmless(output.err)


def test_csv_is_exact_in_a_pipe_and_escaped_on_a_terminal(
    hostile_lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    query = 'SELECT "::set-env", "=1+1", * EXCLUDE ("::set-env", "=1+1"), -1 AS n FROM raw.t LIMIT 1'
    assert run(["sql", query, "--format", "csv"]) == 0
    output = capsys.readouterr()
    assert HOSTILE[:-1] in output.out
    # The quotes belong to CSV and prevent GitHub from reading a command.
    assert output.out.startswith('"::set-env",')
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run(["sql", query, "--format", "csv"]) == 0
    assert_harmless(capsys.readouterr().out)
