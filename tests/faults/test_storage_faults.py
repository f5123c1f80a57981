"""Typical failures of object stores: overload, denied access, lost connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from faulty_lake import MANY, ROWS, ids, make_store, refused, state
from local_stores import in_bucket

from lakeconf.engines.spark.hadoop import configure_session
from lakeconf.errors import LakeconfError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from servers import FaultProxy, S3Server

    from lakeconf import Store

MORE = pa.table({"id": pa.array([10], pa.int64()), "name": ["ten"]})
FOR_EVER = 10_000


def bucket_store(server: S3Server, port: int, bucket: str, catalog: Path, **fields: Any) -> Store:
    storage = in_bucket(server, bucket) | {"endpoint": f"127.0.0.1:{port}"} | fields
    return make_store({"type": "sqlite", "uri": str(catalog)}, storage)


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    return s3_server.create_bucket()


@pytest.fixture
def direct(s3_server: S3Server, bucket: str, tmp_path: Path) -> Store:
    """A store whose lake has a table of ten rows."""
    store = bucket_store(s3_server, s3_server.port, bucket, tmp_path / "catalog")
    with store.open() as lake:
        lake.create_table("t", like=ROWS).append(ROWS)
    return store


@pytest.fixture
def hurt(s3_server: S3Server, s3_proxy: FaultProxy, bucket: str, tmp_path: Path) -> Store:
    """The store through the proxy."""
    return bucket_store(s3_server, s3_proxy.port, bucket, tmp_path / "catalog", session_token="a-session-token")


@pytest.fixture
def files(s3_server: S3Server, bucket: str) -> Callable[[], list[str]]:
    return lambda: s3_server.objects(bucket)


@pytest.mark.slow
def test_single_503_is_retried(
    direct: Store, hurt: Store, s3_proxy: FaultProxy, files: Callable[[], list[str]]
) -> None:
    assert len(state(direct, files).files) == 1
    with hurt.open() as lake:
        s3_proxy.answer(503, method="GET")
        assert ids(lake) == list(range(10))
        s3_proxy.answer(503, method="PUT")
        lake.table("t").append(MORE)
        assert s3_proxy.fired == 2
        assert ids(lake) == list(range(11))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda proxy: proxy.answer(503, times=FOR_EVER), "HTTP 503.*127.*try again later: the storage"),
        (
            lambda proxy: proxy.answer(403, method="PUT", times=FOR_EVER),
            "AccessDenied(.|\\n)*permit this on the bucket",
        ),
        (lambda proxy: proxy.answer(400, code="ExpiredToken", times=FOR_EVER), "ExpiredToken.*renew the credentials"),
        (lambda proxy: proxy.reset_after(500_000, times=FOR_EVER), "HTTP PUT to .http.*check `endpoint`"),
        (lambda proxy: proxy.refuse(), "HTTP (PUT|HEAD) to .http.*the storage server is running"),
    ],
    ids=["overloaded", "forbidden", "expired", "reset", "down"],
)
def test_failed_storage_write_changes_nothing(
    direct: Store,
    hurt: Store,
    s3_proxy: FaultProxy,
    s3_server: S3Server,
    files: Callable[[], list[str]],
    fault: Callable[[FaultProxy], None],
    message: str,
) -> None:
    before = state(direct, files)
    with hurt.open() as lake:
        fault(s3_proxy)
        with refused(StorageError, f"(?s){message}", s3_server.keys.secret, "a-session-token"):
            lake.table("t").append(MANY)
        s3_proxy.heal()
        assert state(direct, files) == before
        lake.table("t").append(MORE)
        assert ids(lake) == list(range(11)), "the same lake goes on when storage does"


@pytest.mark.slow
def test_interrupted_upload_is_retried(direct: Store, hurt: Store, s3_proxy: FaultProxy) -> None:
    with hurt.open() as lake:
        s3_proxy.reset_after(500_000)
        lake.table("t").append(MANY)
        assert s3_proxy.fired == 1
    with direct.open() as lake:
        assert len(ids(lake)) == 300_010


@pytest.mark.slow
def test_engine_error_of_a_frame_contains_no_secret(
    direct: Store, hurt: Store, s3_proxy: FaultProxy, s3_server: S3Server
) -> None:
    with hurt.open() as lake:
        frame = lake.table("t").scan()
        s3_proxy.answer(503, times=FOR_EVER)
        with pytest.raises(StorageError, match="SlowDown") as caught:
            frame.collect("pyarrow")
        assert s3_server.keys.secret not in repr((caught.value, caught.value.__cause__))
    assert direct.name == "dev"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"key_id": "not-a-key"}, "InvalidAccessKeyId.*check key_id, secret"),
        ({"secret": "not-the-secret"}, "SignatureDoesNotMatch.*check key_id, secret"),
        (None, "AccessDenied.*permit this on the bucket"),
    ],
    ids=["wrong key", "wrong secret", "read-only user"],
)
def test_write_with_rejected_credentials_changes_nothing(
    s3_iam_server: S3Server, tmp_path: Path, change: dict[str, str] | None, message: str
) -> None:
    bucket, keys = s3_iam_server.create_bucket(), s3_iam_server.keys
    good = bucket_store(s3_iam_server, s3_iam_server.port, bucket, tmp_path / "catalog")
    with good.open() as lake:
        lake.create_table("t", like=ROWS).append(ROWS)
    assert s3_iam_server.read_only
    before = state(good, lambda: s3_iam_server.objects(bucket))
    wrong = s3_iam_server.read_only._asdict() if change is None else change
    with (
        bucket_store(s3_iam_server, s3_iam_server.port, bucket, tmp_path / "catalog", **wrong).open() as lake,
        refused(StorageError, f"(?s){bucket}.*{message}", keys.secret, wrong.get("secret", keys.secret)),
    ):
        lake.table("t").append(MORE)
    assert state(good, lambda: s3_iam_server.objects(bucket)) == before


def test_write_to_a_missing_bucket(s3_server: S3Server, tmp_path: Path) -> None:
    store = bucket_store(s3_server, s3_server.port, "no-such-bucket", tmp_path / "catalog")
    with store.open() as lake:
        with refused(StorageError, "(?s)no-such-bucket.*create the bucket", s3_server.keys.secret):
            lake.create_table("t", like=ROWS)
        assert lake.tables() == []


@pytest.mark.slow
@pytest.mark.hadoop_aws
def test_spark_retries_a_503_and_reports_a_403(
    direct: Store,
    hurt: Store,
    s3_proxy: FaultProxy,
    s3_server: S3Server,
    files: Callable[[], list[str]],
    spark: SparkSession,
) -> None:
    assert hurt.storage_backend is not None
    configure_session(spark, hurt.storage_backend.hadoop_settings())
    with hurt.open(spark) as lake:
        s3_proxy.answer(503)
        assert ids(lake) == list(range(10))
        assert s3_proxy.fired == 1
        before = state(direct, files)
        s3_proxy.answer(403, method="PUT", times=FOR_EVER)
        with pytest.raises(LakeconfError, match=r"403|AccessDenied") as caught:
            lake.table("t").append(MORE)
        assert s3_server.keys.secret not in f"{caught.value!r} {caught.value.__cause__!r}"
        s3_proxy.heal()
        assert state(direct, files) == before
        s3_proxy.answer(400, code="ExpiredToken", times=FOR_EVER)
        with refused(StorageError, "renew the credentials, which have expired", s3_server.keys.secret):
            lake.table("t").append(MORE)
        with refused(StorageError, "renew the credentials, which have expired", s3_server.keys.secret):
            lake.table("t").to_arrow()
        s3_proxy.heal()
        assert state(direct, files) == before
