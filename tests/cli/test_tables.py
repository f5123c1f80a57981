"""`lakeconf tables`: the sizes of all tables, and the files of one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import lakeconf
from lakeconf.wording import byte_size


def test_sizes_of_a_table_as_text_and_as_json(events_folder: Path, shown: Any) -> None:
    connection = lakeconf.init().get_store().connect()
    connection.execute("CALL dev.set_option('data_inlining_row_limit', 10)")
    connection.execute("INSERT INTO raw.events VALUES (4, 'view'), (5, 'buy')")
    connection.close()
    sizes = [path.stat().st_size for path in (events_folder / "data").rglob("*.parquet") if "-delete" not in path.name]
    (found,) = json.loads(shown("tables", "--format", "json"))
    assert found == {
        "table": "raw.events",
        "rows": 4,
        "files": 2,
        "bytes": sum(sizes),
        "delete_files": 1,
        "deleted_rows": 1,
        "inlined_rows": 2,
    }
    header, line = (re.split(r"  +", one) for one in shown("tables", "--store", "dev").splitlines())
    assert header == ["table", "rows", "files", "size", "delete files", "deleted rows", "inlined rows"]
    assert line == ["raw.events", "4", "2", byte_size(sum(sizes)), "1", "1", "2"]


def test_lake_without_tables(project: Path, called: Any) -> None:
    code, out, err = called("tables")
    assert (code, out) == (1, "")
    assert "has no lake yet" in err
    assert [path.name for path in project.iterdir()] == ["lakeconf.toml"]
    lakeconf.init().get_store().open().close()
    assert called("tables", "--format", "json") == (0, "[]\n", "")
    code, out, err = called("tables")
    assert (code, out.count("\n"), err) == (0, 1, "")


def test_files_are_those_that_ducklake_lists(events_folder: Path, shown: Any, called: Any) -> None:
    native = lakeconf.init().get_store().connect()
    native.execute("CALL dev.set_option('data_inlining_row_limit', 10)")
    native.execute("INSERT INTO raw.events VALUES (4, 'view'), (5, 'buy')")
    listed = native.sql(
        "SELECT data_file, data_file_size_bytes, delete_file FROM ducklake_list_files('dev', 'events', schema => 'raw')"
    ).fetchall()
    native.close()
    found = json.loads(shown("tables", "raw.events", "--format", "json"))
    assert sorted((file["path"], file["bytes"], file["delete_file"]) for file in found) == sorted(listed)
    assert called("tables", "raw.events")[2].endswith(" B, and 2 inlined rows in the catalog\n")


def test_table_of_files(events_folder: Path, called: Any) -> None:
    code, out, err = called("tables", "raw.events")
    data = str(events_folder / "data")
    assert (code, err.startswith(f"2 files below {data}/: ")) == (0, True)
    header, first, second = out.splitlines()
    assert re.split(r"  +", header) == ["file", "rows", "size", "snapshot", "deleted rows", "partition"]
    assert re.split(r"  +", first)[1:] == ["2", byte_size(size_of(data, first)), "2", "1"]
    assert re.split(r"  +", second)[1:] == ["1", byte_size(size_of(data, second)), "4", "0"]


def size_of(data: str, line: str) -> int:
    return Path(data, line.split()[0]).stat().st_size


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


def test_json_has_every_field_of_a_file(events_folder: Path, shown: Any) -> None:
    first, second = json.loads(shown("tables", "raw.events", "--format", "json"))
    assert (first["rows"], first["deleted_rows"], second["rows"], second["delete_file"]) == (2, 1, 1, None)
    assert (first["begin_snapshot"], second["begin_snapshot"]) == (2, 4)


def test_missing_table_and_missing_lake(project: Path, called: Any) -> None:
    code, out, err = called("tables", "raw.events")
    assert (code, out) == (1, "")
    assert "error: store 'dev' has no lake yet" in err
    assert sorted(path.name for path in project.iterdir()) == ["lakeconf.toml"]
    lakeconf.init().get_store().open().close()
    code, out, err = called("tables", "raw.nothing")
    assert (code, out) == (1, "")
    assert "raw.nothing" in err
