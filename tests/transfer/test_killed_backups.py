"""A backup that is killed at any step leaves the lake as it was, no half backup, and does not stop the next one."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import dying_move
import pytest
from local_stores import new_store
from strength import PROVE
from whole_lakes import everything, fill

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """
[stores.prod]
metadata_backend = { type = "sqlite", uri = "prod/catalog" }
storage_backend = { type = "local", path = "prod/data" }

"""


def backed_up(folder: Path, number: int, when: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, dying_move.__file__, str(number), when, "backup", "--store", "prod", "--to", "backups"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_killed_backup_is_a_whole_one_or_none(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lakeconf.toml").write_text(CONFIG)
    store = new_store(request, tmp_path, "prod", "sqlite", "local")
    fill(store)
    before, place = everything(store), str(tmp_path / "backups")
    finished = backed_up(tmp_path, 0, "")
    assert finished.returncode == 0, finished.stderr
    steps = int(finished.stdout.split()[-1])
    numbers = range(1, steps + 1) if PROVE else (1, steps - 1, steps)
    for number in numbers:
        for when in ("before", "after"):
            killed = backed_up(tmp_path, number, when)
            assert killed.returncode == -signal.SIGKILL, killed.stderr
            assert [state.problem for state in store.backups(place) if state.problem] == []
            assert everything(store) == before
    whole = len(store.backups(place))
    assert 1 <= whole <= 1 + len(numbers)
    again = backed_up(tmp_path, 0, "")
    assert (again.returncode, len(store.backups(place))) == (0, whole + 1), again.stderr
    store.restore_lake(store.backups(place)[0].path)
    assert everything(store) == before
