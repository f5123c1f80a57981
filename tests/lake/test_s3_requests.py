"""Requests that operations send to a bucket. docs/costs.md has the same numbers.

A bound is the number of requests that were measured; more of them is more cost and more time for each user.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa
import pytest
from local_stores import config_of, in_bucket, on_postgres
from merge_cases import committer

import lakeconf
from lakeconf.engines.spark.hadoop import configure_session
from lakeconf.write import strategy as rule

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fault_proxy import FaultProxy, Request
    from pyspark.sql import DataFrame, SparkSession
    from servers import PostgresServer, S3Server

    from lakeconf import Store


@dataclass
class Requests:
    """The requests of one operation."""

    # The number of requests of each kind: `GET`, `HEAD`, `PUT`, `POST`, `DELETE`, `LIST`, `COPY`.
    kinds: Counter[str] = field(default_factory=Counter)
    keys: dict[str, list[str]] = field(default_factory=dict)  # the keys of each kind; the prefix of a `LIST`

    @property
    def total(self) -> int:
        return self.kinds.total()

    def add(self, request: Request) -> None:
        parts = urlsplit(request.path)
        query = parse_qs(parts.query)
        kind, key = request.method, unquote(parts.path).lstrip("/").partition("/")[2]
        if request.copies:
            kind = "COPY"
        elif kind == "GET" and not key:
            kind, key = "LIST", query.get("prefix", [""])[0]
        self.kinds[kind] += 1
        self.keys.setdefault(kind, []).append(key)


@contextlib.contextmanager
def counted(proxy: FaultProxy) -> Iterator[Requests]:
    """The requests that pass through a proxy during the block; complete after the block."""
    start, found = len(proxy.requests), Requests()
    yield found
    for request in proxy.requests[start:]:
        found.add(request)


def counted_store(folder: Path, s3_server: S3Server, proxy: FaultProxy, catalog: PostgresServer | None = None) -> Store:
    """A store in a new bucket behind a proxy; its catalog is on SQLite or on a server."""
    bucket = in_bucket(replace(s3_server, port=proxy.port), s3_server.create_bucket())
    metadata: dict[str, Any] | None = on_postgres(catalog) if catalog else None
    return lakeconf.init(config_of(folder, metadata, bucket)).get_store("dev")


ROWS = pa.table({"id": range(1000), "day": [dt.date(2024, 1, 1 + number % 2) for number in range(1000)]})
COLUMNS = {"id": "BIGINT", "day": "DATE"}
NOW = dt.timedelta(0)


@pytest.fixture
def store(tmp_path: Path, s3_server: S3Server, s3_proxy: FaultProxy, postgres_server: PostgresServer) -> Store:
    """A store behind a proxy, with the empty tables `t` and `p`; `p` is partitioned by day."""
    store = counted_store(tmp_path, s3_server, s3_proxy, postgres_server)
    with store.open() as lake:
        lake.create_table("t", COLUMNS)
        lake.create_table("p", COLUMNS, partitioned_by=["day"])
    return store


@pytest.fixture
def frame(store: Store, spark: SparkSession) -> DataFrame:
    """The rows in two tasks, on a session with access to the store."""
    assert store.storage_backend is not None
    configure_session(spark, store.storage_backend.hadoop_settings())
    return spark.range(0, 1000, 1, 2).selectExpr("id", "DATE'2024-01-01' + CAST(id % 2 AS INT) AS day")


def check(found: Requests, total: int, **kinds: int) -> None:
    """Checks the bounds of an operation; a kind that is not named must not occur."""
    assert found.total <= total, found
    assert {kind: number for kind, number in found.kinds.items() if number > kinds.get(kind, 0)} == {}, found


def test_opening_and_listing_reads_the_catalog_only(store: Store, s3_proxy: FaultProxy) -> None:
    with counted(s3_proxy) as found, store.open() as lake:
        assert lake.tables() == ["main.p", "main.t"]
        lake.table("t").files()
        lake.snapshots()
    check(found, 0)


@pytest.mark.slow
def test_append_on_duckdb(store: Store, s3_proxy: FaultProxy) -> None:
    """The file, and a copy of it in memory in case the reply to the commit is lost; nothing for files of others."""
    with store.open() as lake:
        for _ in range(10):
            lake.table("t").append(ROWS)
        with counted(s3_proxy) as found:
            lake.table("t").append(ROWS)
    check(found, 5, PUT=1, LIST=1, HEAD=2, GET=1)


@pytest.mark.slow
def test_delete_on_duckdb(store: Store, s3_proxy: FaultProxy) -> None:
    """A read of the data file, and the same as for an append for the delete file."""
    with store.open() as lake:
        for _ in range(3):
            lake.table("t").append(ROWS)
            lake.table("p").append(ROWS)
    with store.open() as lake, counted(s3_proxy) as found:
        lake.table("t").delete("id = 1")
    check(found, 21, PUT=3, LIST=1, HEAD=7, GET=10)


BOUNDS: dict[str, tuple[int, dict[str, int]]] = {
    "append to t": (22, {"PUT": 3, "GET": 2, "HEAD": 11, "LIST": 5, "DELETE": 1}),
    "append to p": (57, {"PUT": 7, "COPY": 2, "GET": 4, "HEAD": 24, "LIST": 16, "DELETE": 3, "POST": 1}),
    "duckdb": (37, {"PUT": 5, "GET": 4, "HEAD": 18, "LIST": 8, "DELETE": 2}),
    "staged t": (129, {"PUT": 11, "GET": 12, "HEAD": 67, "LIST": 33, "DELETE": 8}),
    "staged p": (216, {"PUT": 19, "COPY": 4, "GET": 20, "HEAD": 107, "LIST": 54, "DELETE": 11, "POST": 3}),
}


@pytest.mark.slow
@pytest.mark.hadoop_aws
@pytest.mark.parametrize("name", ["t", "p"])
def test_append_on_spark_writes_each_file_once(store: Store, s3_proxy: FaultProxy, frame: DataFrame, name: str) -> None:
    """A PUT for each file and for the manifest. Footers are read twice at most; nothing is renamed.

    The server copies a file to the folder of its partition; no byte passes through the driver a second time.
    """
    with store.open(frame.sparkSession) as lake:
        lake.table(name).append(frame)
        with counted(s3_proxy) as found:
            lake.table(name).append(frame)
        assert len(lake.table(name).files()) == 4
    total, kinds = BOUNDS[f"append to {name}"]
    check(found, total, **kinds)
    assert len([key for key in found.keys["PUT"] if key.endswith(".parquet")]) == 3


@pytest.mark.slow
@pytest.mark.prove("spark", "staged p", "staged t")
@pytest.mark.hadoop_aws
@pytest.mark.parametrize("way", ["duckdb", "staged t", "staged p"])
def test_merge_on_spark(
    store: Store, s3_proxy: FaultProxy, frame: DataFrame, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A merge of ten rows into two files of 500 rows each; half of the ten are new.

    DuckDB reads one staged file. Spark stages the frame, the actions and the inserted rows; the order of its reads may
    vary, and S3A opens a file once more if a read of it arrives late: two GETs above the usual number. A staged commit
    also writes a file of updated rows and one of positions. Only files of partitions are copied.
    """
    if way != "duckdb":
        monkeypatch.setattr(rule, "MOST_FRAME_BYTES", -1)
    ten = frame.where("id < 5 OR id >= 995").coalesce(1)
    changes = ten.selectExpr("IF(id < 5, id, id + 5000) AS id", "day")
    name = "p" if way == "staged p" else "t"
    with store.open(frame.sparkSession) as lake:
        lake.table(name).append(frame)
        before = {file.path for file in lake.table(name).files()}
        with counted(s3_proxy) as found:
            lake.table(name).merge(changes, on="id")
        assert (committer(lake) == "staged") is way.startswith("staged")
        new = [file.path for file in lake.table(name).files() if file.path not in before]
        assert len(lake.table(name).scan().collect("pyarrow")) == 1005
    total, kinds = BOUNDS[way]
    check(found, total, **kinds)
    copied = sorted(key.rpartition("/")[2] for key in found.keys.get("COPY", []))
    assert copied == (sorted(path.rpartition("/")[2] for path in new) if name == "p" else [])


