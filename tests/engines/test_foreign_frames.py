"""Frames that belong to another lake's connection: one query may read a frame several times."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest

import lakeconf

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 300_000


@pytest.mark.parametrize("has_pyarrow", [True, False])
def test_frame_of_another_lake_can_be_read_twice(
    has_pyarrow: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = {
        name: {
            "metadata_backend": {"type": "sqlite", "uri": str(tmp_path / f"{name}.sqlite")},
            "storage_backend": {"type": "local", "path": str(tmp_path / name)},
        }
        for name in ("one", "other")
    }
    config = lakeconf.init({"stores": declared})
    with config.get_store("one").open() as one, config.get_store("other").open() as other:
        if not has_pyarrow:
            find = importlib.util.find_spec
            monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyarrow" else find(name))
        frame = other.sql(f"SELECT i, (i % 7)::VARCHAR AS s FROM range({ROWS}) t(i)")
        for query, expected in (
            ("SELECT count(*) FROM (FROM f EXCEPT ALL FROM f)", 0),
            ("SELECT count(*) FROM f a JOIN f b USING (i, s)", ROWS),
            ("SELECT count(*) FROM (FROM f UNION ALL FROM f)", 2 * ROWS),
        ):
            assert one.query(query, {"f": frame}).to_native().fetchall() == [(expected,)], query
        table = one.create_table("raw.t", {"i": "BIGINT", "s": "VARCHAR"})
        table.merge(frame, on="i")
        table.merge(frame, on="i")
        assert one.sql("SELECT count(*) FROM raw.t").to_native().fetchall() == [(ROWS,)]
