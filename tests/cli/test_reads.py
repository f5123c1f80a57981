"""What reads, and what plans a change, creates and changes nothing, whatever the store lacks: commands and methods."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING, Any

import click
import pytest

import lakeconf
from lakeconf import Lake, LakeconfError, Table
from lakeconf.cli.app import commands, run
from lakeconf.lake.maintenance import Maintenance

if TYPE_CHECKING:
    from pathlib import Path

# Each command without the options that make it write; `verify` starts Spark.
_READS = (
    "validate, validate --untrusted, stores, preview-sql, preview-sql --portable, export json-schema, "
    "validate --explain LC012, export dbt, export dlt, doctor, tables, tables raw.events, snapshots, "
    "history raw.events, report, metrics, grants --role reader, maintain --dry-run, "
    "restore raw.events --version 2 --dry-run, undo raw.events --dry-run, "
    "graph, plan, copy dev other raw.events --dry-run, move dev other --dry-run, diff dev other raw.events, "
    "backups --in ., restore-lake none --dry-run, branch dev"
)
READS = _READS.split(", ")
READS_OF_SQL = [["sql", "SELECT count(*) FROM raw.events"], ["sql", "CREATE TABLE raw.t (a INT)"]]
# They write: files that their options name, or the lake.
WRITES = {"init", "backup", "load", "adopt", "run", "test", "verify"}
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


@pytest.mark.slow
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
        assert lose is not healthy or (code == 0) is not (
            "CREATE" in command[-1] or command[0] in ("diff", "grants", "restore-lake")
        ), (
            command,
            capsys.readouterr(),
        )


# Each method that reads, of a lake with the table `raw.events`.
METHODS: dict[type, dict[str, Callable[[Any], object]]] = {
    Lake: {
        "at": lambda lake: lake.at(version=1).table("raw.events").count(),
        "columns_of": lambda lake: lake.columns_of(lake.table("raw.events").scan()),
        "plan_restore": lambda lake: lake.plan_restore("raw.events", version=2),
        "sql": lambda lake: lake.sql("SELECT count(*) FROM f, raw.events", f=lake.table("raw.events").scan()).collect(),
        "table": lambda lake: lake.table("raw.events"),
        **{name: attrgetter(name) for name in ("maintenance", "runs", "snapshot_id")},
        **{name: methodcaller(name) for name in ("refresh", "snapshots", "tables", "views")},
    },
    Maintenance: {
        "plan_cleanup": lambda one: one.plan_cleanup(older_than=timedelta(0), force=True),
        "plan_compaction": lambda one: one.plan_compaction(),
    },
    Table: {
        "changes": lambda table: table.changes(since=1).collect(),
        "explain": lambda table: table.explain(where="id = 3"),
        "scan": lambda table: table.scan(where="id = 3").collect(),
        **{name: attrgetter(name) for name in ("column_comments", "comment", "schema")},
        **{name: methodcaller(name) for name in ("count", "files", "head", "history", "idempotency_keys")},
        **{name: methodcaller(name) for name in ("to_arrow", "to_pandas", "to_polars")},
    },
}
# These write, need a running Spark, or have tests of their own.
OTHERS = {
    Lake: "adopt audit close create_table create_view drop_table drop_view execute open plan_adopt read_parquet "
    "rename_table restore stream stream_sink transaction",
    Maintenance: "cleanup compact expire_snapshots flush rewrite",
    Table: "append delete evolve merge overwrite overwrite_partitions set_comments update",
}


@pytest.mark.parametrize("kind", METHODS)
def test_every_method_is_tried(kind: type) -> None:
    public = {name for name in dir(kind) if not name.startswith("_")}
    assert public == {*METHODS[kind], *OTHERS[kind].split()}


def parts(lake: Lake) -> dict[type, Any]:
    return {Lake: lake, Maintenance: lake.maintenance, Table: lake.table("raw.events")}


STATES = [healthy, no_lake, lost_catalog, empty_catalog, lost_data_path]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lose", "read_only"),
    # To open a store that can be written creates its lake.
    [(lose, read_only) for lose in STATES for read_only in (True, False) if read_only or lose is not no_lake],
)
def test_methods_that_read_create_nothing(lose: Callable[[Path], None], read_only: bool, events_folder: Path) -> None:
    store = lakeconf.init().get_store()
    store = store.replace(attach_options={"read_only": True}) if read_only else store
    lose(events_folder)
    before = contents(events_folder)
    wrong: list[tuple[str, object]] = []
    for kind, name in [(kind, name) for kind, methods in METHODS.items() for name in methods]:
        try:
            with store.open() as lake:
                METHODS[kind][name](parts(lake)[kind])
        except LakeconfError as error:
            # DuckLake's function that finds files to remove needs a lake that can be written.
            wrong += [(name, error)] if lose is healthy and name != "plan_cleanup" else []
        wrong += [(name, "changed")] if contents(events_folder) != before else []
    assert wrong == []
