"""The commands that inspect a lake, and docs/inspect.md."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from doc_pages import blocks

import lakeconf
from lakeconf.cli.commands import run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def lake(project: Path) -> Path:
    """A lake with one table, a delete and two files."""
    with lakeconf.init().get_store().open() as lake:
        table = lake.create_table("raw.events", {"id": "BIGINT", "kind": "VARCHAR"})
        table.append(pa.table({"id": [1, 2], "kind": ["view", "view"]}))
        table.delete("id = 1")
        table.append(pa.table({"id": [3], "kind": ["buy"]}))
    return project


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str) -> str:
        assert run(arguments) == 0
        return capsys.readouterr().out

    return call


@pytest.mark.parametrize("index", range(4))
def test_the_commands_of_the_page(index: int, lake: Path, shown: Any) -> None:
    command, _, output = blocks("inspect.md", "console")[index].partition("\n")
    words = command.removeprefix("$ lakeconf ").split('"')
    arguments = words[0].split() if len(words) == 1 else [*words[0].split(), words[1], *words[2].split()]
    assert shown(*arguments) == output


def test_the_python_of_the_page(lake: Path) -> None:
    (code,), (output,) = blocks("inspect.md", "python"), blocks("inspect.md", "text")
    done = subprocess.run([sys.executable, "-c", code], cwd=lake, capture_output=True, text=True, check=True)
    assert done.stdout == output


def test_snapshots_and_files(lake: Path, shown: Any) -> None:
    lines = shown("snapshots", "--limit", "2").splitlines()
    assert [line.split()[0] for line in lines] == ["snapshot", "3", "4"]
    newest = json.loads(shown("snapshots", "--format", "json"))[-1]
    assert (newest["snapshot_id"], newest["changes"]) == (4, "inserted_into_table:2")
    first, second = json.loads(shown("files", "raw.events", "--format", "json"))
    assert (first["rows"], first["deleted_rows"], second["rows"], second["delete_file"]) == (2, 1, 1, None)
    assert shown("files", "raw.events").splitlines()[0].split()[:3] == ["file", "rows", "size"]
    assert json.loads(shown("tables", "--format", "json"))[0]["rows"] == 2


def test_files_are_those_that_ducklake_lists(lake: Path, shown: Any, capsys: pytest.CaptureFixture[str]) -> None:
    native = lakeconf.init().get_store().connect()
    native.execute("CALL dev.set_option('data_inlining_row_limit', 10)")
    native.execute("INSERT INTO raw.events VALUES (4, 'view'), (5, 'buy')")
    listed = native.sql(
        "SELECT data_file, data_file_size_bytes, delete_file FROM ducklake_list_files('dev', 'events', schema => 'raw')"
    ).fetchall()
    native.close()
    found = json.loads(shown("files", "raw.events", "--format", "json"))
    assert sorted((file["path"], file["bytes"], file["delete_file"]) for file in found) == sorted(listed)
    assert run(["files", "raw.events"]) == 0
    assert capsys.readouterr().err == "inlined rows in the catalog: 2\n"


def test_history_contains_a_rename(lake: Path) -> None:
    native = lakeconf.init().get_store().connect()
    native.execute("ALTER TABLE raw.events RENAME TO happenings; ALTER TABLE raw.happenings RENAME kind TO sort")
    native.close()
    with lakeconf.init().get_store().open() as opened:
        history = opened.table("raw.happenings").history()
    assert [(change.snapshot_id, change.changes) for change in history[-3:]] == [
        (4, ("inserted_into_table",)),
        (5, ("renamed_table",)),
        (6, ("altered_table",)),
    ]
    assert history[0].changes == ("created_table",)


def test_values_of_every_kind_are_shown(lake: Path, shown: Any) -> None:
    query = "SELECT DATE '2024-01-02' d, 1.50 n, 'ab'::BLOB b, [1, NULL] l, {'a': 1} s, NULL x, repeat('y', 70) t"
    (row,) = json.loads(shown("sql", query, "--format", "json"))
    assert row == {
        "d": "2024-01-02",
        "n": "1.50",
        "b": "6162",
        "l": [1, None],
        "s": {"a": 1},
        "x": None,
        "t": "y" * 70,
    }
    assert shown("sql", query, "--format", "csv").splitlines()[1] == (
        '2024-01-02,1.50,6162,"[1, null]","{""a"": 1}",,' + "y" * 70
    )
    assert shown("sql", query).splitlines()[1].split("  ")[-2:] == ["NULL", "y" * 59 + "…"]


def test_truncated_output_is_reported(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sql", "FROM range(9)", "--limit", "3"]) == 0
    output = capsys.readouterr()
    assert output.out.split() == ["range", "0", "1", "2"]
    assert output.err == "only the first 3 rows are shown; use --limit to show more\n"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM raw.events", "the statement is not a single query"),
        ("SELECT 1; DROP TABLE raw.events", "the statement is not a single query"),
        ("CALL ducklake_expire_snapshots('dev', older_than => now())", "the statement is not a single query"),
        ("FROM ducklake_expire_snapshots('dev', older_than => now())", "calls ducklake_expire_snapshots"),
        ("FROM sqlite_query('__ducklake_metadata_dev', 'SELECT 1')", "calls sqlite_query"),
        ("FROM duckdb_secrets()", "calls duckdb_secrets"),
        ("FROM raw.event", "Table with name event does not exist"),
        ("SELEC 1", "syntax error"),
        ("PRAGMA import_database('data')", "the statement is not a single query"),
    ],
)
def test_statements_other_than_safe_queries_are_refused(
    statement: str, message: str, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sql", statement]) == 1
    output = capsys.readouterr()
    assert (output.out, output.err.startswith("error: ")) == ("", True)
    assert message in output.err
    with lakeconf.init().get_store().open() as after:
        assert after.snapshot_id == 4


CLEANUP = "FROM ducklake_cleanup_old_files('dev', cleanup_all => true)"


@pytest.mark.parametrize(
    "statement",
    [
        CLEANUP,
        f"WITH gone AS ({CLEANUP}) SELECT (SELECT count(*) FROM gone), id FROM raw.events",
        f"""FROM query('{CLEANUP.replace("'", "''")}')""",
        "FROM removal",
        "FROM remove_files()",
        "FROM ducklake_delete_orphaned_files('dev', cleanup_all => true)",
    ],
)
def test_no_query_removes_files(statement: str, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    native = lakeconf.init().get_store().connect()
    native.execute("CREATE TABLE raw.gone AS FROM range(99); DROP TABLE raw.gone")
    native.execute("CALL ducklake_expire_snapshots('dev', older_than => now())")
    native.execute(f"CREATE VIEW removal AS {CLEANUP}; CREATE MACRO remove_files() AS TABLE {CLEANUP}")
    native.close()
    before = sorted(lake.rglob("*.parquet"))
    assert run(["sql", statement]) == 1
    assert "error: " in capsys.readouterr().err
    assert sorted(lake.rglob("*.parquet")) == before != []


@pytest.mark.parametrize(
    ("statement", "answer"),
    [
        ("FROM dev.snapshots()", "tables_created"),
        ("FROM ducklake_table_changes('dev', 'raw', 'events', 0, 4)", "insert"),
        ("SUMMARIZE raw.events", "approx_unique"),
        ("SHOW TABLES", "name"),
        ("DESCRIBE raw.events", "column_type"),
        ("FROM information_schema.columns", "ordinal_position"),
        ("SELECT unnest([1, 2])", "2"),
        ("SELECT count(*) AS found FROM raw.events AT (VERSION => 2)", "found"),
    ],
)
def test_reading_statements_are_allowed(statement: str, answer: str, lake: Path, shown: Any) -> None:
    assert answer in shown("sql", statement)
