"""A command of several commits that is killed or fails between any two of them ends right when it is repeated."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dying_command
import pytest
from local_stores import on_catalog
from strength import PROVE, in_prove

import lakeconf
from lakeconf.cli.app import run

if TYPE_CHECKING:
    from collections.abc import Callable

UNTIL = ("--to", "2024-01-04")
# By the moment at which it ends; see `dying_command`. A maintenance flushes table by table if it cannot flush all.
EXIT_CODES = {"before": {9}, "instead": {0, 1}, "after": {9}}
PIPELINE = """
default_store = "dev"
[pipeline.models."raw.first"]
sql = "first.sql"
[pipeline.models."marts.daily"]
kind = "incremental"
time_column = "day"
start = 2024-01-01
batch = 1
sql = "daily.sql"
[pipeline.models."marts.last"]
kind = "merge"
on = "day"
sql = "last.sql"
"""
SQL = {
    "first": "SELECT ts, n FROM raw.events",
    "daily": "SELECT ts::DATE AS day, sum(n) AS n FROM raw.events WHERE ts >= $start AND ts < $end GROUP BY ALL",
    "last": "SELECT day, n FROM marts.daily",
}


def events(*days: int) -> None:
    with lakeconf.init().get_store("dev").open() as lake:
        for day in days:
            lake.table("raw.events").append(lake.sql(f"SELECT TIMESTAMP '2024-01-0{day} 12:00:00' AS ts, {day} AS n"))


def prepared(request: pytest.FixtureRequest, catalog: str) -> None:
    config = PIPELINE
    for store in ("dev", "prod"):
        config += f"[stores.{store}]\nstorage_backend = {{ type = 'local', path = '{store}' }}\n"
        backend = on_catalog(request, Path.cwd() / f"{store}.catalog", catalog)
        config += f"[stores.{store}.metadata_backend]\n" + "".join(f"{key} = {backend[key]!r}\n" for key in backend)
    Path("lakeconf.toml").write_text(config)
    for name, text in SQL.items():
        Path(f"{name}.sql").write_text(text)
    with lakeconf.init().get_store("dev").open() as lake:
        lake.create_table("raw.events", {"ts": "TIMESTAMP", "n": "INTEGER"})
    events(1, 2, 3)


def finished() -> None:
    assert run(["run", *UNTIL]) == 0


def late() -> None:
    finished()
    events(1, 3)


def small_files() -> None:
    finished()
    events(1, 2, 3)
    with lakeconf.init().get_store("dev").open() as lake:
        lake.table("raw.events").delete("n = 2")
        lake.table("raw.first").append(lake.table("raw.events").scan())


COMMANDS: dict[str, tuple[Callable[[], object], list[str]]] = {
    "models and intervals": (list, ["run", *UNTIL]),
    "intervals of a range": (late, ["run", "marts.daily", "--from", "2024-01-01", *UNTIL]),
    "rebuild": (late, ["run", "--rebuild", "--yes", *UNTIL]),
    "maintenance": (small_files, ["maintain", "--expire-days", "0", "--cleanup-days", "0", "--force", "--yes"]),
    "copy": (finished, ["copy", "dev", "prod", "--yes"]),
}

FEW = [("maintenance", "postgres")]


def dies(number: int, when: str, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, dying_command.__file__, str(number), when, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def state() -> dict[str, Any]:
    """The rows of all tables, and the files; and what is left to do."""
    found: dict[str, Any] = {}
    for name in ("dev", "prod"):
        if not Path(name).exists():
            continue
        with lakeconf.init().get_store(name).open() as lake:
            for table in lake.tables():
                native: Any = lake.sql(f"FROM {table} ORDER BY ALL").to_native()
                found[f"{name}.{table}"] = native.fetchall(), len(lake.table(table).files())
            plan = lake.maintenance.plan_cleanup(older_than=timedelta(days=1))
            found[f"{name} unknown"] = plan.orphans
    found["plan"] = run(["plan", "--exit-code", *UNTIL])
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "catalog"),
    [*FEW, *in_prove(pair for pair in product(COMMANDS, ("sqlite", "duckdb", "postgres")) if pair not in FEW)],
)
def test_command_is_repeated(
    name: str, catalog: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    prepare, arguments = COMMANDS[name]

    def folder(at: str) -> None:
        (tmp_path / at).mkdir()
        monkeypatch.chdir(tmp_path / at)
        prepared(request, catalog)
        prepare()

    folder("whole")
    whole = dies(0, "never", arguments)
    assert whole.returncode == 0, whole.stderr
    expected, commits = state(), int(whole.stdout.splitlines()[-1])
    assert commits > 0
    points = list(product(range(1, commits + 1), EXIT_CODES))
    for number, when in points if PROVE else (points[0], points[len(points) // 2]):
        folder(f"{number} {when}")
        dead = dies(number, when, arguments)
        assert dead.returncode in EXIT_CODES[when], (number, when, dead.stderr)
        assert run(arguments) == 0, (number, when)
        assert state() == expected, (number, when)
