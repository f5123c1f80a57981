"""For every pair of backends: the life of a table with the same code on both engines, and `lakeconf doctor`."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakeconf.engines.spark.hadoop import configure_session
from lakeconf.errors import CommitError
from lakeconf.guard import locks
from lakeconf.guard.guard import locks_of, reader_of
from lakeconf.inspection.doctor import diagnose
from lakeconf.store import open_connection

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakeconf import Lake, Store
    from lakeconf.inspection.doctor import StepResult


ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "name": [f"n{number}" for number in range(10)]})


# On Spark, each backend is used once, and every pair in `make prove`.
QUICK = ("sqlite-local-on_spark",)
SLOW = (
    "duckdb-r2-on_spark",
    "sqlite-gcs-on_spark",
    "postgres-s3-on_spark",
    "postgres_service-share-on_spark",
    "postgres-azure-on_spark",
)
PROVEN = tuple(
    f"{metadata}-{storage}-on_spark"
    for metadata in ("duckdb", "sqlite", "postgres")
    for storage in ("local", "s3", "r2", "gcs", "azure")
    if f"{metadata}-{storage}-on_spark" not in QUICK + SLOW
)


@pytest.fixture(params=["on_duckdb", pytest.param("on_spark", marks=pytest.mark.hadoop_aws)])
def engine(request: pytest.FixtureRequest, store: Store) -> Any:
    if request.param == "on_duckdb":
        return None
    spark = request.getfixturevalue("spark")
    assert store.storage_backend is not None
    configure_session(spark, store.storage_backend.hadoop_settings())
    return spark


def rows(lake: Lake) -> list[tuple[Any, ...]]:
    table = lake.table("raw.t").scan(columns=["id", "name"]).collect("pyarrow").to_native()
    return sorted(zip(table["id"].to_pylist(), table["name"].to_pylist(), strict=True))


def assert_only_live_files(store: Store, lake: Lake, stored: set[str]) -> None:
    listed = lake.sql(f"SELECT data_file, delete_file FROM ducklake_list_files('{store.alias}', 't', schema => 'raw')")
    live = {path for row in listed.collect("pyarrow").rows() for path in row if path is not None}
    assert sorted(path.rpartition("/")[2] for path in stored) == sorted(path.rpartition("/")[2] for path in live)


# Runs in another process: opens the store from its configuration and prints the rows it reads.
READER = """
import json, sys
import lakeconf
with lakeconf.init(json.load(sys.stdin)).get_store("dev").open() as lake:
    rows = lake.table("raw.t").scan(columns=["id", "name"]).collect("pyarrow").rows()
