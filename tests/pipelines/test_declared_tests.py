"""Pipelines in lakeconf.toml: keys, identity, problems with a place, and the commands that run them."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from hint_words import is_fix

from lakeconf.cli.app import run
from lakeconf.config.config import Config, init
from lakeconf.errors import ConfigError, LakeconfError, PipelineError
from lakeconf.pipelines import declared_pipeline, pipeline_problems
from lakeconf.pipelines.models.declaration import parsed
from lakeconf.pipelines.models.kinds import Append, Full, Incremental, Kind, Merge, Seed, View
from lakeconf.pipelines.models.unit_tests import declared_unit_tests

if TYPE_CHECKING:
    from pathlib import Path

    from servers import S3Server


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


TABLES = """
[pipeline]
python = ["models.py"]

[pipeline.models."raw.prices"]
kind = "seed"
csv = "prices.csv"

[pipeline.models."marts.by_day"]
kind = "incremental"
sql = "by_day.sql"
time_column = "day"
start = 2024-01-01
partitioned_by = ["day"]
audits = { positive = "FROM marts.by_day WHERE price < 0" }
"""
MODELS = '''\
import narwhals as nw

from lakeconf.pipelines import Full, model


@model("marts.dearest", Full())
def dearest(prices):
    """The dearest of each day."""
    return prices.group_by("day").agg(nw.col("price").max())
'''


@pytest.fixture
def folder(project: Path) -> Path:
    """A project with three models: a seed, one in SQL, one in Python."""
    with (project / "lakeconf.toml").open("a") as file:
        file.write(TABLES)
    (project / "models.py").write_text(MODELS)
    (project / "by_day.sql").write_text(
        "SELECT day, sum(price) AS price FROM raw.prices\nWHERE day >= $start AND day < $end GROUP BY day"
    )
    (project / "prices.csv").write_text("day,price\n2024-01-01,2.5\n2024-01-01,1\n2024-01-02,4\n")
    return project


@pytest.mark.parametrize(
    ("was", "becomes", "problems"),
    [
        ('kind = "seed"', 'kind = "seeds"', ["15: unknown kind 'seeds'"]),
        ('csv = "prices.csv"', "", ["14: is missing"]),
        ('time_column = "day"', 'time_colum = "day"', ["21: unknown key"]),
        ('sql = "by_day.sql"', 'sql = "none.sql"', ["20: file not found"]),
        ('["models.py"]', '["none.py"]', ["12: file not found"]),
        ('["models.py"]', '"models.py"', ["12: has the wrong type"]),
        ("[pipeline]\n", "[pipeline]\nmodel = 1\n", ["12: unknown key"]),
        ("start = 2024-01-01", 'start = "soon"', ["22: Input should be a valid date"]),
    ],
)
def test_problems_name_the_line(
    was: str, becomes: str, problems: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "lakeconf.toml"
    assert was in file.read_text()
    file.write_text(file.read_text().replace(was, becomes))
    with pytest.raises(ConfigError) as caught:
        declared_pipeline(init())
    found = [f"{problem.line}: {problem.message}" for problem in caught.value.problems]
    assert [one.startswith(expected) for one, expected in zip(found, problems, strict=False)] == [True] * len(
        problems
    ), found
    # `validate` reports it too, without connecting to a store.
    assert run(["validate"]) == 1
    shown = capsys.readouterr().out
    assert f"lakeconf.toml:{problems[0].partition(':')[0]}:" in shown


@pytest.mark.slow
def test_validate_and_run_show_the_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql = folder / "by_day.sql"
    good = sql.read_text()
    sql.write_text("SELECT day,\n  sum(price AS price\nFROM raw.prices")
    assert run(["validate"]) == 1
    assert capsys.readouterr().out.splitlines()[:3] == [
        'by_day.sql:2:13: pipeline.models."marts.by_day": the SQL is not a single DuckDB query: syntax error [LC013]',
        "  2 |   sum(price AS price",
        "    |             ^",
    ]
    assert run(["validate", "--format", "github"]) == 1
    assert capsys.readouterr().out.startswith("::error file=by_day.sql,line=2,col=13,title=LC013::")
    sql.write_text(good.replace("WHERE day", "\nWHERE days"))
    assert run(["run", "--to", "2024-01-03"]) == 1
    error = capsys.readouterr().err
    assert error.startswith('error: by_day.sql:3:7: Binder Error: Referenced column "days" not found')
    assert "\n    3 | WHERE days >= $start AND day < $end GROUP BY day\n      |       ^\n" in error
    assert "lakeconf_input" not in error
    sql.write_text(good)
    assert run(["run", "--to", "2024-01-03"]) == 0
    sql.write_text(good.replace("WHERE day", "\nWHERE days"))
    capsys.readouterr()
    assert run(["plan", "--to", "2024-01-03"]) == 0
    (warning,) = capsys.readouterr().err.splitlines()
    assert warning.startswith("warning: marts.by_day: its column changes are unknown: by_day.sql:3:7: Binder Error")
    assert "\\x0a" not in warning


def test_error_in_a_python_model_names_its_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = (folder / "models.py").read_text()
    line = next(number for number, text in enumerate(models.splitlines(), 1) if "def dearest" in text)
    (folder / "models.py").write_text(models.replace("    return", "    1 / 0\n    return"))
    assert run(["run", "--to", "2024-01-03"]) == 1
    found = re.search(r"models\.py:(\d+): the model marts\.dearest failed: ZeroDivisionError", capsys.readouterr().err)
    assert found is not None
    assert line < int(found[1]) <= line + 2
    (folder / "models.py").write_text(models.replace("def dearest(prices", "def dearest(nothing"))
    assert run(["plan"]) == 1
    assert re.search(r"error: models\.py:\d+: the input 'nothing' of the model marts", capsys.readouterr().err)


def test_pipeline_that_cannot_be_loaded(folder: Path) -> None:
    (folder / "models.py").write_text("import no_such_module")
    with pytest.raises(PipelineError, match=r"models\.py cannot be loaded: ModuleNotFoundError"):
        declared_pipeline(init())
    file = folder / "lakeconf.toml"
    file.write_text(file.read_text().partition("[pipeline]")[0])
    with pytest.raises(LakeconfError, match=r"has no \[pipeline\]"):
        declared_pipeline(init())


IN_A_BUCKET = """
[stores.bucket]
metadata_backend = {{ type = "sqlite", uri = "bucket.sqlite" }}

