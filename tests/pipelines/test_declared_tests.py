"""Unit tests in lakeconf.toml: problems have a place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.cli.app import run
from lakeconf.config.config import init
from lakeconf.errors import ConfigError
from lakeconf.pipelines.models.unit_tests import declared_unit_tests

if TYPE_CHECKING:
    from pathlib import Path

TEST = """
[pipeline.tests.one]
model = "marts.a"
expect = [{ n = 1 }]

[pipeline.tests."odd name"]
model = "marts.a"
given = { "raw.a" = [{ n = 1 }], "raw.b" = { rows = [], columns = { n = "BIGINT" } } }
expect = []
"""


@pytest.fixture
def file(project: Path) -> Path:
    found = project / "lakeconf.toml"
    found.write_text(found.read_text().rstrip() + "\n" + TEST)
    return found


def test_declared_tests_have_a_place(file: Path) -> None:
    one, odd = declared_unit_tests(init())
    line = file.read_text().splitlines().index("[pipeline.tests.one]") + 1
    assert (one.name, one.place, odd.name) == ("one", f"lakeconf.toml:{line}:17", "odd name")
    assert [*odd.declared.given] == ["raw.a", "raw.b"]


@pytest.mark.parametrize(
    ("was", "becomes", "problem"),
    [
        ('model = "marts.a"\nexpect = [{ n = 1 }]', 'model = "marts.a"', "is missing [LC011]"),
        ("expect = []", 'expect = "x"', "Input should be a valid list [LC013]"),
        ("expect = []", "expected = []\nexpect = []", "unknown key [LC010]"),
        ("rows = []", "rows = [1]", 'given."raw.b".rows: Input should be a valid dictionary [LC013]'),
        ("expect = []", 'expect = []\nstart = "soon"', "[LC013]"),
        ("expect = []", 'expect = []\nstart = "2024"', "start: Input should be a date or a time, not a number [LC013]"),
        ("expect = []", "expect = []\nordered = 1", "ordered: Input should be a valid boolean [LC013]"),
        ("rows = []", "row = []", 'given."raw.b".row: unknown key [LC010]'),
        ("[pipeline.tests.one]", "[pipeline.tests]\nanother = 1\n[pipeline.tests.one]", "another: Input should be"),
        (
            "[pipeline.tests.one]",
            "[pipeline.tests.one.two]",
            "tests.one.two: the name one.two lacks quotes, so TOML reads it as a table in a table [LC010]",
        ),
        (
            'given = { "raw.a" = [{ n = 1 }], "raw.b" = { rows = [], columns = { n = "BIGINT" } } }',
            "given.raw.a = [{ n = 1 }]",
            'write given."raw.a": a name with a dot needs quotes',
        ),
        ('[pipeline.tests.one]\nmodel = "marts.a"\nexpect = [{ n = 1 }]', "[pipeline]\ntests = 5\n[x", ""),
    ],
)
def test_validate_finds_problems(
    was: str, becomes: str, problem: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = file.read_text()
    assert was in text
    file.write_text(text.replace(was, becomes, 1))
    assert run(["validate"]) == 1
    shown = capsys.readouterr().out
    assert problem in shown
    assert shown.startswith("lakeconf.toml:")


def test_invalid_tests_are_refused(file: Path) -> None:
    file.write_text(file.read_text().replace("expect = []", ""))
    with pytest.raises(ConfigError) as caught:
        declared_unit_tests(init())
    assert [problem.key for problem in caught.value.problems] == ['pipeline.tests."odd name".expect']
