"""Models and unit tests in lakeconf.toml: keys, identity, and problems with a place."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from hint_words import is_fix

from lakeconf.cli.app import run
from lakeconf.config.config import Config, init
from lakeconf.errors import ConfigError
from lakeconf.pipelines import pipeline_problems
from lakeconf.pipelines.models.declaration import parsed
from lakeconf.pipelines.models.kinds import Append, Full, Incremental, Kind, Merge, Seed, View
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


STORE = {"dev": {"metadata_backend": {"type": "sqlite", "uri": "x"}, "storage_backend": {"type": "local", "path": "d"}}}


def config() -> Config:
    return init({"stores": STORE})


def problems(**table: Any) -> list[tuple[str, str, str | None, str | None]]:
    """The problems of a model."""
    with pytest.raises(ConfigError) as caught:
        parsed(config(), "a.t", table)
    start = 'pipeline.models."a.t"'
    return [(one.code, str(one.key).removeprefix(start), one.message, one.hint) for one in caught.value.problems]


def test_table_becomes_a_declaration_and_a_kind() -> None:
    declared, kind = parsed(config(), "a.t", {"kind": "incremental", "time_column": "day", "sql": "t.sql", "batch": 2})
    assert (getattr(declared, "sql", None), kind) == ("t.sql", Incremental("day", batch=2))
    assert parsed(config(), "a.t", {"kind": "merge", "on": ["a", "b"], "sql": "t.sql"})[1] == Merge(["a", "b"])


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"kind": "fulll"}, ("LC013", ".kind", "unknown kind 'fulll'", 'did you mean "full"?')),
        ({"sql": "x", "tag": []}, ("LC010", ".tag", "unknown key", 'did you mean "tags"?')),
        (
            {"sql": "x", "lookback": 1},
            ("LC010", ".lookback", "unknown key", 'remove it, or set kind = "incremental", which has this key'),
        ),
        (
            {"kind": "seed", "csv": "x", "sql": "y"},
            ("LC010", ".sql", "unknown key", 'remove it, or set kind = "full", which has this key'),
        ),
        (
            {"kind": "view"},
            (
                "LC011",
                ".sql",
                "is missing",
                'write sql = "models/daily.sql" (the file with the query, relative to this file)',
            ),
        ),
        (
            {"kind": "append"},
            (
                "LC011",
                ".sql",
                "is missing",
                'write sql = "models/daily.sql" (the file with the query, relative to this file), or '
                'write files = "landing/*.parquet" '
                "(the pattern of the files to load, relative to this file, or of URIs)",
            ),
        ),
        (
            {"kind": "incremental", "sql": "x"},
            (
                "LC011",
                ".time_column",
                "is missing",
                'write time_column = "day" (the column of the result that assigns a row to an interval)',
            ),
        ),
        (
            {"kind": "merge", "sql": "x", "on": 1},
            ("LC013", ".on", "Input should be a valid string", 'write on = "id" (the key columns)'),
        ),
        (
            {"sql": "x", "tests": {"not_nul": ["a"]}},
            ("LC010", ".tests.not_nul", "unknown key", 'did you mean "not_null"?'),
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_invalid_table_is_one_problem_at_its_key(table: dict[str, Any], problem: tuple[str, str, str, str]) -> None:
    assert problems(**table) == [problem]


def test_problems_of_what_is_no_table_of_a_model() -> None:
    assert [one[1] for one in problems(sql="x", a=1, b=2)] == [".a", ".b"]
    no_table = 'write [pipeline.models."schema.table"] and its keys below it'
    files = {"kind": "append", "files": "x.csv"}
    cases: list[tuple[str, Any, str]] = [
        ("a.t", [], no_table),
        ("a.t", "x", no_table),
        ("a.t", 1, no_table),
        *(("raw", {part: files}, f'write [pipeline.models."raw.{part}"]') for part in ("events", "tests", "columns")),
        # A table of a model is no name.
        ("raw", {"kind": "fulll", "audits": {"a": "FROM t"}}, 'did you mean "full"?'),
    ]
    for name, table, hint in cases:
        with pytest.raises(ConfigError) as caught:
            parsed(config(), name, table)
        assert [one.hint for one in caught.value.problems] == [hint]


def test_identity_is_the_same_in_every_version() -> None:
    """Another identity makes every lake compute its models again."""
    kinds: dict[str, Kind] = {
        "full": Full(),
        "append None {}": Append(),
        "append events {'id': 'BIGINT'}": Append(new_rows_of="events", columns={"id": "BIGINT"}),
        "incremental day day": Incremental("day"),
        "incremental at hour": Incremental("at", "hour"),
        "merge ['id'] None None True": Merge("id"),
        "merge ['a', 'b'] events gone False": Merge(["a", "b"], "events", "gone", update=False),
        "view": View(),
        "seed {}": Seed("prices.csv"),
        "seed {'price': 'DECIMAL(8,2)'}": Seed("prices.csv", {"price": "DECIMAL(8,2)"}),
    }
    assert [kind.identity() for kind in kinds.values()] == list(kinds)


def test_options_that_only_select_what_a_run_processes_are_not_part_of_the_identity() -> None:
    chosen = Incremental("day", start=date(2024, 1, 1), lookback=2, batch=3, partial=True, late="ignore")
    assert chosen.identity() == Incremental("day").identity()
    assert Append(files="new/*.csv").identity() == Append(files="old/*.csv").identity()
    assert Seed("a.csv").identity() == Seed("b.csv").identity()
