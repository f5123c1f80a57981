"""`lakeconf maintain` and `doctor`: plan, steps, verdict, consent, what they do, and their JSON."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from local_stores import ids
from promotions import stored_rows
from source_tree import REPOSITORY

import lakeconf
from lakeconf.cli.inspect_commands import _show_findings, _verdict
from lakeconf.cli.output import show
from lakeconf.inspection.doctor import FAILED, StepResult

if TYPE_CHECKING:
    from pathlib import Path


OPERATIONS = REPOSITORY / "examples" / "operations"
SCHEDULERS = ("maintain.cron", "lakeconf-maintain.service", "maintain-cronjob.yaml", "maintain_dag.py")
NOW = ("--expire-days", "0", "--cleanup-days", "0", "--force")


@pytest.fixture
def folder(project: Path) -> Path:
    """A lake with a table of ten small files, and a file that belongs to no snapshot."""
    with lakeconf.init().get_store().open() as lake:
        lake.create_table("raw.t", {"id": "BIGINT"})
        for number in range(10):
            lake.table("raw.t").append(pa.table({"id": pa.array(range(10 * number, 10 * number + 10), pa.int64())}))
    (project / "data/raw/t/ducklake-01234567-89ab-7cde-8f01-23456789abcd.parquet").write_text("rows")
    return project


def stored(project: Path) -> set[str]:
    return {path.name for path in (project / "data").rglob("*") if path.is_file()}


def plan_of(folder: Path) -> str:
    return (
        "compact   raw.t: merge 10 small files\n"
        "expire    11 snapshots would be expired (versions 0 to 10)\n"
        "clean up  1 file would be removed, plus files that this run makes obsolete\n"
        f"          {folder}/data/raw/t/ducklake-01234567-89ab-7cde-8f01-23456789abcd.parquet\n"
        "          the catalog does not know 1 file: killed writes leave such files; or, if the catalog was restored "
        "from a backup, they have rows of later commits (docs/operations.md: Back up)\n"
    )


@pytest.mark.slow
def test_plan_is_shown_and_nothing_changes_without_consent(folder: Path, called: Any) -> None:
    files = stored(folder)
    assert called("maintain", "--store", "dev", *NOW, "--dry-run") == (0, plan_of(folder), "")
    assert called("maintain", *NOW, "--dry-run", "--yes") == (0, plan_of(folder), "")
    # Without a terminal and without --yes: exit code 2, the plan and a hint.
    code, out, err = called("maintain", "--store", "dev", *NOW)
    assert (code, out, "pass --yes" in err) == (2, plan_of(folder), True)
    code, out, _ = called("maintain", "--store", "dev", *NOW, "--format", "json")
    planned = json.loads(out)
    assert (code, planned["dry_run"]) == (2, True)
    assert planned["compaction"] == [{"table": "raw.t", "flushed_rows": 0, "rewritten_files": 0, "merged_files": 10}]
    assert stored(folder) == files


@pytest.mark.slow
def test_plan_is_carried_out_with_consent(folder: Path, called: Any) -> None:
    rows = stored_rows("raw.t")
    code, out, err = called("maintain", "--store", "dev", *NOW, "--yes")
    assert (code, err) == (0, "")
    plan, done = out.split("done:\n")
    assert plan == plan_of(folder)
    assert ", and has 1 (" in done
    assert "snapshots expired (versions 0 to 11)" in done
    assert "11 files removed" in done
    assert stored_rows("raw.t") == rows
    with lakeconf.init().get_store().open() as lake:
        assert len(lake.snapshots()) == 1
    assert called("maintain", "--store", "dev") == (
        0,
        "compact   nothing to merge, rewrite or flush\n"
        "expire    0 snapshots would be expired\nclean up  0 files would be removed\n",
        "",
    )
    with lakeconf.init().get_store().open() as lake:
        lake.table("raw.t").append([{"id": 100}])
    code, out, err = called("maintain", "--store", "dev", *NOW, "--yes", "--format", "json")
    found = json.loads(out)
    assert (code, err, found["dry_run"]) == (0, "", False)
    assert (found["compacted"]["files_before"], found["compacted"]["files_after"], len(found["removed"])) == (2, 1, 2)


@pytest.mark.slow
def test_options_limit_what_is_removed(folder: Path, called: Any) -> None:
    code, out, _ = called("maintain", "--dry-run")
    assert (code, "0 snapshots would be expired" in out, "0 files would be removed" in out) == (0, True, True)
    assert "8 snapshots would be expired" in called("maintain", *NOW, "--dry-run", "--keep", "4")[1]
    assert called("maintain", "--keep", "0")[0] == 2
    for age in ("--expire-days", "--cleanup-days"):
        assert called("maintain", "--store", "dev", age, "0.9", "--dry-run") == (
            1,
            "",
            "error: 21:36:00 is less than a day: other processes may still read or write the files\n"
            "  hint: pass a day or more; or, if nothing else uses the lake, --force (force=True)\n",
        )
        assert called("maintain", "--store", "dev", age, "1", "--dry-run")[0] == 0
        assert called("maintain", "--store", "dev", age, "0.9", "--dry-run", "--force")[0] == 0


@pytest.mark.slow
def test_the_store_declares_what_to_keep(folder: Path, called: Any) -> None:
    toml = (folder / "lakeconf.toml").read_text()
    for key, option in (("keep_snapshots", "--expire-days"), ("keep_files", "--cleanup-days")):
        for declared, problem in (("100001d", "must be at most 100000d"), ("100000d", "")):
            (folder / "lakeconf.toml").write_text(f'{toml}\n[stores.dev.maintenance]\n{key} = "{declared}"\n')
            code, _, err = called("maintain", "--dry-run")
            assert (code, problem in err) == (1 if problem else 0, True)
        assert called("maintain", "--dry-run", option, "1")[0] == 0


@pytest.mark.slow
def test_watch_repeats_until_sigterm_also_after_an_error(folder: Path, called: Any) -> None:
    for arguments in (["--watch", "1s"], ["--watch", "1s", "--yes", "--dry-run"]):
        code, _, err = called("maintain", *arguments)
        assert (code, "pass --yes, and omit --dry-run" in err) == (2, True)
    catalog = folder / "catalog.sqlite"
    away = catalog.rename(folder / "away")
    command = [sys.executable, "-m", "lakeconf", "maintain", *NOW, "--watch", "1s", "--yes"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        assert process.stdout
        assert "does not exist" in process.stderr.readline()
        away.rename(catalog)
        lines = iter(process.stdout.readline, "")
        assert any("and has 1 (" in line for line in lines)
        with lakeconf.init().get_store().open() as lake:
            lake.table("raw.t").append([{"id": 1}])
        assert any("and has 1 (" in line for line in lines)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("file", SCHEDULERS, ids=str)
def test_the_commands_of_schedulers_maintain_a_lake(file: str, folder: Path) -> None:
    (command,) = re.findall(r"lakeconf (maintain [^\n\"]+)", (OPERATIONS / file).read_text())
    arguments = [sys.executable, "-m", "lakeconf", *shlex.split(command.replace("prod", "dev"))]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert any("has 1 (" in line for line in iter(process.stdout.readline, ""))
        if "--watch" in command:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0
    with lakeconf.init().get_store().open() as lake:
        assert ids(lake, "raw.t") == list(range(100))


@pytest.mark.slow
def test_consent_is_asked_for_on_a_terminal(folder: Path, called: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    files = stored(folder)
    for answer in ("n", "", "y"):
        master, slave = pty.openpty()
        os.write(master, f"{answer}\n".encode())
        with os.fdopen(slave, "r") as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            code, _, err = called("maintain", "--store", "dev")
        os.close(master)
        assert code == (0 if answer == "y" else 1)
        assert "Carry this out on dev?" in err
        assert (stored(folder) == files) == ("nothing was changed" in err) == (answer != "y")


@pytest.mark.parametrize("value", ["nan", "inf", "1e12", "-1"])
def test_times_that_are_no_time_are_refused(value: str, project: Path, called: Any) -> None:
    for option in ("--expire-days", "--cleanup-days"):
        code, _, err = called("maintain", option, value, "--dry-run")
        assert (code, f"Invalid value for '{option}'" in err) == (2, True)


def test_broken_store_as_text_and_as_json(project: Path, called: Any) -> None:
    (project / "catalog.sqlite").write_text("this is no database, but a text of some length")
    code, out, _ = called("doctor")
    assert (code, "✗ catalog" in out) == (1, True)
    code, out, err = called("doctor", "--store", "dev", "--format", "json")
    data = json.loads(out)
    assert (code, err, data["store"], data["ok"]) == (1, "", "dev", False)
    catalog = next(step for step in data["steps"] if step["name"] == "catalog")
    assert catalog["status"] == "failed"
    assert set(catalog) == {"name", "status", "found", "hint", "seconds"}


ODD = StepResult("a", "warning", "odd", "do it")
BROKEN = StepResult("b", FAILED, "Binder Error: no such column\n\nLINE 1: FROM t\n        ^", "do it")


@pytest.mark.parametrize(
    ("steps", "lines"),
    [
        (
            [StepResult("catalog", "ok", "readable"), StepResult("clock", "skipped", "no server")],
            ["✓ catalog             readable", "- clock               no server", "dev works"],
        ),
        (
            [ODD, StepResult("c", "warning", "odd")],
            [
                *("! a                   odd", "                      hint: do it", "! c                   odd"),
                "dev works; look at the warnings: a, c",
            ],
        ),
        (
            [ODD, BROKEN, StepResult("c", "failed", "broken")],
            [
                *("! a                   odd", "                      hint: do it"),
                "✗ b                   Binder Error: no such column LINE 1: FROM t ^",
                *("                      hint: do it", "✗ c                   broken"),
                "dev does not work: b, c failed",
            ],
        ),
    ],
)
def test_steps_and_verdict(steps: list[StepResult], lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for step in steps:
        _show_findings(step)
    show(_verdict("dev", steps))
    assert capsys.readouterr() == ("".join(f"{line}\n" for line in lines), "")


@pytest.mark.slow
def test_repair_of_a_moved_catalog_needs_consent(project: Path, called: Any) -> None:
    with lakeconf.init().get_store().open() as lake:
        lake.create_table("raw.t", {"id": "BIGINT"})
    text = (project / "lakeconf.toml").read_text()
    (project / "lakeconf.toml").write_text(text.replace("catalog.sqlite", "moved.sqlite"))
    shutil.copy(project / "catalog.sqlite", project / "moved.sqlite")
    markers = {path: path.read_bytes() for path in (project / "data").rglob("*") if path.is_file()}
    called("doctor", "--yes")
    code, out, err = called("doctor", "--repair")
    assert (code, out) == (2, "")
    assert "was created for a catalog at another location" in err.splitlines()[0]
    assert "then pass --yes" in err
    assert {path: path.read_bytes() for path in (project / "data").rglob("*") if path.is_file()} == markers
    code, out, err = called("doctor", "--repair", "--yes")
    assert (code, "at another location" in err) == (0, True)
    assert called("doctor")[0] == 0
