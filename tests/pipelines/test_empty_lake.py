"""Temporary lakes."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from lakeconf.pipelines.models.declared import empty_lake

if TYPE_CHECKING:
    import pytest


def test_empty_lake_has_no_tables_and_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with contextlib.ExitStack() as stack:
        lake = empty_lake(stack, "dev", alias="other")
        assert repr(lake).startswith("Lake('other' at snapshot 0")
        assert (lake.tables(), lake.runs.committed("raw.t")) == ([], [])
        lake.create_table("raw.t", {"id": "BIGINT"})
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []
