"""Unit tests and models in lakeconf.toml: problems have a place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hint_words import is_fix

from lakeconf.cli.app import run
from lakeconf.config.config import init
from lakeconf.pipelines import pipeline_problems
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


STORES = """\
[stores.dev]
metadata_backend = { type = "sqlite", uri = "c.sqlite" }
storage_backend = { type = "local", path = "data" }

"""
A = '[pipeline.models."m.a"]\nsql = "a.sql"\n'
FILES = '[pipeline.models."m.f"]\nkind = "append"\n'
CHECK = '\n[pipeline.tests.t]\nmodel = "m.a"\n'
# The number of lines before `[pipeline.models."m.a"]`.
BEFORE = STORES.count("\n")


def found(folder: Path, text: str) -> list[tuple[int, str]]:
    (folder / "lakeconf.toml").write_text(STORES + text)
    (folder / "a.sql").write_text("SELECT id FROM raw.events")
    (folder / "self.sql").write_text("SELECT id FROM M.A")
    (folder / "b.sql").write_text("SELECT id FROM m.c")
    (folder / "c.sql").write_text("SELECT id FROM m.b")
    problems = pipeline_problems(init(str(folder / "lakeconf.toml")))
    for problem in problems:
        assert problem.hint is not None
        assert is_fix(problem.hint), problem.hint
    return [((problem.line or 0) - BEFORE, problem.message) for problem in problems]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (A.replace("a.sql", "self.sql"), 1, "the model m.a reads its own table"),
        (A + A.replace("m.a", "M.A"), 3, "two models write M.A: m.a is the same name"),
        (A.replace("m.a", "LakeConf.commits"), 1, "the schema of the model LakeConf.commits is reserved"),
        ('[pipeline.models."t"]\nsql = "a.sql"\n', 1, "'t' is not a valid table of a model"),
        ('[pipeline.models."m.s"]\nkind = "seed"\ncsv = "none.csv"\n', 3, "file not found: "),
        (FILES + 'files = "*.csv"\ncolumns = { id = "BIGIT" }\n', 4, "the column 'id' has an invalid type 'BIGIT'"),
        (A + 'partitioned_by = ["week(day)"]\n', 3, "the partition key 'week(day)' has an unknown function"),
        (FILES + 'files = "*.xlsx"\n', 3, "files that end in xlsx cannot be loaded"),
        (FILES + 'files = ""\n', 3, "String should have at least 1 character"),
        (FILES + 'files = "*.csv"\nnew_rows_of = "raw.a"\n', 1, "the model m.f has both files and new_rows_of"),
        (A + 'kind = "merge"\non = []\n', 4, "Input should be a valid string"),
        (A + 'kind = "merge"\non = ""\n', 4, "String should have at least 1 character"),
        (A + CHECK.replace("m.a", "m.none") + "expect = []\n", 5, "unknown model 'm.none'"),
        (
            A + CHECK + 'expect = []\ngiven = { "raw.none" = [] }\n', 4, "the model m.a has no input 'raw.none'",
        ),
        (
            '[pipeline.models."m.b"]\nsql = "b.sql"\n[pipeline.models."m.c"]\nsql = "c.sql"\n',
            1,
            "the models form a cycle: m.",
        ),
    ],
)  # fmt: skip
def test_problem_with_its_line(text: str, line: int, message: str, tmp_path: Path) -> None:
    ((at, shown),) = found(tmp_path, text)
    assert at == line
    assert message in shown


def test_valid_models_have_no_problem(tmp_path: Path) -> None:
    for text in (
        A + 'partitioned_by = ["day", "month(at)", "bucket(8, id)"]\n',
        FILES + 'files = "*"\n',
        FILES + 'files = "in/2024.*/*.CSV"\ncolumns = { id = "DECIMAL(10, 2)" }\n',
        A + 'kind = "incremental"\ntime_column = "day"\nstart = 2024-01-01\n',
        # `lakeconf run --from` gives the start.
        A + 'kind = "incremental"\ntime_column = "day"\n',
        A + CHECK + 'expect = []\ngiven = { "raw.events" = [] }\n',
    ):
        assert found(tmp_path, text) == []
    # Models in Python, which is not run, may be tested.
    (tmp_path / "models.py").write_text("raise SystemExit\n")
    python = '[pipeline]\npython = ["models.py"]\n'
    assert found(tmp_path, python + A + CHECK.replace("m.a", "m.python") + "expect = []\n") == []


def test_a_project_without_python_has_all_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(tmp_path, A) == []
    (tmp_path / "a.sql").write_text("SELECT id FROM events")
    monkeypatch.chdir(tmp_path)
    assert run(["validate"]) == 1
    (problem,) = pipeline_problems(init())
    assert (problem.line, problem.message.partition(": ")[2]) == (
        BEFORE + 1, "the input 'events' of the model m.a does not match the table of any model",
    )  # fmt: skip
