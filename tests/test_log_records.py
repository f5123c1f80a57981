"""A lake logs each event that changes it, in order, and never logs row values."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

import lakeconf

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_writes_and_maintenance_are_logged(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "lakeconf")
    with lakeconf.init().get_store().open() as lake:
        table = lake.create_table("raw.events", {"id": "BIGINT", "note": "VARCHAR"})
        caplog.clear()
        snapshot_id = table.append(pa.table({"id": [1], "note": ["a value of a row"]}))
        logged = [record.getMessage() for record in caplog.records if record.levelno >= logging.INFO]
        assert logged[0].startswith("staging rows for raw.events (write ")
        assert logged[1] == "staged 1 rows in 0 files for raw.events"
        assert logged[2].startswith("committing 1 changes to raw.events (write ")
        assert f" as snapshot {snapshot_id} in " in logged[3]
        caplog.clear()
        lake.maintenance.compact()
        lake.maintenance.expire_snapshots(older_than=timedelta(0), force=True)
        names = [record.name for record in caplog.records if record.levelno >= logging.INFO]
        assert "lakeconf.maintenance" in names
    assert "a value of a row" not in caplog.text