[stores.bucket.storage_backend]
type = "s3"
bucket = "{bucket}"
region = "{region}"
endpoint = "{endpoint}"
url_style = "path"
use_ssl = false
key_id = "{key_id}"
secret = "{secret}"

[pipeline.models."raw.numbers"]
kind = "append"
files = "s3://{bucket}/landing/*.csv"
"""


def test_plan_of_a_store_without_a_lake_lists_the_files_of_its_bucket(
    project: Path, s3_server: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket = s3_server.create_bucket()
    places = {"bucket": bucket, "region": s3_server.region, "endpoint": s3_server.endpoint}
    text = IN_A_BUCKET.format(**places, key_id=s3_server.keys.key_id, secret=s3_server.keys.secret)
    (project / "lakeconf.toml").write_text((project / "lakeconf.toml").read_text() + text)
    with init().get_store("bucket").open() as lake:
        lake.sql("SELECT 1 AS i").to_native().write_csv(f"s3://{bucket}/landing/1.csv")
    (project / "bucket.sqlite").unlink()
    objects = s3_server.objects(bucket)
    assert run(["plan", "--store", "bucket"]) == 0
    assert capsys.readouterr().out == "run  raw.numbers  append  1 new file\n"
    assert not (project / "bucket.sqlite").exists()
    assert s3_server.objects(bucket) == objects
