"""The page of each code: its example gives the code and the output that it shows, and its cure is a cure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from source_tree import PACKAGE

from lakeconf.cli.commands import run
from lakeconf.config.codes import Code
from lakeconf.config.explain_code import explanation
from lakeconf.config.model import validate
from lakeconf.config.warnings import warnings
from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PAGES = PACKAGE / "config" / "explanations"
OUTPUT = re.compile(r"^```text\n.*?^```$", re.DOTALL | re.MULTILINE)
CODES = [code.code for code in Code]


def blocks(code: str) -> list[str]:
    """The configurations of a page: the broken one, where a file can be it, and the cured one."""
    found: list[str] = re.findall(r"^```toml\n(.*?)^```$", explanation(code), re.DOTALL | re.MULTILINE)
    return found


def lay(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a configuration the one of the working folder, with the variables that it asks for."""
    for variable, value in re.findall(r"^# env: (\w+)=(.*)$", text, re.MULTILINE):
        monkeypatch.setenv(variable, value)
    name = re.search(r"^# file: (.*)$", text, re.MULTILINE)
    (folder / (name[1] if name else "lakeconf.toml")).write_text(text)
    monkeypatch.chdir(folder)


def test_there_is_a_page_for_each_code_and_no_other() -> None:
    assert sorted(path.name for path in PAGES.iterdir()) == [f"{code}.md" for code in CODES]
    for code in Code:
        assert explanation(code.code).startswith(f"# {code.code}: {code.title}\n")


@pytest.mark.parametrize("code", [code for code in CODES if len(blocks(code)) == 2])
def test_the_example_gives_what_the_page_shows(
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
def test_the_cure_is_one(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(blocks(code)[-1], tmp_path, monkeypatch)
    assert validate() == []
    assert warnings() == []


def test_codes_are_found_in_any_case_and_others_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "lc012"]) == 0
    assert capsys.readouterr().out == explanation("LC012")
    with pytest.raises(LakeconfError, match="unknown code 'LC999'"):
        explanation("LC999")