@pytest.fixture
def many(store: Store, frame: DataFrame) -> Store:
    """The store with 20 registered files and one of DuckDB in the table `t`."""
    with store.open(frame.sparkSession) as lake:
        lake.table("t").append(frame.repartitionByRange(20, "id"))
    with store.open() as lake:
        lake.table("t").append(ROWS)
        assert len(lake.table("t").files()) == 21
    return store


@pytest.mark.slow
@pytest.mark.hadoop_aws
def test_scan_on_spark_asks_for_no_data_file(many: Store, s3_proxy: FaultProxy, frame: DataFrame) -> None:
    """The driver then lists the folder of 20 files, and looks at the one of DuckDB; a task opens each file."""
    with many.open(frame.sparkSession) as lake:
        with counted(s3_proxy) as planned:
            rows = lake.table("t").scan().to_native()
            two = lake.table("t").scan(where="id < 40").to_native()
        with counted(s3_proxy) as first:
            assert rows.count() == 2000
        with counted(s3_proxy) as again:
            assert rows.count() == 2000
        with counted(s3_proxy) as filtered:
            assert two.count() == 80
    check(planned, 0)
    check(first, 44, LIST=1, HEAD=22, GET=21)
    check(again, 42, HEAD=21, GET=21)
    check(filtered, 12, HEAD=6, GET=6)


