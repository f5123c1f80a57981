"""A branch while others work: maintenance and writes of the lake that it reads, and another first write."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from typing import TYPE_CHECKING, Any

import pytest
from branched_lakes import SHORT, contents, expire_all, lake_and_branch, rows_of
from local_stores import on_catalog, rows
from named_writer import carried_out, start
from spark_classes import spark_settings
from strength import in_prove
from whole_lakes import fill

import lakeconf
from lakeconf.errors import CommitConflictError
from lakeconf.inspection.doctor import repair_marker

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store

WRITERS = 4


def branched(request: pytest.FixtureRequest, folder: Path, catalog: str) -> tuple[Store, Store]:
    """A small lake and its branch."""
    prod, branch = lake_and_branch(request, folder, catalog)
    fill(prod, SHORT)
    repair_marker(prod, lambda *_: None)
    branch.create_branch()
    return prod, branch


def change_all(lake: Lake) -> None:
    """Replaces, compacts and drops all that a branch reads, and removes what nobody needs any more."""
    lake.table("raw.e").delete("id < 60")
    lake.table("raw.e").append([{"id": number, "name": "later"} for number in range(300)])
    lake.maintenance.compact()
    expire_all(lake)
    lake.table("raw.f").evolve(rename={"id": "more"})
    lake.table("raw.f").overwrite([{"more": 1}])
    expire_all(lake)
    for name in ("raw.e", "raw.f"):
        lake.drop_table(name)
    lake.maintenance.compact()
    expire_all(lake)


@pytest.mark.parametrize("catalog", ["sqlite", *in_prove(["postgres"])])
def test_a_branch_reads_the_same_while_its_lake_is_changed_and_maintained(
    catalog: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    prod, branch = branched(request, tmp_path, catalog)
    read, done = list[Any](), Event()
    with branch.open() as lake, prod.open() as other:
        before = contents(lake)

        def reading() -> None:
            while not done.is_set() or not read:
                read.append((contents(lake), rows(lake, "SELECT n, m FROM raw.v, raw.w")))

        with ThreadPoolExecutor(1) as pool:
            reader = pool.submit(reading)
            try:
                change_all(other)
            finally:
                done.set()
            reader.result()
        assert all(each == (before, [(60, 61)]) for each in read)
        lake.table("raw.e").append([{"id": 1000, "name": "own"}])
        assert len(rows_of(lake, "raw.e")) == 61
        assert other.refresh()
        assert other.tables() == []
    with branch.open() as lake:
        assert (len(rows_of(lake, "raw.e")), rows_of(lake, "raw.f")) == (61, before["raw.f"])


def test_a_branch_on_duckdb_reads_the_same_after_its_lake_was_changed(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    prod, branch = branched(request, tmp_path, "duckdb")
    with branch.open() as lake:
        before = contents(lake)
    with prod.open() as other:
        change_all(other)
    with branch.open() as lake:
        assert contents(lake) == before
        lake.table("raw.f").append([{"id": 1000}])
        assert len(rows_of(lake, "raw.f")) == 11


@pytest.mark.parametrize("catalog", ["sqlite", *in_prove(["postgres"])])
def test_first_writes_at_once_lose_and_double_nothing(
    catalog: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    prod, branch = branched(request, tmp_path, catalog)

    def append(number: int) -> list[tuple[int, str]]:
        with branch.open() as lake:
            lakes.wait(60)
            try:
                lake.table("raw.e").append([{"id": 1000 + number, "name": "own"}])
            except CommitConflictError:
                return []
            return [(1000 + number, "own")]

    lakes = Barrier(WRITERS)
    with ThreadPoolExecutor(WRITERS) as pool:
        written = [row for rows in pool.map(append, range(WRITERS)) for row in rows]
    with branch.open() as lake, prod.open() as other:
        assert written
        assert rows_of(lake, "raw.e") == sorted([*rows_of(other, "raw.e"), *written], key=repr)
        copies = [each.message for each in lake.snapshots() if str(each.message).startswith("copy raw.e from")]
        assert len(copies) == 1


@pytest.mark.prove
@pytest.mark.parametrize("catalog", ["sqlite", "postgres"])
def test_two_processes_of_spark_give_a_branch_one_table(
    catalog: str, tmp_path: Path, request: pytest.FixtureRequest, spark: SparkSession
) -> None:
    config = configuration(request, tmp_path, catalog)
    store = lakeconf.init(config).get_store("dev")
    assert store.branch_of is not None
    fill(store.branch_of, SHORT)
    store.create_branch()
    own = spark.newSession()
    store.attach(own)
    inserts = {writer: [f"INSERT INTO raw.e VALUES ({1000 + writer}, 'own')"] for writer in (1, 2)}
    changes = ["UPDATE raw.f SET id = id + 100", "DELETE FROM raw.f WHERE id % 2 = 0"]
    done: dict[int, list[int]] = {}
    with start(config, spark_settings(), [*inserts[2], changes[1]]) as process, ThreadPoolExecutor(2) as pool:
        other = pool.submit(process.communicate, "go\n")
        done[1] = carried_out(own, [*inserts[1], changes[0]])
        done[2] = json.loads(other.result()[0])
    with store.open() as lake:
        ids = [row[0] for row in rows_of(lake, "raw.e")]
        assert sorted(ids) == [*range(40, 100), *(1000 + writer for writer in (1, 2) if 0 in done[writer])]
        left = sorted(row[0] for row in rows_of(lake, "raw.f"))
        assert left in expected_of(done)
        names = [str(each.message).removeprefix("copy ").partition(" from")[0] for each in lake.snapshots()]
        assert names.count("raw.e") == 1
    assert 0 in done[1] or 0 in done[2]


def configuration(request: pytest.FixtureRequest, folder: Path, catalog: str) -> dict[str, Any]:
    """A lake and the store `dev`, its branch, as the processes of `named_writer` open them."""
    stores: dict[str, Any] = {}
    for name in ("prod", "dev"):
        (folder / name).mkdir()
        stores[name] = {
            "metadata_backend": on_catalog(request, folder / name, catalog),
            "storage_backend": {"type": "local", "path": str(folder / name / "data")},
        }
    stores["dev"]["branch_of"] = "prod"
    return {"stores": stores}


def expected_of(done: dict[int, list[int]]) -> list[list[int]]:
    """The ids that raw.f may have after those of its changes that were carried out, in either order."""
    shifted, odd = 1 in done[1], 1 in done[2]
    kept = [number for number in range(10) if number % 2 or not odd]
    return [[number + 100 * shifted for number in kept]]
