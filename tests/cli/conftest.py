"""Fixtures of the commands: calls of the command line, and a project with several stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakeconf.cli.app import run as run_command

if TYPE_CHECKING:
    from pathlib import Path

PROD = """
[stores.prod.metadata_backend]
type = "postgres"
host = "${PGHOST}"
database = "lake"
user = "lake"
password = "${PGPASSWORD}"
secret_parameters = { sslmode = "verify-full" }

[stores.prod.storage_backend]
type = "s3"
bucket = "acme"
secret_parameters = { provider = "credential_chain" }

[stores.staging]
extends = "prod"
"""


@pytest.fixture
def called(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command; returns its exit code, stdout and stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run_command(arguments)
        output = capsys.readouterr()
        return code, output.out, output.err

    return call


@pytest.fixture
def shown(called: Any) -> Any:
    """Runs a command that succeeds; returns its stdout."""

    def call(*arguments: str) -> str:
        code, out, err = called(*arguments)
        assert code == 0, err
        found: str = out
        return found

    return call


@pytest.fixture
def run_in_stores(project: Path, called: Any) -> Any:
    """Runs a command in a folder with the stores dev, prod and staging; returns its exit code, stdout and stderr."""
    (project / "lakeconf.toml").write_text((project / "lakeconf.toml").read_text() + PROD)
    return called


PIPELINE = """
[pipeline.models."raw.prices"]
kind = "seed"
csv = "prices.csv"

[pipeline.models."marts.by_day"]
kind = "incremental"
sql = "by_day.sql"
time_column = "day"
start = 2024-01-01
audits = { positive = "FROM marts.by_day WHERE price < 0" }

[pipeline.models."marts.dearest"]
sql = "dearest.sql"
"""


@pytest.fixture
def pipeline_folder(project: Path) -> Path:
    """A project with three models: a seed, an incremental model that reads it, and a full model."""
    with (project / "lakeconf.toml").open("a") as file:
        file.write(PIPELINE)
    (project / "by_day.sql").write_text(
        "SELECT day, sum(price) AS price FROM raw.prices WHERE day >= $start AND day < $end GROUP BY day"
    )
    (project / "dearest.sql").write_text("SELECT day, max(price) AS price FROM raw.prices GROUP BY day")
    (project / "prices.csv").write_text("day,price\n2024-01-01,2.5\n2024-01-01,1\n2024-01-02,4\n")
    return project


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