@pytest.mark.slow
@pytest.mark.hadoop_aws
def test_scan_on_spark_lists_all_partitions_at_once(store: Store, s3_proxy: FaultProxy, frame: DataFrame) -> None:
    with store.open(frame.sparkSession) as lake:
        days = frame.selectExpr("id", "date_add(DATE'2024-01-01', CAST(id % 18 AS INT)) AS day")
        lake.table("p").append(days)
        assert len(lake.table("p").files()) == 18
        rows = lake.table("p").scan().to_native()
        with counted(s3_proxy) as found:
            assert rows.count() == 1000
    check(found, 37, LIST=1, HEAD=18, GET=18)


@pytest.mark.slow
@pytest.mark.prove("truncated-refused", "missing-refused")
@pytest.mark.hadoop_aws
@pytest.mark.parametrize("lists", [True, False], ids=["listed", "refused"])
@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_job_fails_for_files_that_are_not_those_of_the_catalog(
    many: Store, s3_server: S3Server, s3_proxy: FaultProxy, frame: DataFrame, damage: str, *, lists: bool
) -> None:
    """If the driver may not list the folder, it looks at each file."""
    with many.open(frame.sparkSession) as lake:
        bucket, _, key = sorted(file.path for file in lake.table("t").files())[7].removeprefix("s3://").partition("/")
        client, whole = s3_server.client(), lake.table("t").scan().to_native()
        if damage == "missing":
            client.delete_object(Bucket=bucket, Key=key)
        else:
            other = next(path for path in s3_server.objects(bucket, "lake/main/t/ducklake"))
            client.copy_object(Bucket=bucket, Key=key, CopySource={"Bucket": bucket, "Key": other})
        if not lists:
            s3_proxy.answer(403, method="GET", code="AccessDenied")
        expected = "is missing, but the catalog lists it" if damage == "missing" else "bytes, but the catalog says"
        with counted(s3_proxy) as found, pytest.raises(Exception, match=f"{key}.* {expected}"):
            whole.count()
    # S3A looks for a folder with the name of a missing file.
    assert (found.kinds["GET"], found.kinds["LIST"]) == (0, 2 if damage == "missing" else 1)
    assert found.kinds["HEAD"] > 1 or lists


@pytest.mark.slow
def test_look_up_of_a_key_reads_the_file_of_the_key_only(store: Store, s3_proxy: FaultProxy) -> None:
    with store.open() as lake:
        for number in range(10):
            lake.table("t").append(ROWS, idempotency_key=f"k{number}")
    with store.open() as lake:
        before = lake.snapshot_id
        with counted(s3_proxy) as found:
            assert lake.table("t").append(ROWS, idempotency_key="k5") < before
        with counted(s3_proxy) as new:
            lake.table("t").append(ROWS, idempotency_key="k51")
    check(found, 2, GET=2)
    check(new, 13, PUT=2, LIST=2, HEAD=5, GET=4)
    assert {key.startswith("lake/lakeconf/commits/") for key in found.keys["GET"]} == {True}


@pytest.mark.slow
def test_cleanup_lists_the_bucket_once(store: Store, s3_proxy: FaultProxy) -> None:
    with store.open() as lake:
        for _ in range(3):
            lake.table("t").append(ROWS)
        with counted(s3_proxy) as found:
            lake.maintenance.cleanup(older_than=NOW, force=True)
    check(found, 5, LIST=1, HEAD=3, PUT=1)
