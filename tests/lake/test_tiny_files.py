"""The compaction of a table of very many files works within its limits, and continues where the last one ended."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from local_stores import store_of
from strength import PROVE
from tiny_files import make_tiny_files

if TYPE_CHECKING:
    from pathlib import Path

FILES = 100_000 if PROVE else 4_500
MEMORY, DEADLINE = ("4GB", dt.timedelta(seconds=30)) if PROVE else ("500MB", dt.timedelta(seconds=0.1))
ROWS = "SELECT count(*), count(DISTINCT rowid), min(rowid), max(rowid), min(name), max(id) FROM dev.t"


def test_compaction_of_tiny_files_ends_within_its_limits(tmp_path: Path) -> None:
    store = store_of(tmp_path, {"type": "duckdb", "uri": str(tmp_path / "catalog")})
    make_tiny_files(store, tmp_path / "data", FILES)
    left, deadline = [FILES], DEADLINE
    while left[-1] > 1:
        with store.open() as lake:
            done = lake.maintenance.compact(deadline=deadline, memory_limit=MEMORY)
        assert done.files_before == left[-1], "nothing is lost between two runs"
        assert done.files_after == 1 or not done.complete
        left.append(done.files_after)
        deadline *= 2  # a busy machine may need longer for the first transaction
    assert left == sorted(left, reverse=True)
    assert len(left) > 2, "the deadline ended a run"
    with store.open() as lake:
        assert len(lake.table("t").files()) == 1
        assert lake._session.writer.rows(ROWS) == [(FILES, FILES, 0, FILES - 1, "x", 1)]
