"""What must hold after a schedule, whatever went wrong in it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from simulator.duckdb_model import token_of
from simulator.programs import Done, Outcome

if TYPE_CHECKING:
    from simulator.world import World


def problems_of(world: World, done: list[Done]) -> list[str]:
    """What is wrong after a schedule; the last cleanup runs without faults."""
    found = [*world.problems]
    world.faults.left = 0
    world.server.finish_commits()
    if world.server.locks:
        found.append(f"locks are not free: {world.server.locks}")
    lost = set(_missing(world))
    if lost - world.bucket.dropped:
        found.append(f"the catalog has files that do not exist: {sorted(lost - world.bucket.dropped)}")
    # DuckLake removed these files. They may only stay missing if more went wrong than a lost reply, and if the process
    # was stopped or said so.
    told = any(one.damaged or one.outcome is Outcome.UNKNOWN for one in done)
    more = any("COMMIT" not in fault or "connection" not in fault for fault in world.happened)
    if lost and not (told and more):
        found.append(f"files of a commit with a lost reply were not restored: {sorted(lost)}")
    found += _snapshots(world)
    if not lost:
        found += _rows(world, done)
        found += _orphans(world)
    if not world.happened and not world.scheduler.pauses:
        found += [f"a plain append was refused without a fault: {one}" for one in done if _refused_append(one)]
    return found


def _missing(world: World) -> Iterator[str]:
    return (path for path in world.catalog.known_files() if path not in world.bucket.files)


def _refused_append(done: Done) -> bool:
    # An expiry may remove the snapshot that a lake reads, until it refreshes.
    expired = done.error.startswith("SnapshotNotFoundError")
    return done.kind in ("append", "both", "keyed") and done.outcome is not Outcome.ACKNOWLEDGED and not expired


def _snapshots(world: World) -> Iterator[str]:
    rows = world.catalog.state.execute(
        "SELECT snapshot_id, commit_extra_info FROM ducklake_snapshot_changes"
    ).fetchall()
    snapshots = defaultdict(list)
    for snapshot, info in rows:
        snapshots[token_of(info)].append(snapshot)
    for token, made in snapshots.items():
        if token is not None and len(made) > 1:
            yield f"the write {token} made the snapshots {made}"


def _rows(world: World, done: list[Done]) -> Iterator[str]:
    events, audit, counter = (_table(world, table) for table in ("events", "audit", "counter"))
    deletes = {one.value: one for one in done if one.kind == "delete"}
    for one in done:
        if one.kind in ("append", "both", "keyed"):
            attempts = [other for other in done if other.kind == one.kind and other.value == one.value]
            yield from _check(f"{one}", events[one.value], attempts, deletes.get(one.value))
        if one.kind == "both" and audit[one.value] != events[one.value]:
            yield f"a half of the transaction is there: {one}"
    increments = [one.outcome for one in done if one.kind == "increment"]
    least = increments.count(Outcome.ACKNOWLEDGED)
    most = least + increments.count(Outcome.UNKNOWN)
    (number,) = counter.elements()
    if not least <= number <= most:
        yield f"the counter is {number} after {least} acknowledged and {most - least} unknown increments"
    keys = [key for _, _, (_, key, *_), _ in _live(world, "commits") if key != "first"]
    wanted = {f"batch-{one.value}" for one in done if one.kind == "keyed" and events[one.value]}
    if sorted(keys) != sorted(wanted):
        yield f"the recorded keys are {sorted(keys)}, and the written batches {sorted(wanted)}"
    known = {abs(one.value) for one in done}
    unknown = [value for value in events if abs(value) not in known]
    if unknown:
        yield f"rows that no write wrote: {unknown}"


def _check(what: str, count: int, attempts: list[Done], deleted: Done | None) -> Iterator[str]:
    outcomes = {one.outcome for one in attempts}
    least = 1 if Outcome.ACKNOWLEDGED in outcomes else 0
    most = 0 if outcomes == {Outcome.REFUSED} else 1
    if deleted is not None and deleted.outcome is not Outcome.REFUSED:
        least = 0
        most = 0 if deleted.outcome is Outcome.ACKNOWLEDGED else most
    if not least <= count <= most:
        yield f"the row is there {count} times, instead of {least} to {most} times: {what}, deleted by {deleted}"


def _orphans(world: World) -> Iterator[str]:
    """Removes what the schedule left behind, and checks what remains."""
    world.scheduler.now += 1
    with world.store.open() as lake:
        lake.maintenance.cleanup(older_than=datetime.fromtimestamp(world.scheduler.now + 1, UTC), force=True)
    yield from world.problems[len(world.problems) :]
    files = set(world.bucket.parquet_files(world.catalog.data_path))
    known = set(world.catalog.known_files())
    if files != known:
        yield f"the last cleanup left orphans {sorted(files - known)} and removed {sorted(known - files)}"


def _live(world: World, table: str) -> list[tuple[int, int, Any, int]]:
    catalog = world.catalog
    return list(catalog.rows(catalog.table_id(table), catalog.newest()))


def _table(world: World, table: str) -> Counter[int]:
    return Counter(row for _, _, row, _ in _live(world, table))
