"""The summary of a scan counts what the plan reads and skips."""

from __future__ import annotations

from dataclasses import replace

from lakeconf.engines.scan_summary import ScanSummary


def test_text_of_a_summary() -> None:
    found = ScanSummary("main.t", 7, "duckdb", 1, 2, 1024, 512, 3, 4, 5)
    explained = replace(found, writes={"merge": "spark: why", "delete": "duckdb: why"})
    assert str(explained).endswith("deletes\n  merge         spark: why\n  delete        duckdb: why")
    assert str(found) == (
        "scan of main.t at snapshot 7 by duckdb\n"
        "  data files    1 of 3 read, 1 KiB of 1.5 KiB\n"
        "  delete files  3\n"
        "  in catalog    5 rows, 4 deletes"
    )