json.dump(sorted(rows), sys.stdout)
"""


@pytest.mark.slow(*SLOW)
@pytest.mark.prove(*PROVEN)
def test_the_life_of_a_table_in_a_lake(
    store: Store, engine: Any, files: Callable[[], set[str]], config: dict[str, Any]
) -> None:
    with store.open(engine) as lake:
        table = lake.create_table("raw.t", like=ROWS)
        written = table.append(ROWS)
        table.append(pa.table({"name": ["ten"], "id": pa.array([10], pa.int64())}))
        table.update({"name": "changed"}, where="id = 3")
        table.delete("id < 2")
        expected = [(2, "n2"), (3, "changed"), *((number, f"n{number}") for number in range(4, 10)), (10, "ten")]
        assert rows(lake) == expected
        assert rows(lake.at(version=written)) == list(zip(range(10), ROWS["name"].to_pylist(), strict=True))
        changes = lake.sql(
            f"SELECT change_type, count(*) AS n FROM ducklake_table_changes('{store.alias}', 'raw', 't', "
            f"{written + 1}, {lake.snapshot_id}) GROUP BY ALL ORDER BY ALL"
        )
        assert changes.collect("pyarrow").rows() == [
            ("delete", 2),
            ("insert", 1),
            ("update_postimage", 1),
            ("update_preimage", 1),
        ]
        inlined = table.explain().inlined_rows
        assert sum(file.rows - file.deleted_rows for file in table.files()) + inlined == len(expected)
        first, *_, last = table.history()
        assert (first.changes[0], first.message) == ("created_table", "create table raw.t")
        assert last.snapshot_id == lake.snapshot_id
        table.overwrite(ROWS.slice(5), where="id BETWEEN 5 AND 9")
        assert rows(lake) == expected
        lake.maintenance.compact()
        assert rows(lake) == expected
        assert lake.maintenance.expire_snapshots(older_than=dt.timedelta(0), force=True) == list(
            range(lake.snapshot_id)
        )
        assert lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True)
        assert_only_live_files(store, lake, files())
        assert rows(lake) == expected
        table.merge(pa.table({"id": pa.array([10, 11], pa.int64()), "name": ["X", "eleven"]}), on="id")
        expected = [*expected[:-1], (10, "X"), (11, "eleven")]
    with store.open(engine) as reopened:
        assert rows(reopened) == expected
    if engine is None:
        read = subprocess.run(
            [sys.executable, "-c", READER], input=json.dumps(config), stdout=subprocess.PIPE, text=True, check=True
        )
        assert [tuple(row) for row in json.loads(read.stdout.splitlines()[-1])] == expected


DAYS = [dt.date(2024, 1, 1 + number % 3) for number in range(10)]
KINDS = [["a b/ü", "", None, "NULL"][number % 4] for number in range(10)]
PARTED = ROWS.append_column("day", pa.array(DAYS, pa.date32())).append_column("kind", pa.array(KINDS, pa.string()))


@pytest.mark.prove("on_spark-sqlite-s3")
@pytest.mark.slow
@pytest.mark.parametrize(
    "pair", [("duckdb", "local"), ("sqlite", "s3"), ("postgres", "s3")], ids="-".join, indirect=True
)
def test_the_life_of_a_partitioned_table(store: Store, engine: Any, files: Callable[[], set[str]]) -> None:
    with store.open(engine) as lake:
        table = lake.create_table("raw.t", like=PARTED, partitioned_by=["day", "kind"])
        written = table.append(PARTED)
        folders = {path.partition("/raw/t/")[2].rpartition("/")[0] for path in files()}
        names = {"a b/ü": "a%20b%2F%C3%BC", None: "__HIVE_DEFAULT_PARTITION__"}
        assert folders == {f"day={day}/kind={names.get(kind, kind)}" for day, kind in zip(DAYS, KINDS, strict=True)}
        again = PARTED.set_column(0, "id", pa.array(range(20, 30), pa.int64()))
        table.append(again)
        table.overwrite_partitions(again.slice(0, 1))
        table.delete("id = 21")
        table.update({"name": "changed"}, where="id = 22")
        kept = [(number, f"n{number}") for number in range(1, 10)]
        expected = [*kept, (20, "n0"), (22, "changed"), *((20 + number, name) for number, name in kept[2:])]
        assert rows(lake) == expected
        assert len(rows(lake.at(version=written))) == 10
        for where in ("day = '2024-01-02'", "kind IS NULL", "kind = ''", "kind = 'NULL'", "kind = 'a b/ü'"):
            found = sorted(table.scan(columns=["id"], where=where).collect("pyarrow").rows())
            assert found == sorted(lake.sql(f"SELECT id FROM raw.t WHERE {where}").collect("pyarrow").rows()) != []
        lake.maintenance.compact()
        lake.maintenance.expire_snapshots(older_than=dt.timedelta(0), force=True)
        lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True)
        assert rows(lake) == expected
        assert_only_live_files(store, lake, files())


# One pair of each kind is enough: a rejected write never reaches a backend.
@pytest.mark.slow("on_spark")
@pytest.mark.parametrize("pair", [("sqlite", "local"), ("postgres", "s3")], ids="-".join, indirect=True)
def test_rejected_write_leaves_no_file(store: Store, engine: Any, files: Callable[[], set[str]]) -> None:
    with store.open(engine) as lake:
        table = lake.create_table("raw.t", like={"id": "BIGINT NOT NULL", "name": "VARCHAR"})
        table.append(ROWS)
        before, on_disk = lake.snapshot_id, files()
        with pytest.raises(Exception, match="NOT NULL"):
            table.append(pa.table({"id": pa.array([None], pa.int64()), "name": ["x"]}))
        with pytest.raises(Exception, match="do not satisfy"):
            table.overwrite(ROWS, where="id = 1")
        assert lake.refresh() == before
        assert files() == on_disk


# Skipped in comparisons: its packages may have to be downloaded first.
SPARK = "spark"


def statuses(steps: list[StepResult]) -> dict[str, str]:
    return {step.name: step.status for step in steps if step.name != SPARK}


@pytest.mark.prove(
    *(
        "duckdb-gcs",
        "duckdb-r2",
        "postgres-r2",
        "postgres-s3",
        "sqlite-gcs",
        "sqlite-s3",
        "duckdb-azure",
        "sqlite-azure",
    )
)
@pytest.mark.slow
def test_doctor_before_and_after_the_lake_is_created(
    store: Store, metadata_backend: dict[str, Any], storage_backend: dict[str, Any], files: Callable[[], set[str]]
) -> None:
    before = diagnose(store)
    assert set(statuses(before).values()) <= {"ok", "skipped"}, before
    assert next(step.found for step in before if step.name == "catalog").startswith("none yet")
    assert not files()
    with store.open() as lake:
        lake.create_table("raw.t", ROWS).append(ROWS)
    after = diagnose(store)
    asked_server = "skipped" if store.metadata_backend.server() is None else "ok"
    expected = dict.fromkeys(statuses(after), "ok") | {"clock": asked_server, "server": asked_server}
    assert statuses(after) == expected, after
    (catalog,) = [step.found for step in after if step.name == "catalog"]
    description = store.metadata_backend.description()
    assert catalog == f"{description}, attached as dev"
    named = [metadata_backend[name] for name in ("uri", "host", "database", "service") if name in metadata_backend]
    assert all(str(field) in description for field in named)
    backends = (metadata_backend, storage_backend)
    secrets = [table[name] for table in backends for name in ("password", "secret", "account_key") if name in table]
    shown = json.dumps([*map(str, before), *map(str, after)])
    assert not any(secret in shown for secret in secrets)


def test_maintenance_waits_for_writers(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "WAIT_SECONDS", 0.2)
    monkeypatch.setattr(locks, "_ATTEMPT_SECONDS", 0.2)
    with open_connection(store) as connection:
        reader = reader_of(store.metadata_backend, store.names, connection)
        one, other = (locks_of(store.metadata_backend, store.names, reader) for _ in range(2))
        assert one is not None
        assert other is not None
        with one.shared() as held, other.shared():
            held.check()
        with one.shared(), pytest.raises(CommitError, match=f"held by .*process {os.getpid()}"), other.exclusive():
            raise AssertionError
        with other.exclusive():
            pass
