"""Options and plans of the data source."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import lakeconf
from lakeconf.datasource.planning import Options, options_of, plan, resolve
from lakeconf.engines.spark.read.parts import Files
from lakeconf.errors import LakeconfError, SchemaError, SnapshotNotFoundError, TableNotFoundError, UnsupportedError

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


def test_options_are_converted_and_names_ignore_case() -> None:
    given = {"TABLE": "raw.events", "store": "prod", "columns": "a, b", "Timestamp": "2026-01-31T12:00:00+00:00"}
    options = options_of(given, "a read")
    assert options == Options("raw.events", "prod", columns="a, b", timestamp=datetime(2026, 1, 31, 12, tzinfo=UTC))
    assert options.names == ["a", "b"]
    stream = options_of({"table": "t", "since": "4", "changes": "TRUE", "snapshots_per_batch": "2"}, "a streaming read")
    assert stream == Options("t", since=4, changes=True, snapshots_per_batch=2)
    assert options_of({"table": "t", "idempotency_key": "k"}, "a write").idempotency_key == "k"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "the option table is missing"),
        ({"table": "t", "version": "x7"}, "the option version is not a whole number"),
        ({"table": "t", "version": "1_0"}, "the option version is not a whole number"),
        ({"table": "t", "timestamp": "x7"}, "the option timestamp is not a time such as 2026-01-31T12:00:00+00:00"),
        ({"table": "t", "version": "1", "timestamp": "2026-01-31"}, "pass either the option version or"),
        ({"table": "t", "since": "1"}, "a read has no option 'since'"),
        ({"table": "t", "password": "x7"}, "the data source has no option 'password'"),
    ],
)
def test_wrong_options_are_refused_without_their_values(given: dict[str, str], message: str) -> None:
    with pytest.raises(LakeconfError) as refused:
        options_of(given, "a read")
    assert refused.value.message.startswith(message)
    assert "x7" not in str(refused.value)


def test_a_similar_option_is_suggested() -> None:
    with pytest.raises(LakeconfError, match='did you mean "version"'):
        options_of({"table": "t", "versionn": "1"}, "a read")


@pytest.mark.parametrize(("name", "value"), [("snapshots_per_batch", "0"), ("changes", "yes"), ("since", "-1")])
def test_wrong_options_of_a_stream_are_refused(name: str, value: str) -> None:
    with pytest.raises(LakeconfError, match=f"the option {name} is"):
        options_of({"table": "t", name: value}, "a streaming read")
