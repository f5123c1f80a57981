"""Pipelines declared in lakeconf.toml: positions of problems, and the commands that run them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from lakeconf.cli.app import run
from lakeconf.config.config import init
from lakeconf.errors import ConfigError, LakeconfError, PipelineError
from lakeconf.pipelines import declared_pipeline

if TYPE_CHECKING:
    from pathlib import Path

    from servers import S3Server

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
