"""Commands that read, and plans of those that change something, create and change nothing, whatever the store lacks."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import click
import pytest

from lakeconf.cli.app import commands, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Each command without the options that make it write; `verify` starts Spark.
READS = [
    *(
        "validate",
        "validate --untrusted",
        "stores",
        "preview-sql",
        "preview-sql --portable",
        "export json-schema",
        "validate --explain LC012",
    ),
    *(
        "export dbt",
        "export dlt",
        "doctor",
        "tables",
        "tables raw.events",
        "snapshots",
        "report",
    ),
    *("maintain --dry-run", "restore raw.events --version 2 --dry-run", "graph", "plan"),
    *("copy dev other raw.events --dry-run", "diff dev other raw.events"),
]
READS_OF_SQL = [["sql", "SELECT count(*) FROM raw.events"], ["sql", "CREATE TABLE raw.t (a INT)"]]
# They write: files that their options name, or the lake.
WRITES = {"init", "load", "run", "test", "verify"}
MORE = """
[pipeline.models."marts.t"]
kind = "full"
sql = "t.sql"

[stores.other]
extends = "dev"
metadata_backend = { uri = "other.sqlite" }
storage_backend = { path = "other" }
"""


def lost_catalog(folder: Path) -> None:
    for path in folder.glob("catalog.sqlite*"):
        path.unlink()


def empty_catalog(folder: Path) -> None:
    lost_catalog(folder)
    (folder / "catalog.sqlite").touch()


def lost_data_path(folder: Path) -> None:
    shutil.rmtree(folder / "data")


def no_lake(folder: Path) -> None:
    lost_catalog(folder)
    lost_data_path(folder)


def healthy(folder: Path) -> None: ...


def contents(folder: Path) -> dict[str, bytes]:
    """All files and folders, without the log of SQLite if it is empty, and its index: each connection makes them."""
    found = [path for path in sorted(folder.rglob("*")) if not path.name.endswith("-shm")]
    known = {str(path): path.read_bytes() if path.is_file() else b"" for path in found}
    return {path: content for path, content in known.items() if content or not path.endswith("-wal")}


def test_every_command_is_tried() -> None:
    assert {*(text.split()[0] for text in READS), "sql"} | WRITES == set(
        commands.list_commands(click.Context(commands))
    )


@pytest.mark.parametrize("lose", [healthy, no_lake, lost_catalog, empty_catalog, lost_data_path])
def test_reads_create_nothing(
    lose: Callable[[Path], None], events_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (events_folder / "lakeconf.toml").open("a") as file:
        file.write(MORE)
    (events_folder / "t.sql").write_text("SELECT 1 AS id")
    lose(events_folder)
    before = contents(events_folder)
    for command in [*(text.split() for text in READS), *READS_OF_SQL]:
        arguments = [*command, "--output", "report.html"] if command == ["report"] else command
        code = run(arguments)
        (events_folder / "report.html").unlink(missing_ok=True)
        assert contents(events_folder) == before, (command, code)
        assert code in (0, 1, 2), (command, capsys.readouterr())
        assert lose is not healthy or (code == 0) is not ("CREATE" in command[-1] or command[0] == "diff"), (
            command,
            capsys.readouterr(),
        )
