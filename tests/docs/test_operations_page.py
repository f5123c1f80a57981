"""docs/operations.md: its commands and its Python run in order and produce the output shown."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from doc_pages import blocks
from shell import run_shell

import lakeconf
from lakeconf.cli.app import run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def events_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the layout of `lakeconf init` and the table of the page."""
    monkeypatch.chdir(tmp_path)
    assert run(["init"]) == 0
    with lakeconf.init().get_store().open() as lake:
        table = lake.create_table("raw.events", {"id": "BIGINT", "kind": "VARCHAR"})
        table.append([{"id": 1, "kind": "view"}, {"id": 2, "kind": "view"}])
        table.delete("id = 1")
        table.append([{"id": 3, "kind": "buy"}])
    return tmp_path


def ids() -> list[int]:
    with lakeconf.init().get_store().open() as lake:
        return sorted(lake.table("raw.events").to_arrow(["id"])["id"].to_pylist())


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str) -> str:
        assert run(arguments) == 0
        return capsys.readouterr().out

    return call


def test_restore_and_backup_of_the_page(events_folder: Path, shown: Any) -> None:
    assert ids() == [2, 3]
    for text in blocks("operations.md", "console"):
        command, _, output = text.partition("\n")
        assert shown(*command.removeprefix("$ lakeconf ").split()) == output
    assert ids() == [1, 2]
    code, register = blocks("operations.md", "python")
    exec(compile(code, "docs/operations.md", "exec"), {})  # noqa: S102 - that is the test
    assert ids() == [1, 2]
    backup, _, restore, lost, move = blocks("operations.md", "sh")
    run_shell(backup)
    with lakeconf.init().get_store().open() as lake:
        lake.table("raw.events").append([{"id": number, "kind": "late"} for number in range(9, 59)])
    (events_folder / ".lakeconf" / "catalog.sqlite").write_bytes(b"")
    found = run_shell(restore)
    assert re.search(r"catalog was restored from a backup.*dev works\b.*count_star\(\)\n *2\n$", found, re.DOTALL), (
        found
    )
    assert ids() == [1, 2]
    assert "if the catalog was restored from a backup" in shown(
        "maintain", "--dry-run", "--cleanup-days", "0", "--force"
    )
    exec(compile(register, "docs/operations.md", "exec"), {"plan": run_shell(lost), "lakeconf": lakeconf})  # noqa: S102
    assert ids() == [1, 2, *range(9, 59)]
    assert "and no others" in shown("doctor")
    with lakeconf.init().get_store().open() as lake:
        lake.table("raw.events").delete("id >= 9")
    found = run_shell(move)
    assert re.search(
        r"moved/\.lakeconf/catalog\.sqlite, attached.*dev works\b.*count_star\(\)\n *2\n$", found, re.DOTALL
    ), found


KILLED = """
import os, lakeconf
with lakeconf.init().get_store().open() as lake:
    lake.create_table("raw.events", {"id": "BIGINT"}).append([{"id": 1}, {"id": 2}])
    os._exit(9)
"""


@pytest.fixture
def killed_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a lake with a DuckDB catalog, whose commits are only in the file .wal."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lakeconf.toml").write_text(
        '[stores.dev]\nmetadata_backend = { type = "duckdb", uri = ".lakeconf/catalog.duckdb" }\n'
        'storage_backend = { type = "local", path = ".lakeconf/data" }\n'
    )
    assert subprocess.run([sys.executable, "-c", KILLED], check=False).returncode == 9
    assert (tmp_path / ".lakeconf" / "catalog.duckdb.wal").exists()
    return tmp_path


def test_move_of_a_duckdb_catalog_after_a_killed_job_loses_no_commit(killed_job: Path) -> None:
    *_, move = blocks("operations.md", "sh")
    found = run_shell(move)
    assert re.search(
        r"moved/\.lakeconf/catalog\.duckdb, attached.*dev works\b.*count_star\(\)\n *2\n$", found, re.DOTALL
    ), found
    assert not (killed_job / "moved" / ".lakeconf" / "catalog.duckdb.wal").exists()


def test_backup_of_a_duckdb_catalog_after_a_killed_job_loses_no_commit(killed_job: Path) -> None:
    backup = blocks("operations.md", "sh")[1]
    run_shell(backup)
    with lakeconf.init().get_store().open() as lake:
        lake.table("raw.events").append([{"id": 9}])
    assert not (killed_job / ".lakeconf" / "catalog.duckdb.wal").exists()
    for name in ("catalog.duckdb", "catalog.duckdb.wal"):
        (killed_job / ".lakeconf" / name).write_bytes((killed_job / name.replace("catalog", "backup")).read_bytes())
    assert ids() == [1, 2]
    run_shell(backup)
    assert not (killed_job / "backup.duckdb.wal").exists()
