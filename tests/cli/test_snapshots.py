"""`lakeconf snapshots` and `lakeconf verify`: text, JSON and exit codes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import lakeconf

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_newest_snapshots_are_listed_newest_last(events_folder: Path, shown: Any, called: Any) -> None:
    lines = shown("snapshots", "--limit", "2").splitlines()
    assert [line.split()[0] for line in lines] == ["snapshot", "3", "4"]
    assert re.split(r"  +", lines[0]) == ["snapshot", "time (UTC)", "changes", "author", "message"]
    assert re.fullmatch(r" +4  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  insert raw\.events \+1 row  \S+@\S+", lines[-1])
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
    for limit in ("0", "-1", "x"):
        code, out, err = called("snapshots", "--limit", limit)
        assert (code, out, "Invalid value for '--limit'" in err) == (2, "", True)


def test_twenty_snapshots_are_listed_by_default_with_their_author_and_message(project: Path, shown: Any) -> None:
    store = lakeconf.init().get_store()
    with store.connect() as connection:
        for number in range(20):
            connection.execute(f"CREATE SCHEMA s{number}")
    with store.open() as lake, lake.transaction("a first table", author="me") as transaction:
        transaction.create_table("s0.t", {"id": "BIGINT"})
    lines = shown("snapshots").splitlines()[1:]
    assert [line.split()[0] for line in lines] == [str(one) for one in range(2, 22)]
    assert re.split(r"  +", lines[-1])[-2:] == ["me", "a first table"]
    assert lines[0].startswith("       2  ")


def test_equal_table_now_and_at_an_earlier_snapshot(events_folder: Path, spark: Any, called: Any) -> None:
    code, out, err = called("verify", "raw.events")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "raw.events at snapshot 4: equal"
    assert out.splitlines()[1].split() == ["rows:", "2"]
    code, out, err = called("verify", "raw.events", "--store", "dev", "--at", "1", "--format", "json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert (found["equal"], found["snapshot_id"], found["spark_rows"], found["duckdb_rows"]) == (True, 1, 0, 0)
    assert [column["name"] for column in found["columns"]] == ["id", "kind"]


def test_errors_come_before_spark_starts(events_folder: Path, called: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("lakeconf.cli.inspect_commands.spark_session")
    for *arguments, code, message in (
        ("raw.nope", 1, "raw.nope"),
        ("raw.events", "--at", "0", 1, "raw.events"),
        ("raw.events", "--at", "99", 1, "99 does not exist"),
        (2, "Missing argument 'TABLE'"),
        ("raw.events", "--at", "x", 2, "Invalid value for '--at'"),
    ):
        found, out, err = called("verify", *arguments)
        assert (found, out, str(message) in err) == (code, "", True)


def test_missing_lake_is_not_created(project: Path, called: Any) -> None:
    for command in (("verify", "raw.events"), ("snapshots",), ("tables",), ("tables", "raw.events"), ("report",)):
        code, out, err = called(*command)
        assert (code, out, "error: store 'dev' has no lake yet" in err) == (1, "", True)
        assert [path.name for path in project.iterdir()] == ["lakeconf.toml"]
