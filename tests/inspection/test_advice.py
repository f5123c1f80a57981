"""What maintenance would do, as numbers: they agree with the plan, and with what the compaction then does."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import lakeconf
from lakeconf.catalog.history import LakeSize
from lakeconf.cli.app import run
from lakeconf.inspection.doctor_lake import Day, advice, daily_growth, planned_maintenance

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Store

ROWS = pa.table({"id": list(range(100)), "part": [number % 3 for number in range(100)]})


@pytest.fixture
def store(project: Path) -> Store:
    return lakeconf.init(project).get_store("dev")


def test_advice_agrees_with_the_command_and_with_the_compaction(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    with store.open() as lake:
        plain = lake.create_table("raw.plain", ROWS)
        parted = lake.create_table("raw.parted", like=ROWS, partitioned_by=["part"])
        for _ in range(4):
            plain.append(ROWS)
            parted.append(ROWS)
        lake.create_table("raw.one", ROWS).append(ROWS)
        deleted = lake.create_table("raw.deleted", ROWS)
        deleted.append(ROWS)
        deleted.delete("id < 97")
    assert run(["maintain", "--dry-run", "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)["compaction"]
    with store.open() as lake:
        found = advice(lake, planned_maintenance(lake).compaction)
        assert {one.plan.table: one.plan.merged_files for one in found} == {
            one["table"]: one["merged_files"] for one in shown
        }
        assert [(one.plan.table, one.becomes, one.steps) for one in found] == [
            ("raw.parted", 3, ["merge 12 small files into about 3"]),
            ("raw.plain", 1, ["merge 4 small files into about 1"]),
            ("raw.deleted", 0, ["rewrite 1 file with deleted rows"]),
        ]
        lake.maintenance.compact()
        assert {one.plan.table: len(lake.table(one.plan.table).files()) for one in found} == {
            "raw.parted": 3,
            "raw.plain": 1,
            "raw.deleted": 1,
        }
        assert planned_maintenance(lake).compaction == ()


def test_number_of_merged_files_comes_from_the_target_size(store: Store) -> None:
    with store.open() as lake:
        table = lake.create_table("raw.t", ROWS)
        for _ in range(10):
            table.append(ROWS)
        native = store.connect()
        native.execute("CALL dev.set_option('target_file_size', '4KB')")
        native.close()
        (found,) = advice(lake, planned_maintenance(lake).compaction)
        size = sum(file.bytes for file in table.files())
        assert (found.plan.merged_files, found.becomes) == (10, math.ceil(size / 4000))
        lake.maintenance.compact()
        # Merged files have one footer instead of several, so they are smaller than their sum.
        assert 1 <= len(table.files()) <= found.becomes


def test_rows_of_the_catalog_are_written_to_files(store: Store) -> None:
    with store.open() as lake:
        lake.create_table('raw."a.b"', ROWS).append(ROWS)
        native = store.connect()
        native.execute("CALL dev.set_option('data_inlining_row_limit', 10); INSERT INTO raw.\"a.b\" VALUES (1, 1)")
        native.close()
        lake.refresh()
        (found,) = advice(lake, planned_maintenance(lake).compaction)
    assert (found.plan.table, found.steps) == ('raw."a.b"', ["write 1 row of the catalog to files"])


def sizes(*given: tuple[int, int, int, int]) -> list[LakeSize]:
    """Sizes of snapshots: version, day, bytes, files."""
    return [
        LakeSize(version, datetime(2026, 1, day, 12, tzinfo=UTC), files, size, 0) for version, day, size, files in given
    ]


def test_growth_of_a_day_is_the_difference_to_the_day_before() -> None:
    found = daily_growth(sizes((0, 1, 0, 0), (1, 1, 10, 1), (2, 1, 30, 3), (3, 4, 20, 2)))
    assert found == [Day(date(2026, 1, 1), 3, 30, 3, 30, 3), Day(date(2026, 1, 4), 1, 20, 2, -10, -1)]


def test_growth_of_the_first_day_is_unknown_after_an_expiry() -> None:
    found = daily_growth(sizes((7, 1, 10, 1), (8, 2, 30, 3)))
    assert [(one.added_bytes, one.added_files) for one in found] == [(None, None), (20, 2)]
    assert daily_growth([]) == []
