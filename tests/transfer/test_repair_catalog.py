"""A repair of a catalog leaves all rows as they are, and whatever somebody has to decide."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import dying_move
import pytest
from damaged_catalogs import DAMAGES, changed, damaged
from local_stores import rows
from strength import PROVE, in_prove

from lakeconf.errors import CatalogChangedError, CatalogError, CommitError, LakeconfError
from lakeconf.guard import locks
from lakeconf.transfer.repair_catalog import CatalogRepair, examine_catalog, repair_catalog

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Store

REPAIRABLE = [name for name, damage in DAMAGES.items() if damage.is_repairable]
OTHERS = [name for name, damage in DAMAGES.items() if not damage.is_repairable]


def repaired(store: Store, place: Path) -> CatalogRepair:
    return repair_catalog(store, str(place), examine_catalog(store))


def states(store: Store, until: int) -> list[Any]:
    """The rows of both tables at each snapshot."""
    with store.connect() as connection:
        versions = connection.sql(f"FROM ducklake_snapshots('{store.alias}') ORDER BY 1").fetchall()
        read: list[Any] = [version for version in versions if version[0] <= until]
        for version, *_ in list(read):
            for table, first in (("t", 1), ("u", 2)):
                if first <= version:
                    at = f"{table} AT (VERSION => {version})"
                    ids = connection.sql(f"SELECT rowid, * FROM {at} ORDER BY ALL").fetchall()
                    counts = connection.sql(f"SELECT count(*), min(a), max(a) FROM {at}").fetchall()
                    read.append((table, version, ids, counts))
    return read


@pytest.mark.parametrize("damage", REPAIRABLE)
def test_repair_makes_a_catalog_sound_and_changes_no_row(damage: str, small_store: Store, tmp_path: Path) -> None:
    before = states(small_store, 5)
    damaged(small_store, damage)
    done = repaired(small_store, tmp_path / "backups")
    assert (done.snapshot_id, done.left) == (6, ())
    assert examine_catalog(small_store) == []
    assert states(small_store, 5) == before
    assert [state.path for state in small_store.backups(str(tmp_path / "backups"))] == [done.kept]
    changed(
        small_store,
        "CREATE TABLE w (a INT)",
        "INSERT INTO t SELECT i, 'y' FROM range(60, 90) AS r(i)",
        "DELETE FROM t WHERE a < 40",
    )
    with small_store.open() as lake:
        lake.table("t").append(lake.sql("SELECT 100 AS a, 'z' AS b"))
        lake.table("t").delete("a = 41")
        lake.maintenance.compact()
        ids, values = zip(*rows(lake, "SELECT rowid, a FROM t"), strict=True)
    assert len(set(ids)) == 50
    assert sorted(values) == [40, *range(42, 90), 100]
    assert examine_catalog(small_store) == []


def test_backup_before_a_repair_is_the_catalog_as_it_was(small_store: Store, tmp_path: Path) -> None:
    for damage in REPAIRABLE:
        damaged(small_store, damage)
    findings = examine_catalog(small_store)
    done = repaired(small_store, tmp_path / "backups")
    small_store.restore_lake(done.kept)
    assert examine_catalog(small_store) == findings


@pytest.mark.slow
@pytest.mark.prove("postgres")
@pytest.mark.parametrize("damage", OTHERS)
def test_what_is_not_safe_stays_as_it_is(damage: str, small_store: Store, tmp_path: Path) -> None:
    damaged(small_store, "next row")
    damaged(small_store, damage)
    findings = examine_catalog(small_store)
    left = [finding for finding in findings if not finding.repairs]
    assert left
    if left == findings:  # the catalog cannot be read as a whole
        return
    backups = tmp_path / "backups"
    if DAMAGES[damage].stops_opening or damage == "inlined rows":  # a lake that cannot be backed up
        with pytest.raises(LakeconfError, match=r"nothing was (changed|copied)|its catalog is damaged"):
            repaired(small_store, backups)
        assert examine_catalog(small_store) == findings
    else:
        assert list(repaired(small_store, backups).left) == left == examine_catalog(small_store)


def test_half_of_a_commit_does_not_become_visible(small_store: Store, tmp_path: Path) -> None:
    """The snapshot of the repair would be that of its rows."""
    changed(
        small_store,
        f"UPDATE __ducklake_metadata_{small_store.alias}.ducklake_data_file SET begin_snapshot = 6",
        f"UPDATE __ducklake_metadata_{small_store.alias}.ducklake_snapshot SET next_catalog_id = 1",
    )
    findings = examine_catalog(small_store)
    assert [finding.check for finding in findings if finding.repairs] == ["ids"]
    with pytest.raises(CatalogError, match="other problems after the repair than before"):
        repaired(small_store, tmp_path / "backups")
    assert examine_catalog(small_store) == findings


def test_repair_waits_for_writers_and_sees_their_commits(
    small_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged(small_store, "next row")
    findings = examine_catalog(small_store)
    if small_store.metadata_backend.type != "duckdb":  # only one process can have it open
        monkeypatch.setattr(locks, "WAIT_SECONDS", 0.2)
        with small_store.open() as lake, lake.transaction():
            lake.table("u").append(lake.sql("SELECT 1 AS a"))
            with pytest.raises(CommitError, match="was not free"):
                repair_catalog(small_store, str(tmp_path / "backups"), findings)
    damaged(small_store, "next table")
    with pytest.raises(CatalogChangedError, match="nothing was changed"):
        repair_catalog(small_store, str(tmp_path / "backups"), findings)
    assert not (tmp_path / "backups").exists()


CONFIG = """
[stores.dev]
metadata_backend = {{ type = "{kind}", uri = "dev/catalog" }}
storage_backend = {{ type = "local", path = "dev/data" }}
"""
COMMAND = ("verify", "--catalog", "--repair", "--backup-to", "backups", "--format", "json")


def killed(folder: Path, number: int, when: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, dying_move.__file__, str(number), when, *COMMAND, "--yes"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("small_store", ["sqlite", *in_prove(["duckdb"])], indirect=True)
def test_killed_repair_leaves_the_catalog_as_it_was_or_repaired(
    small_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lakeconf.toml").write_text(CONFIG.format(kind=small_store.metadata_backend.type))
    before = states(small_store, 5)
    damaged(small_store, "next file")
    damaged(small_store, "bounds")
    old = examine_catalog(small_store)
    shutil.copytree(tmp_path / "dev", tmp_path / "before")
    finished = killed(tmp_path, 0, "")
    assert finished.returncode == 0, finished.stderr
    *output, steps = finished.stdout.rstrip().split("\n")
    assert json.loads("\n".join(output))["repaired"]["snapshot_id"] == 6
    for number in range(1, int(steps) + 1, 1 if PROVE else 2):
        shutil.rmtree(tmp_path / "dev")
        shutil.copytree(tmp_path / "before", tmp_path / "dev")
        ended = killed(tmp_path, number, "before" if number % 4 == 1 else "after")
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        assert examine_catalog(small_store) in (old, [])
        assert {state.problem for state in small_store.backups(str(tmp_path / "backups"))} == {None}
        again = killed(tmp_path, 0, "")
        assert again.returncode == 0, (number, again.stderr)
        assert examine_catalog(small_store) == []
        assert states(small_store, 5) == before
