"""Broken configurations: the exact output of `lakeconf validate` for each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hint_words import is_fix

from lakeconf.cli.app import run
from lakeconf.config.codes import Code
from lakeconf.config.config import validate

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
