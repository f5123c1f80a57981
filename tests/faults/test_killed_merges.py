"""A merge that Spark computes happens once or not at all if its processes are killed, with either committer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from killed_writers import after, check, files
from local_stores import config_of, on_postgres, store_of
from merge_cases import committer, fetched
from merging_process import JOINING, WRITING, start
from spark_classes import spark_settings
from strength import PROVE, in_prove
from writing_process import FIRST_BYTES, STAGED, TABLE, WAITS, Rows, frame, ids_of, read

import lakeconf

if TYPE_CHECKING:
    from servers import FaultProxy, PostgresServer

    from lakeconf import Lake, Store

# For each point, whether the merge has committed when its process is killed.
POINTS = {
    JOINING: False,
    WRITING: False,
    STAGED: False,
    "before the commit": False,
    "at the first byte of the commit": False,
    "in the middle of the commit": False,
    "after the commit": True,
    "resolve": True,
}
COMMITTERS = ("staged", "public")
# Each is a process with its own JVM: `make prove` runs all committers and catalogs, at each point.
FEW = {
    ("sqlite", "staged"): [WRITING],
    ("sqlite", "public"): [JOINING],
    ("duckdb", "staged"): ["in the middle of the commit"],
}
# The end of the rows that a staged commit copies to the catalog, and COMMIT.
COMMIT = {"staged": b"c\x00\x00\x00\x04Q\x00\x00\x00\x0bCOMMIT", "public": b"COMMIT"}


def prepare(store: Store, *, partitioned: bool = False) -> None:
    """A table with three writes; the first key makes the table of keys, which a staged commit cannot do."""
    with store.open() as lake:
        lake.create_table(TABLE, like=frame(0), partitioned_by=["write"] * partitioned)
        lake.table(TABLE).append(frame(0), idempotency_key="first")
        lake.table(TABLE).append(frame(1))


def row_ids(lake: Lake) -> dict[int, int]:
    return dict(fetched(lake, f"SELECT id, rowid FROM {TABLE}"))


def state(store: Store) -> tuple[Rows, dict[int, int], int]:
    """The rows of the table, their ids, and the snapshot."""
    with store.open() as lake:
        return read(lake), row_ids(lake), lake.snapshot_id


SETTINGS = {**spark_settings(), "spark.master": "local[2]"}


def check_merge(store: Store, folder: Path, number: int, before: Any, *, committed: bool) -> None:
    """Checks the lake after a killed merge, repeats the merge, and checks the lake again."""
    rows, ids, snapshot_id = before
    wanted = after(rows, "merge", number)
    check(store, folder, [wanted if committed else rows])
    with store.open() as lake:
        assert lake.snapshot_id == snapshot_id + committed
        lake.table(TABLE).merge(frame(number, ids_of("merge", number)), on="id", idempotency_key=str(number))
        assert lake.refresh() == snapshot_id + 1
        assert read(lake) == wanted
        found = row_ids(lake)
        assert {key: found[key] for key in ids} == ids
        changes = f"dev.raw.table_changes('t', {snapshot_id + 1}, {snapshot_id + 1})"
        kinds = dict(fetched(lake, f"SELECT change_type, count(*) FROM {changes} GROUP BY ALL"))
        assert kinds == {"update_preimage": 25, "update_postimage": 25, "insert": 25}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("catalog", "by"),
    [("sqlite", "staged"), *in_prove([("sqlite", "public"), ("duckdb", "staged"), ("duckdb", "public")])],
)
def test_killed_merge_happens_once_or_not_at_all(tmp_path: Path, catalog: str, by: str) -> None:
    config = config_of(tmp_path, {"type": catalog, "uri": str(tmp_path / "catalog")})
    config["stores"]["dev"]["committer"] = by
    store = lakeconf.init(config).get_store("dev")
    prepare(store, partitioned=catalog == "duckdb")
    for number, point in enumerate(POINTS if PROVE else FEW.get((catalog, by), POINTS), start=2):
        before, listed = state(store), files(tmp_path)
        process = start(config, SETTINGS, number, point)
        process.communicate()
        assert process.returncode == (-25 if point in FIRST_BYTES else -9), point
        assert point == "resolve" or any("lakeconf-" in str(path) for path in files(tmp_path) - listed)
        if POINTS[point]:
            with store.open() as lake:
                assert committer(lake) == by
        check_merge(store, tmp_path, number, before, committed=POINTS[point])


@pytest.mark.slow
@pytest.mark.prove("public", "committed")
@pytest.mark.parametrize("committed", [False, True], ids=["not received", "committed"])
@pytest.mark.parametrize("by", COMMITTERS)
def test_merge_killed_during_a_postgresql_commit(
    by: str, committed: bool, postgres_server: PostgresServer, postgres_proxy: FaultProxy, tmp_path: Path
) -> None:
    """The process is killed after it has sent COMMIT: the server never receives it, or its reply is lost."""
    database = postgres_server.create_database()
    store = store_of(tmp_path, on_postgres(postgres_server, database))
    proxied = config_of(tmp_path, on_postgres(postgres_server, database, postgres_proxy.port))
    proxied["stores"]["dev"]["committer"] = by
    prepare(store)
    before = state(store)
    process = start(proxied, SETTINGS, 2, WAITS)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "committing\n"
    postgres_proxy.hold_on(COMMIT[by], forward=committed)
    process.stdin.write("\n")
    process.stdin.flush()
    assert postgres_proxy.wait_until_held()
    process.kill()
    process.communicate()
    check_merge(store, tmp_path, 2, before, committed=committed)
