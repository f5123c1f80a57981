"""`lakeconf tables`, `snapshots` and `verify`: text, JSON and exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lakeconf
from lakeconf.wording import byte_size

if TYPE_CHECKING:
    import pytest


def test_sizes_and_files_of_a_table_are_those_of_ducklake(events_folder: Path, shown: Any, called: Any) -> None:
    native = lakeconf.init().get_store().connect()
    native.execute("CALL dev.set_option('data_inlining_row_limit', 10)")
    native.execute("INSERT INTO raw.events VALUES (4, 'view'), (5, 'buy')")
    listed = native.sql(
        "SELECT data_file, data_file_size_bytes, delete_file FROM ducklake_list_files('dev', 'events', schema => 'raw')"
    ).fetchall()
    native.close()
    size = sum(Path(path).stat().st_size for path, *_ in listed)
    (found,) = json.loads(shown("tables", "--format", "json"))
    assert found == {
        "table": "raw.events",
        "rows": 4,
        "files": 2,
        "bytes": size,
        "delete_files": 1,
        "deleted_rows": 1,
        "inlined_rows": 2,
    }
    header, line = (re.split(r"  +", one) for one in shown("tables", "--store", "dev").splitlines())
    assert header == ["table", "rows", "files", "size", "delete files", "deleted rows", "inlined rows"]
    assert line == ["raw.events", "4", "2", byte_size(size), "1", "1", "2"]
    files = json.loads(shown("tables", "raw.events", "--format", "json"))
    assert sorted((file["path"], file["bytes"], file["delete_file"]) for file in files) == sorted(listed)
    assert called("tables", "raw.events")[2].endswith(" B, and 2 inlined rows in the catalog\n")


def test_lake_without_tables(project: Path, called: Any) -> None:
    lakeconf.init().get_store().open().close()
    assert called("tables", "--format", "json") == (0, "[]\n", "")
    code, out, err = called("tables")
    assert (code, out.count("\n"), err) == (0, 1, "")
    code, out, err = called("tables", "raw.nothing")
    assert (code, out, "raw.nothing" in err) == (1, "", True)


def test_table_of_files(events_folder: Path, shown: Any, called: Any) -> None:
    files = json.loads(shown("tables", "raw.events", "--format", "json"))
    assert [(one["rows"], one["begin_snapshot"], one["deleted_rows"]) for one in files] == [(2, 2, 1), (1, 4, 0)]
    assert [one["delete_file"] is None for one in files] == [False, True]
    code, out, err = called("tables", "raw.events")
    assert (code, err.startswith(f"2 files below {events_folder / 'data'}/: ")) == (0, True)
    header, first, second = (re.split(r"  +", line) for line in out.splitlines())
    assert header == ["file", "rows", "size", "snapshot", "deleted rows", "partition"]
    sizes = [byte_size(Path(one["path"]).stat().st_size) for one in files]
    assert (first[1:], second[1:]) == (["2", sizes[0], "2", "1"], ["1", sizes[1], "4", "0"])


def test_partitions_and_null_are_listed(project: Path, shown: Any) -> None:
    with lakeconf.init().get_store().open() as lake:
        rows = lake.sql("SELECT * FROM (VALUES ('a', 1), (NULL, 2)) AS t(kind, n)")
        lake.create_table("raw.t", rows, partitioned_by=["kind", "bucket(2, n)"]).append(rows)
    with lakeconf.init().get_store().connect() as connection:
        connection.execute("ALTER TABLE raw.t SET PARTITIONED BY (n)")
        connection.execute("INSERT INTO raw.t VALUES ('b', 3)")
        connection.execute("ALTER TABLE raw.t RENAME COLUMN kind TO sort")
    lines = shown("tables", "raw.t", "--store", "dev").splitlines()[1:]
    partitions = sorted(line.split("  ")[-1].strip() for line in lines)
    assert [re.sub("=[01]$", "=?", line) for line in partitions] == [
        "n=3",
        "sort=NULL, bucket(2, n)=?",
        "sort=a, bucket(2, n)=?",
    ]
    found = json.loads(shown("tables", "raw.t", "--format", "json"))
    assert [file["partition_keys"] for file in found if file["partition"] == ["3"]] == [["n"]]
    assert [file["partition"][0] for file in found if len(file["partition"]) == 2] == ["a", None]


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
