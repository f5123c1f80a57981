"""Spark on object storage: settings of a storage backend, used by the real hadoop-aws."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from packaging.version import Version

import lakeconf
from lakeconf.backends.storage.object_storage import GCSStorage, R2Storage, S3Storage
from lakeconf.engines.spark.hadoop import catalog_uri, check_session, configure_session, spark_uri
from lakeconf.errors import SparkError, StorageError
from lakeconf.secret import Secret

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from servers import S3Server

    from lakeconf.backends.storage.object_storage import ObjectStorage

BACKENDS: dict[str, type[ObjectStorage]] = {"s3": S3Storage, "r2": R2Storage, "gcs": GCSStorage}
PROGRAM = """
import json, os, sys
from pyspark.sql import SparkSession
from lakeconf.backends.metadata.file_catalogs import SQLiteMetadata
from lakeconf.backends.storage.object_storage import S3Storage
from lakeconf.engines.spark.hadoop import check_session, spark_uri
from lakeconf.store import Store
os.environ["PYSPARK_PYTHON"] = sys.executable
stores = []
for number, fields in enumerate(json.loads(os.environ["STORAGES"])):
    stores.append(Store(f"s{number}", SQLiteMetadata(uri="catalog"), S3Storage(**fields)))
builder = SparkSession.builder.master("local[1]")
for store in stores:
    builder = builder.config(map=store.spark_conf())
for key, value in {
    "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    "spark.eventLog.enabled": "true", "spark.eventLog.dir": sys.argv[1], "spark.eventLog.compress": "false",
}.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
for store in stores:
    location = store.storage_backend.location
    check_session(spark, location, store.storage_backend.hadoop_settings())
    spark.range(10).write.parquet(spark_uri(location) + "t")
    frame = spark.read.parquet(spark_uri(location) + "t").where("id = 7")
    frame.explain("extended")
    print(frame.collect(), store.spark_conf())
spark.stop()
"""
TLS_PROGRAM = """
import json, os
import lakeconf
store = lakeconf.init(json.loads(os.environ["CONFIG"])).get_store()
spark = lakeconf.spark_session(store, settings=json.loads(os.environ["SETTINGS"]))
with store.open(spark) as lake:
    table = lake.create_table("t", like={"id": "BIGINT"})
    table.append(spark.range(10))
    print("read", table.scan().collect("pyarrow").shape)
