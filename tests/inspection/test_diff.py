"""Differences between two tables, and what maintenance would do."""

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
from lakeconf.inspection.diff import TableDiff, compare
from lakeconf.inspection.doctor_lake import Day, advice, daily_growth, planned_maintenance

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Store


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Store]:
    """Two stores with tables that each differ in one respect."""
    folder: Path = tmp_path_factory.mktemp("compared")
    declared = {
        name: {
            "metadata_backend": {"type": "sqlite", "uri": str(folder / f"{name}.sqlite")},
            "storage_backend": {"type": "local", "path": str(folder / name)},
        }
        for name in ("dev", "prod")
    }
    config = lakeconf.init({"stores": declared})
    found = config.get_store("dev"), config.get_store("prod")
    for store, tables in zip(found, (DEV, PROD), strict=True):
        with store.open() as lake:
            for name, query in tables.items():
                frame = lake.sql(query)
                lake.create_table(f"t.{name}", frame).append(frame)
    return found


KEYED = "SELECT * FROM (VALUES {}) AS t(id, a, b)"
DEV = {
    "twice": "SELECT unnest([1, 1, 2]) AS a",
    "keyed": KEYED.format("(1, 10, 'x'), (2, 20, NULL), (3, 30, 'z'), (NULL, 40, 'n'), (5, 50, 'v')"),
    "typed": "SELECT 1 AS a, 2 AS only_dev",
    "many": "SELECT unnest(range(10)) AS a",
}
PROD = {
    "twice": "SELECT unnest([1, 2, 2, 2]) AS a",
    "keyed": KEYED.format("(1, 11, 'x'), (2, 20, 'y'), (NULL, 41, 'n'), (5, 50, 'v'), (6, 60, 'w')"),
    "typed": "SELECT CAST(1 AS BIGINT) AS a, 3 AS only_prod",
    "many": "SELECT unnest(range(100, 120)) AS a",
}


def diff(stores: tuple[Store, Store], name: str, on: tuple[str, ...] = (), samples: int = 5) -> TableDiff:
    return compare(*stores, f"t.{name}", on, samples=samples)


def test_duplicate_rows_are_counted(stores: tuple[Store, Store]) -> None:
    found = diff(stores, "twice")
    assert (found.rows, found.only, found.equal, found.is_equal) == ((3, 4), (1, 2), 2, False)
    assert found.samples == ([{"a": 1}], [{"a": 2}, {"a": 2}])


def test_nulls_are_compared_as_keys_and_values(stores: tuple[Store, Store]) -> None:
    found = diff(stores, "keyed", ("id",))
    assert (found.only, found.equal, found.columns) == ((1, 1), 1, {"a": 2, "b": 1})
    assert [row["id"] for side in found.samples for row in side] == [3, 6]
    assert found.sample_changes == [
        {"id": 1, "a": [10, 11], "b": ["x", "x"]},
        {"id": 2, "a": [20, 20], "b": [None, "y"]},
        {"id": None, "a": [40, 41], "b": ["n", "n"]},
    ]


def test_missing_columns_and_other_types_are_differences(stores: tuple[Store, Store]) -> None:
    found = diff(stores, "typed")
    assert sorted(found.schema) == [
        ("a", "INTEGER", "BIGINT"), ("only_dev", "INTEGER", None), ("only_prod", None, "INTEGER")
    ]  # fmt: skip
    assert (found.only, found.equal, found.is_equal) == ((0, 0), 1, False)


@pytest.mark.parametrize("samples", [0, 3])
def test_number_of_samples_is_limited(samples: int, stores: tuple[Store, Store]) -> None:
    found = diff(stores, "many", samples=samples)
    assert (found.only, [len(side) for side in found.samples]) == ((10, 20), [samples, samples])
    assert len(diff(stores, "keyed", ("id",), samples).sample_changes) == samples


def test_table_equals_itself_with_any_key(stores: tuple[Store, Store]) -> None:
    for on in ((), ("id",), ("id", "a", "b")):
        found = compare(stores[0], stores[0], "t.keyed", on)
        assert (found.is_equal, found.equal, found.only) == (True, 5, (0, 0))


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
