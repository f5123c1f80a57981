"""`lakeconf verify`: the comparison as text and as JSON, and the exit code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lakeconf.cli.inspect_commands import _QUIET

if TYPE_CHECKING:
    from pathlib import Path


def test_equal_table(events_folder: Path, spark: Any, called: Any) -> None:
    code, out, err = called("verify", "raw.events")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "raw.events at snapshot 4: equal"
    assert out.splitlines()[1].split() == ["rows:", "2"]


def test_earlier_snapshot_as_json(events_folder: Path, spark: Any, called: Any) -> None:
    code, out, err = called("verify", "raw.events", "--store", "dev", "--at", "1", "--format", "json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert (found["equal"], found["snapshot_id"], found["spark_rows"], found["duckdb_rows"]) == (True, 1, 0, 0)
    assert [column["name"] for column in found["columns"]] == ["id", "kind"]
    code, out, err = called("verify", "raw.events", "--at", "99")
    assert (code, out) == (1, "")
    assert "99 does not exist" in err


def test_missing_lake_is_not_created(project: Path, spark: Any, called: Any) -> None:
    code, out, err = called("verify", "raw.events")
    assert (code, out, "has no lake yet" in err) == (1, "", True)
    assert [path.name for path in project.iterdir()] == ["lakeconf.toml"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "Missing argument 'TABLE'"),
        (("raw.events", "--at", "x"), 2, "Invalid value for '--at'"),
        (("raw.events", "--store", "dve"), 1, 'did you mean "dev"?'),
    ],
)
def test_invalid_arguments_start_no_session(
    arguments: tuple[str, ...], code: int, message: str, project: Path, called: Any
) -> None:
    found, out, err = called("verify", *arguments)
    assert (found, out) == (code, "")
    assert message in err


def test_session_prints_nothing_to_the_terminal() -> None:
    assert _QUIET == {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
