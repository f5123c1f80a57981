"""Broken configurations: the exact output of `lakeconf validate` for each, and an explanation of each code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hint_words import is_fix
from source_tree import PACKAGE

from lakeconf.cli.app import run
from lakeconf.config.codes import Code, explanation
from lakeconf.config.config import validate
from lakeconf.config.warnings import warnings

if TYPE_CHECKING:
    from collections.abc import Callable


BROKEN = Path(__file__).parent / "broken"
CASES = sorted(path.stem for path in BROKEN.glob("*.toml"))
# Problems without a line number: no file was found, or an environment variable sets the value.
WITHOUT_LINE = re.compile(r"LC001|LC004|no stores are declared|the variable LAKECONF_")


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Writes a broken configuration to the working directory and sets the variables listed in its first lines."""

    def lay(name: str) -> Path:
        content = (BROKEN / f"{name}.toml").read_bytes()
        directives = dict(re.findall(rb"^# (env|file): (.*)\n", content, re.MULTILINE)[::-1])
        for line in re.findall(rb"^# env: (.*)\n", content, re.MULTILINE):
            variable, _, value = line.decode().partition("=")
            monkeypatch.setenv(variable, value)
        file: Path = tmp_path / directives.get(b"file", b"lakeconf.toml").decode()
        file.write_bytes(content)
        monkeypatch.chdir(tmp_path)
        return file

    return lay


@pytest.mark.parametrize("name", CASES)
def test_validate_shows_problems_with_line_key_and_hint_but_no_secret(
    name: str,
    broken: Callable[[str], Path],
    capsys: pytest.CaptureFixture[str],
    check_golden: Callable[[Path, str], None],
) -> None:
    folder = broken(name).parent
    assert run(["validate"]) == 1
    output = capsys.readouterr()
    assert output.err == ""
    check_golden(BROKEN / f"{name}.txt", output.out.replace(str(folder), "<folder>"))
    problems = validate()
    assert problems
    for problem in problems:
        text = str(problem)
        assert problem.line is not None or WITHOUT_LINE.search(text)
        assert problem.key is not None or problem.code in ("LC001", "LC002", "LC003", "LC004")
        assert problem.hint is not None
        assert is_fix(problem.hint), problem.hint
        assert "hunter" not in text
        assert "735194" not in text


def test_broken_files_cover_every_code() -> None:
    texts = "".join((BROKEN / f"{name}.txt").read_text() for name in CASES)
    # One code is raised by a call and not by a file; warnings are reported only for valid files.
    warnings = {Code.LITERAL_SECRET.code, Code.WITHOUT_TLS.code, Code.WITHOUT_DEFAULT.code}
    warnings |= {Code.CATALOG_WITHOUT_TLS.code, Code.BARE_DOLLAR.code}
    assert {code.code for code in Code} - set(re.findall(r"LC\d{3}", texts)) == {Code.NO_DEFAULT_STORE.code, *warnings}


PAGES = PACKAGE / "config" / "explanations"
OUTPUT = re.compile(r"^```text\n.*?^```$", re.DOTALL | re.MULTILINE)
CODES = [code.code for code in Code]


def blocks(code: str) -> list[str]:
    """The configurations of an explanation: the invalid one, if a file can cause the problem, and the corrected one."""
    found: list[str] = re.findall(r"^```toml\n(.*?)^```$", explanation(code), re.DOTALL | re.MULTILINE)
    return found


def lay(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes a configuration to the working directory and sets the variables that its comments list."""
    for variable, value in re.findall(r"^# env: (\w+)=(.*)$", text, re.MULTILINE):
        monkeypatch.setenv(variable, value)
    name = re.search(r"^# file: (.*)$", text, re.MULTILINE)
    (folder / (name[1] if name else "lakeconf.toml")).write_text(text)
    monkeypatch.chdir(folder)


def test_every_code_has_an_explanation() -> None:
    assert sorted(path.name for path in PAGES.iterdir()) == [f"{code}.md" for code in CODES]
    for code in Code:
        assert explanation(code.code).startswith(f"# {code.code}: {code.title}\n")
        assert [hint for hint in re.findall(r"^  hint: (.*)$", explanation(code.code), re.M) if not is_fix(hint)] == []


@pytest.mark.parametrize("code", [code for code in CODES if len(blocks(code)) == 2])
def test_example_produces_the_output_shown(
    code: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    check_golden: Callable[[Path, str], None],
) -> None:
    lay(blocks(code)[0], tmp_path, monkeypatch)
    assert run(["validate", "--strict"]) == 1
    output = capsys.readouterr().out.replace(str(tmp_path), "<folder>")
    assert set(re.findall(r"LC\d{3}", output)) == {code}
    check_golden(PAGES / f"{code}.md", OUTPUT.sub(lambda _: f"```text\n{output}```", explanation(code)))


@pytest.mark.parametrize("code", CODES)
def test_corrected_example_is_valid(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(blocks(code)[-1], tmp_path, monkeypatch)
    assert validate() == []
    assert warnings() == []


def test_codes_do_not_change() -> None:
    """Users ignore and search for them; this list only grows."""
    numbers = "001 002 003 004 010 011 012 013 020 021 022 023 030 031 040 041 050 051 052 053 054 055 056 057"
    warnings = "060 061 062 063 064"
    assert [code.code for code in Code] == [f"LC{number}" for number in f"{numbers} {warnings}".split()]
