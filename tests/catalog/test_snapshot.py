from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from lakeconf.catalog.snapshot import by_timestamp, by_version, latest, snapshots
from lakeconf.errors import SnapshotNotFoundError

if TYPE_CHECKING:
    from catalog_lake import Lake


def test_snapshots_have_author_message_changes_and_time(source: Lake) -> None:
    before = datetime.now(UTC) - timedelta(seconds=5)
    source.run(
        "CREATE TABLE lake.t (a INTEGER)",
        "BEGIN",
        "INSERT INTO lake.t SELECT * FROM range(100)",
        """CALL lake.set_commit_message('ana', 'first load', extra_info => '{"run": 1}')""",
        "COMMIT",
    )
    made, loaded = snapshots(source.reader)[-2:]
    assert made.changes == 'created_table:"main"."t"'
    assert (loaded.author, loaded.message, loaded.extra_info) == ("ana", "first load", '{"run": 1}')
    assert loaded.changes == "inserted_into_table:1"
    assert before < made.time <= loaded.time < datetime.now(UTC) + timedelta(seconds=5)
    assert loaded == latest(source.reader) == by_version(source.reader, loaded.snapshot_id)


def test_by_timestamp_is_independent_of_time_zones(source: Lake) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)", "SET TimeZone = 'Asia/Tokyo'")
    elsewhere = timezone(timedelta(hours=-11))
    for snapshot in snapshots(source.reader):
        moment = snapshot.time.astimezone(elsewhere)
        assert by_timestamp(source.reader, moment) == snapshot
        at = f"lake.t AT (TIMESTAMP => TIMESTAMPTZ '{moment.isoformat()}')"
        if snapshot.snapshot_id > 0:
            assert source.rows(f"SELECT count(*) FROM {at}") == [(snapshot.snapshot_id - 1,)]


def test_by_timestamp_with_unordered_snapshot_times_matches_duckdb(source: Lake) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER)", *["INSERT INTO lake.t VALUES (1)"] * 3)
    for version, day in ((0, 1), (1, 1), (2, 4), (3, 2), (4, 3)):
        new = f"SET snapshot_time = '2026-01-0{day} 00:00:00+00' WHERE snapshot_id = {version}"
        source.run(f"UPDATE __ducklake_metadata_lake.ducklake_snapshot {new}")
    for day, version in ((2, 3), (3, 4), (4, 2)):
        noon = datetime(2026, 1, day, 12, tzinfo=UTC)
        assert by_timestamp(source.reader, noon).snapshot_id == version
        rows = source.rows(f"SELECT count(*) FROM lake.t AT (TIMESTAMP => TIMESTAMPTZ '{noon.isoformat()}')")
        assert rows == [(version - 1,)]


TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"


def test_error_for_an_expired_version_names_the_available_range(local: Lake) -> None:
    local.run("CREATE TABLE lake.t (a INTEGER)", *["INSERT INTO lake.t VALUES (1)"] * 3)
    local.run("CALL ducklake_expire_snapshots('lake', versions => [2])")
    with pytest.raises(SnapshotNotFoundError, match=r"version 2 has expired: the lake has the versions 0 .* to 4 "):
        by_version(local.reader, 2)
    for version in (99, -1):
        with pytest.raises(
            SnapshotNotFoundError,
            match=rf"version {version} does not exist: the lake has the versions 0 \({TIME}\) to 4 \({TIME}\)\n",
        ):
            by_version(local.reader, version)


def test_error_for_a_time_before_the_first_snapshot_names_the_range(local: Lake) -> None:
    with pytest.raises(SnapshotNotFoundError, match=r"no snapshot exists at 2001-.*: the lake has the versions 0 "):
        by_timestamp(local.reader, datetime(2001, 1, 1, tzinfo=UTC))


def test_timestamp_without_a_time_zone_is_rejected(local: Lake) -> None:
    with pytest.raises(SnapshotNotFoundError, match="has no time zone"):
        by_timestamp(local.reader, datetime(2030, 1, 1))
