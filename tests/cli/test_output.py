"""Output of all commands: streams, colours, tables, JSON, annotations and files; no text controls the terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_tree import PACKAGE

import lakeconf
from lakeconf.cli.app import run
from lakeconf.cli.output import github_annotations as github
from lakeconf.cli.output import (
    plain,
    problem_text,
    safe_line,
    show,
    show_error,
    show_exactly,
    show_json,
    show_lines,
    show_table,
    style,
)
from lakeconf.errors import ConfigError, LakeconfError, Problem


def test_lines_go_to_stdout_or_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    show("one\ntwo")
    show("three", to_stderr=True)
    show_lines("four\n::five", to_stderr=True)
    show_lines("six\n\x1bseven")
    assert capsys.readouterr() == ("one\\x0atwo\nsix\n\\x1bseven\n", "three\nfour\n\\x3a:five\n")
    show_exactly("::error file=a\x1b[0m::b")
    assert capsys.readouterr().out == "::error file=a\x1b[0m::b\n"


def test_commands_of_ci_systems_are_escaped() -> None:
    for text, shown in (
        ("::error::x", "\\x3a:error::x"),
        ("  ::error", "  \\x3a:error"),
        ("a::b", "a::b"),
        (":a", ":a"),
        ("##[error]", "\\x23#[error]"),
        ("x ##vso[task]", "x \\x23#vso[task]"),
        ("##teamcity[x]", "\\x23#teamcity[x]"),
        ("## a heading", "## a heading"),
    ):
        assert safe_line(text) == shown


def test_table_is_aligned_and_its_cells_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    show_table([("a", "long name", ""), ("\x1b", "x", "")])
    assert capsys.readouterr().out == "a     long name\n\\x1b  x\n"
    show_table([("name", "rows"), ("a", "1,000,000"), ("b", "")], numbers=[1])
    assert capsys.readouterr().out == "name       rows\na     1,000,000\nb\n"


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": ""}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": ""}, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, True),
    ],
)
def test_colours_of_output_that_is_no_terminal(
    variables: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    show(style("text", fg="red"))
    assert ("\x1b[31m" in capsys.readouterr().out) == coloured


@pytest.mark.parametrize(
    ("variables", "coloured"), [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({"NO_COLOR": "1"}, False)]
)
def test_colours_on_a_terminal(variables: dict[str, str], coloured: bool) -> None:
    parent, child = pty.openpty()
    code = "from lakeconf.cli.output import show, style; show(style('text', fg='red'))"
    others = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    subprocess.run([sys.executable, "-c", code], stdout=child, env=others | variables, check=True)
    os.close(child)
    assert (b"\x1b[31m" in os.read(parent, 100)) == coloured
    os.close(parent)


def test_json_is_readable_and_escapes_what_controls_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    data = {"é": ["##[x]", "\u202e\x7f", 1, None, True], "b": {}}
    show_json(data)
    out = capsys.readouterr().out
    assert json.loads(out) == data
    assert out.startswith('{\n  "é": [\n    "#\\u0023[x]",\n    "\\u202e\\u007f",')


def test_values_are_converted_for_json() -> None:
    for value, expected in (
        ({1: (b"\x00\xff", [date(2024, 1, 2)])}, {"1": ["00ff", ["2024-01-02"]]}),
        (datetime(2024, 1, 2, 3, tzinfo=UTC), "2024-01-02T03:00:00+00:00"),
        (time(1, 2, 3, 4), "01:02:03.000004"),
        (Decimal("1.50"), "1.50"),
        ([True, 1, 1.5, "x", None], [True, 1, 1.5, "x", None]),
        ([float("nan"), float("inf"), -float("inf")], ["NaN", "Infinity", "-Infinity"]),
        (Path("a/b"), "a/b"),
    ):
        assert plain(value) == expected


def test_error_has_a_hint_and_further_lines_and_the_configuration_several_problems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    show_error(LakeconfError("first\nerror: second", hint="do it"))
    assert capsys.readouterr() == ("", "error: first\n  error: second\n  hint: do it\n")
    show_error(LakeconfError("first"))
    assert capsys.readouterr().err == "error: first\n"
    problems = [
        Problem("LC010", "unknown key", "remove it", "stores.x", file=tmp_path / "a.toml", line=3, column=2),
        Problem("LC001", "no file", None, None),
    ]
    show_error(ConfigError(problems))
    shown = "a.toml:3:2: stores.x: unknown key [LC010]\n  hint: remove it\nerror: no file [LC001]\n"
    assert capsys.readouterr() == ("", shown)


def test_place_of_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    below = Problem("LC010", "odd", None, None, file=tmp_path / "a" / "b.toml")
    assert safe_line(click.unstyle(safe_line(problem_text(below)))) == "a/b.toml: odd [LC010]"
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    above = below._replace(file=tmp_path / "b.toml", line=1, column=1)
    assert click.unstyle(safe_line(problem_text(above))) == f"{tmp_path}/b.toml:1:1: odd [LC010]"
    assert problem_text(Problem("LC010", "a\nb", "c\nd", "e\nf")).count("\n") == 1  # it cannot forge lines


def problem(file: Path | None = None, **given: Any) -> Problem:
    values = {"message": "unknown key", "hint": None, "key": "stores.dev.x", "line": None, "column": None}
    return Problem("LC010", **{**values, "file": file, **given})


def test_text_and_properties_of_a_command_are_escaped(folder: Path) -> None:
    (line,) = github([problem(folder / "50%,a:b\x1b.toml", message="1%\r\n::error::\x1b[2J", key=None)], "error")
    assert line == ("::error file=50%25%2Ca%3Ab\\x1b.toml,title=LC010::1%25%0D%0A::error::\\x1b[2J")


@pytest.mark.parametrize(("repository", "here", "shown"), [
    (".", "jobs/daily", "jobs/daily/lakeconf.toml"),
    ("jobs", "jobs/daily", "daily/lakeconf.toml"),
    ("jobs/daily", "jobs/daily", "lakeconf.toml"),
    (None, "jobs/daily", "lakeconf.toml"),
    (None, ".", "jobs/daily/lakeconf.toml"),
    (None, "else where", "{whole}/jobs/daily/lakeconf.toml"),
])  # fmt: skip
def test_paths_are_relative_to_the_repository_or_the_working_folder(
    repository: str | None, here: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("jobs/daily", "else where"):
        (tmp_path / name).mkdir(parents=True)
    if repository is not None:
        # A worktree has a file instead of a folder.
        (tmp_path / repository / ".git").write_text("gitdir: elsewhere")
    monkeypatch.chdir(tmp_path / here)
    found = problem(tmp_path / "jobs" / "daily" / "lakeconf.toml")
    assert github([found], "error")[0].startswith(f"::error file={shown.format(whole=tmp_path)},title=")


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


@pytest.mark.slow
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


@pytest.mark.slow
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
