"""Two lakes on one SQLite catalog register files at the same time, as two clients of Spark Connect do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from registering_process import run

if TYPE_CHECKING:
    from pathlib import Path


def test_two_lakes_that_register_files_at_the_same_time_end_with_all_rows(project: Path) -> None:
    """DuckLake would load the mapping of the other file twice, and crash or hang."""
    done = run(project / "lakeconf.toml")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == [f"{name} 1" for name in ("one", "two", *(f"later_{at}" for at in range(4)))]
