"""Plans of the data source."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import lakeconf
from lakeconf.datasource.planning import Options, plan, resolve
from lakeconf.engines.spark.read.parts import Files, Rows
from lakeconf.errors import SchemaError, SnapshotNotFoundError, TableNotFoundError, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path


def paths(options: Options) -> list[str]:
    """The files of a plan at the latest snapshot."""
    parts = plan(options, resolve(options)[1])
    return [file.path for part in parts if isinstance(part, Files) for file in part.plan.files]


def test_the_snapshot_is_the_latest_or_the_one_of_the_options(events_folder: Path) -> None:
    assert events_folder.exists()
    columns, latest = resolve(Options("raw.events"))
    assert [column.name for column in columns] == ["id", "kind"]
    with lakeconf.init().get_store().open() as lake:
        assert latest == lake.snapshot_id
        (first, *_) = lake.table("raw.events").history()
    assert resolve(Options("raw.events", version=2))[1] == 2
    assert resolve(Options("raw.events", timestamp=first.time))[1] == first.snapshot_id


def test_columns_are_selected_in_the_order_of_the_option(events_folder: Path) -> None:
    assert events_folder.exists()
    columns, _ = resolve(Options("raw.events", columns="kind, id"))
    assert [column.name for column in columns] == ["kind", "id"]
    with pytest.raises(SchemaError, match="has no column 'size'"):
        resolve(Options("raw.events", columns="size"))


def test_files_without_matching_rows_are_skipped(events_folder: Path) -> None:
    assert events_folder.exists()
    assert len(paths(Options("raw.events"))) == 2
    assert len(paths(Options("raw.events", where="id < 3"))) == 1
    assert paths(Options("raw.events", where="id > 3", columns="kind")) == []


def test_rows_in_the_catalog_become_a_part(tmp_path: Path) -> None:
    (tmp_path / "lakeconf.toml").write_text(INLINING)
    options = Options("t", config=str(tmp_path / "lakeconf.toml"))
    with lakeconf.init(tmp_path).get_store().open() as lake:
        lake.create_table("t", {"id": "BIGINT", "kind": "VARCHAR"}).append([{"id": 1, "kind": "view"}])
    (part,) = plan(options, resolve(options)[1])
    assert isinstance(part, Rows)
    assert b"view" in part.stream
    assert "view" not in repr(part)


INLINING = """\
[stores.dev]
attach_options = { data_inlining_row_limit = 10 }
metadata_backend = { type = "sqlite", uri = "catalog.sqlite" }
storage_backend = { type = "local", path = "data" }
"""


def test_missing_tables_and_expired_snapshots_are_reported(events_folder: Path) -> None:
    assert events_folder.exists()
    with pytest.raises(TableNotFoundError, match=r"no table 'raw\.event'"):
        resolve(Options("raw.event"))
    with pytest.raises(SnapshotNotFoundError, match="version 99 does not exist"):
        resolve(Options("raw.events", version=99))
    _, snapshot_id = resolve(Options("raw.events", version=2))
    with lakeconf.init().get_store().open() as lake:
        lake.maintenance.expire_snapshots(older_than=timedelta(0), force=True)
    with pytest.raises(SnapshotNotFoundError, match="version 2 has expired"):
        plan(Options("raw.events"), snapshot_id)


def test_planning_neither_creates_nor_changes_a_lake(project: Path) -> None:
    with pytest.raises(lakeconf.LakeconfError, match="has no lake yet"):
        resolve(Options("raw.events"))
    assert [path.name for path in project.iterdir()] == ["lakeconf.toml"]


def test_variants_are_refused(project: Path) -> None:
    assert project.exists()
    with lakeconf.init().get_store().open() as lake:
        lake.create_table("t", {"id": "BIGINT", "v": "VARIANT"})
    with pytest.raises(UnsupportedError, match="the column 'v' holds VARIANT"):
        resolve(Options("t"))
    assert resolve(Options("t", columns="id"))