spark.stop()
"""
pytestmark = pytest.mark.hadoop_aws


def storage(server: S3Server, kind: str = "s3", **fields: Any) -> ObjectStorage:
    """A backend with a new bucket on a server."""
    given: dict[str, Any] = {
        "bucket": server.create_bucket(),
        "endpoint": server.endpoint,
        "url_style": "path",
        "use_ssl": server.ca is not None,
        "key_id": server.keys.key_id,
        "secret": Secret(server.keys.secret),
    }
    return BACKENDS[kind](**{key: value for key, value in (given | fields).items() if value is not None})


def write_and_read(spark: SparkSession, backend: ObjectStorage) -> None:
    folder = spark_uri(backend.location) + "a b+/t"
    spark.range(100).selectExpr("id", "id % 3 AS part").write.partitionBy("part").parquet(folder)
    assert spark.read.parquet(folder).where("part = 1").count() == 33


@pytest.mark.slow
@pytest.mark.parametrize("kind", BACKENDS)
def test_spark_writes_and_reads(spark: SparkSession, s3_server: S3Server, kind: str) -> None:
    backend = storage(s3_server, kind, prefix="lake")
    settings = backend.hadoop_settings()
    configure_session(spark, settings)
    check_session(spark, backend.location, settings)
    write_and_read(spark, backend)
    assert s3_server.objects(backend.bucket_name, "lake/a b+/t/part=1/")


def refused(spark: SparkSession, backend: ObjectStorage, match: str) -> None:
    """Checks that a session is refused for a backend, without showing keys."""
    with pytest.raises(SparkError, match=match) as caught:
        check_session(spark, backend.location, backend.hadoop_settings())
    for secret in (Secret("another-secret"), backend.secret, backend.key_id):
        text = secret.reveal() if isinstance(secret, Secret) else str(secret)
        assert text not in str(caught.value)


@pytest.mark.slow
def test_error_names_the_settings_that_are_missing_or_different(spark: SparkSession, s3_server: S3Server) -> None:
    backend = storage(s3_server)
    refused(spark, backend, r"(?s)missing: .*endpoint.*access\.key.*secret\.key.*store\.spark_conf")
    configure_session(spark, backend.hadoop_settings())
    check_session(spark, backend.location, backend.hadoop_settings())
    other = backend.model_copy(update={"secret": Secret("another-secret")})
    refused(spark, other, rf"different: fs\.s3a\.bucket\.{backend.bucket}\.secret\.key")
    for endpoint in ("127.0.0.1:1", None):
        elsewhere = backend.model_copy(update={"endpoint": endpoint})
        refused(spark, elsewhere, f"(?s){endpoint or 'AWS'}.*use separate Spark sessions")
    write_and_read(spark, backend)
    configure_session(spark, other.hadoop_settings())
    refused(spark, other, r"Hadoop keeps the first; different: .*secret\.key")


def test_global_settings_are_accepted(spark: SparkSession, s3_server: S3Server) -> None:
    backend = storage(s3_server)
    settings = backend.hadoop_settings()
    ours = {key: value for key, value in settings.items() if not key.endswith(("connection.ssl.enabled",))}
    configure_session(spark, ours)
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    configuration.set("fs.s3a.connection.ssl.enabled", "false")
    try:
        check_session(spark, backend.location, settings)
    finally:
        configuration.unset("fs.s3a.connection.ssl.enabled")


def run(code: str, folder: Path, variables: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command, environment = [sys.executable, "-c", code, *arguments], os.environ | variables
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env=environment, timeout=300
    )


@pytest.mark.slow
def test_session_configured_by_stores_reads_and_hides_credentials(
    tmp_path: Path, s3_server: S3Server, s3_iam_server: S3Server
) -> None:
    """In a separate process: Spark downloads the packages, finds every kind of credentials, and shows none of them."""
    planted = {"key_id": "planted-key-1", "secret": "planted-secret-2", "session_token": "planted-token-3"}
    good = s3_iam_server.keys
    place = {"url_style": "path", "use_ssl": False}
    links = "sts;env" if Version(pyspark.__version__) >= Version("4.2") else "env;sts"  # see docs/backends.md
    chain = {"endpoint": s3_iam_server.endpoint, "region": s3_iam_server.region} | place
    storages: list[dict[str, Any]] = [
        {"bucket": s3_server.create_bucket(), "endpoint": s3_server.endpoint, **place, **planted},
        {"bucket": s3_iam_server.create_bucket(), **chain, "secret_parameters": {"chain": links}},
        {"bucket": s3_iam_server.create_bucket(), **chain, "secret_parameters": {"chain": "config", "profile": "lake"}},
    ]
    for each in storages[1:]:
        each["secret_parameters"]["provider"] = "credential_chain"
    (tmp_path / "credentials").write_text(
        f"[default]\naws_access_key_id=wrong\naws_secret_access_key=wrong\n"
        f"[lake]\naws_access_key_id={good.key_id}\naws_secret_access_key={good.secret}\n"
    )
    environment = {
        "AWS_ACCESS_KEY_ID": good.key_id,
        "AWS_SECRET_ACCESS_KEY": good.secret,
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "STORAGES": json.dumps(storages),
    }
    log = tmp_path / "log"
    log.mkdir()
    done = run(PROGRAM, tmp_path, environment, log.as_uri())
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("[Row(id=7)]") == len(storages)
    events = "".join(path.read_text() for path in log.rglob("*") if path.is_file())
    assert "fs.s3a.bucket" in events
    for secret in (*planted.values(), good.secret):
        assert secret not in done.stdout + done.stderr + events


@pytest.mark.slow
def test_lake_over_tls_with_a_private_certificate_authority(
    tmp_path: Path, s3_tls_server: S3Server, hadoop_aws_settings: dict[str, str]
) -> None:
    """As docs/configuration.md describes: `ca_cert_file` for DuckDB, and a trust store at startup for Java."""
    assert s3_tls_server.ca
    place = {"bucket": s3_tls_server.create_bucket(), "endpoint": s3_tls_server.endpoint, "url_style": "path"}
    storage = {"type": "s3", "key_id": "k", "secret": "a-secret", **place, "ca_cert_file": str(s3_tls_server.ca)}
    catalog = {"type": "sqlite", "uri": str(tmp_path / "catalog")}
    config = {"stores": {"dev": {"metadata_backend": catalog, "storage_backend": storage}}}
    authority = x509.load_pem_x509_certificate(s3_tls_server.ca.read_bytes())
    encryption = serialization.BestAvailableEncryption(b"changeit")
    trusted = [pkcs12.PKCS12Certificate(authority, b"lake")]
    (tmp_path / "trust.p12").write_bytes(pkcs12.serialize_java_truststore(trusted, encryption))
    options = {"trustStore": tmp_path / "trust.p12", "trustStorePassword": "changeit"}
    settings = hadoop_aws_settings | {
        "spark.master": "local[1]",
        "spark.jars.packages": "",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": " ".join(f"-Djavax.net.ssl.{key}={value}" for key, value in options.items()),
    }
    done = run(TLS_PROGRAM, tmp_path, {"CONFIG": json.dumps(config), "SETTINGS": json.dumps(settings)})
    assert "read (10, 1)" in done.stdout, done.stderr[-3000:]
    with lakeconf.init(config).get_store().open() as lake:
        assert sorted(lake.table("t").scan().collect("pyarrow").to_native()["id"].to_pylist()) == list(range(10))
    del storage["ca_cert_file"]
    with lakeconf.init(config).get_store().open() as lake, pytest.raises(StorageError, match="`ca_cert_file`"):
        lake.table("t").append(pa.table({"id": pa.array([10], pa.int64())}))


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("s3://b/x/", "s3a://b/x/main/t/a b%2B.parquet"),
        ("r2://b/", "s3a://b/main/t/f.parquet"),
        ("gs://b/x/", "s3a://b/x/f.parquet"),
        ("/data/lake/", "file:/data/lake/f.parquet"),
        ("/data/lake/", "file:///data/lake/f.parquet"),
    ],
)
def test_paths_convert_to_spark_and_back(location: str, path: str) -> None:
    uri = catalog_uri(path, location)
    assert uri.startswith(location)
    assert uri.rpartition("/")[2] == path.rpartition("/")[2]
    assert spark_uri(uri).replace("file:///", "file:/") == path.replace("file:///", "file:/")


def test_file_outside_the_lake_is_rejected() -> None:
    with pytest.raises(SparkError, match="not below"):
        catalog_uri("s3a://other/x/f.parquet", "s3://b/x/")
