"""DuckDB computes a merge for Spark only if it is small."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeconf.engines import scan_summary
from lakeconf.engines.scan_summary import MOST_FILE_BYTES, MOST_FRAME_BYTES, size_refusal

if TYPE_CHECKING:
    import pytest


def test_sizes_up_to_the_limits_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert size_refusal(MOST_FRAME_BYTES, MOST_FILE_BYTES) is None
    assert size_refusal(MOST_FRAME_BYTES + 1, 0) == "the frame has 128 MiB, more than 128 MiB"
    assert size_refusal(0, MOST_FILE_BYTES + 1) == "the files have 4 GiB, more than 4 GiB"
    monkeypatch.setattr(scan_summary, "MOST_FRAME_BYTES", 0)
    assert size_refusal(1, 0) == "the frame has 1 B, more than 0 B"
