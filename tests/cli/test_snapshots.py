"""`lakeconf snapshots` and `lakeconf verify`: text, JSON and exit codes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

import lakeconf

if TYPE_CHECKING:
    from pathlib import Path


def test_newest_snapshots_are_listed_newest_last(events_folder: Path, shown: Any) -> None:
    lines = shown("snapshots", "--limit", "2").splitlines()
    assert [line.split()[0] for line in lines] == ["snapshot", "3", "4"]
    assert re.split(r"  +", lines[0]) == ["snapshot", "time (UTC)", "changes", "author", "message"]
    assert re.fullmatch(r" +4  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  insert raw\.events \+1 row  \S+@\S+", lines[-1])


def test_json_has_the_same_snapshots(events_folder: Path, shown: Any) -> None:
    found = json.loads(shown("snapshots", "--format", "json"))
    assert [one["snapshot_id"] for one in found] == [0, 1, 2, 3, 4]
    assert [one["summary"] for one in found[1:]] == [
        "create schema raw, create raw.events",
        "insert raw.events +2 rows",
        "delete from raw.events",
        "insert raw.events +1 row",
    ]
    assert found[-1]["changes"] == "inserted_into_table:2"
    assert found[-1]["time"].endswith("+00:00")
    (last,) = json.loads(shown("snapshots", "--store", "dev", "--limit", "1", "--format", "json"))
    assert last == found[-1]


def test_author_and_message_are_shown(project: Path, shown: Any) -> None:
    with (
        lakeconf.init().get_store().open() as lake,
        lake.transaction("a first table", author="me") as transaction,
    ):
        transaction.create_table("raw.t", {"id": "BIGINT"})
    first, last = shown("snapshots").splitlines()[1:]
    assert re.split(r"  +", last)[-2:] == ["me", "a first table"]
    assert first.startswith("       0  ")


def test_twenty_snapshots_are_listed_by_default(project: Path, shown: Any) -> None:
    connection = lakeconf.init().get_store().connect()
    for number in range(21):
        connection.execute(f"CREATE SCHEMA s{number}")
    connection.close()
    assert [line.split()[0] for line in shown("snapshots").splitlines()[1:]] == [str(one) for one in range(2, 22)]


@pytest.mark.parametrize("limit", ["0", "-1", "x"])
def test_limit_is_a_positive_number(limit: str, project: Path, called: Any) -> None:
    code, out, err = called("snapshots", "--limit", limit)
    assert (code, out) == (2, "")
    assert "Invalid value for '--limit'" in err


def test_missing_lake_is_not_created(project: Path, called: Any) -> None:
    assert called("snapshots")[0] == 1
    assert [path.name for path in project.iterdir()] == ["lakeconf.toml"]


def test_equal_table(events_folder: Path, spark: Any, called: Any) -> None:
    code, out, err = called("verify", "raw.events")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "raw.events at snapshot 4: equal"
    assert out.splitlines()[1].split() == ["rows:", "2"]


def test_missing_table_is_an_error_before_spark_starts(
    events_folder: Path, called: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("lakeconf.cli.inspect_commands.spark_session")
    for arguments in (["raw.nope"], ["raw.events", "--at", "0"], ["raw.events", "--at", "99"]):
        assert called("verify", *arguments)[0] == 1


def test_earlier_snapshot_as_json(events_folder: Path, spark: Any, called: Any) -> None:
    code, out, err = called("verify", "raw.events", "--store", "dev", "--at", "1", "--format", "json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert (found["equal"], found["snapshot_id"], found["spark_rows"], found["duckdb_rows"]) == (True, 1, 0, 0)
    assert [column["name"] for column in found["columns"]] == ["id", "kind"]
    code, out, err = called("verify", "raw.events", "--at", "99")
    assert (code, out) == (1, "")
    assert "99 does not exist" in err


def test_missing_lake_is_not_created_by_a_verification(project: Path, spark: Any, called: Any) -> None:
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
