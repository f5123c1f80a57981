"""Buckets and folders: fields that belong together, places, and secrets that give access to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from lakeconf.backends.backend import StoreNames
from lakeconf.backends.storage.local import LocalStorage
from lakeconf.backends.storage.object_storage import GCSStorage, R2Storage, S3Storage
from lakeconf.errors import StorageError
from lakeconf.secret import Secret
from lakeconf.sql import SetOption

KEYS: dict[str, Any] = {"key_id": "k", "secret": Secret("s")}
CHAIN: dict[str, Any] = {"secret_parameters": {"provider": "credential_chain"}}
NAMES = StoreNames("dev", "lake")


def refusal(**fields: Any) -> str:
    """What the model says about these fields."""
    with pytest.raises(ValidationError) as raised:
        S3Storage(**fields)
    (error,) = raised.value.errors(include_url=False, include_input=False)
    return error["msg"].removeprefix("Value error, ")


def named(**fields: Any) -> S3Storage:
    """A bucket with an existing secret."""
    return S3Storage(secret_name="mine", **fields)


# Credentials.


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"secret": Secret("s")}, "incomplete credentials: secret without key_id"),
        ({"key_id": "k"}, "incomplete credentials: key_id without secret"),
        ({"session_token": Secret("t")}, "incomplete credentials: session_token without key_id and secret"),
        ({**CHAIN, "session_token": Secret("t")}, "incomplete credentials: session_token without key_id and secret"),
        (
            {**KEYS, **CHAIN},
            "key_id and secret conflict with secret_parameters.provider: set only one of them",
        ),
        (
            {"secret_parameters": {"kms_key_id": "k"}},
            "secret_parameters need key_id and secret, or must contain a provider",
        ),
        (
            {},
            'no credentials: set key_id and secret, secret_parameters = { provider = "credential_chain" }, '
            "or the secret_name of an existing secret",
        ),
    ],
)
def test_incomplete_credentials_are_refused(fields: dict[str, Any], message: str) -> None:
    assert refusal(bucket="b", **fields) == message


def test_existing_secret_is_not_changed() -> None:
    assert refusal(bucket="b", secret_name="mine", secret_parameters={"kms_key_id": "k"}).startswith(
        "secret_parameters"
    )
    storage = named(bucket="b", region="eu")
    assert (storage.creates_secret, storage.secrets(NAMES), storage.provider) == (False, (), None)


@pytest.mark.parametrize("key", ["provider", "PROVIDER"])
@pytest.mark.parametrize(("provider", "extensions"), [("credential_chain", ("httpfs", "aws")), ("config", ("httpfs",))])
def test_provider_of_credentials(key: str, provider: str, extensions: tuple[str, ...]) -> None:
    storage = S3Storage(bucket="b", secret_parameters={"kms_key_id": "k", key: provider})
    assert (storage.provider, storage.creates_secret, storage.extensions) == (provider, True, extensions)
    assert S3Storage(bucket="b", **KEYS).extensions == ("httpfs",)


def test_secret_contains_all_given_fields_and_the_parameters_last() -> None:
    storage = S3Storage(
        **KEYS,
        session_token=Secret("t"),
        bucket="b",
        region="eu",
        endpoint="e:9000",
        url_style="path",
        use_ssl=False,
        secret_parameters={"kms_key_id": "arn"},
    )
    (secret,) = storage.secrets(NAMES)
    assert (secret.name, secret.type, secret.key) == ("lakeconf_dev__storage", "s3", "stores.dev.storage_backend")
    assert list(secret.options.items()) == [
        ("key_id", "k"),
        ("secret", Secret("s")),
        ("session_token", Secret("t")),
        ("region", "eu"),
        ("endpoint", "e:9000"),
        ("url_style", "path"),
        ("use_ssl", False),
        ("scope", "s3://b/"),
        ("kms_key_id", "arn"),
    ]


# The place of the files.


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"bucket": "b", "data_path": "s3://b/"}, "data_path conflicts with bucket and prefix: set only one of them"),
        ({"prefix": "p", "data_path": "s3://b/"}, "data_path conflicts with bucket and prefix: set only one of them"),
        ({"prefix": "p"}, "prefix without bucket: set bucket too"),
        ({"prefix": "p", "scope": "s3://b/"}, "prefix without bucket: set bucket too"),
        ({}, "no location for the files: set bucket (and prefix), or data_path"),
        ({"bucket": "b/p"}, "bucket must not contain a slash: move the rest of the path to prefix"),
        ({"bucket": "b", "scope": "b/"}, "scope must be a URI such as s3://bucket/folder/"),
        ({"data_path": "gs://b/"}, "data_path must be a URI such as s3://bucket/folder/"),
        ({"data_path": "s3://"}, "data_path must be a URI such as s3://bucket/folder/"),
        ({"data_path": "S3://b/"}, "data_path must be a URI such as s3://bucket/folder/"),
        ({"data_path": "s3:///"}, "data_path must be a URI such as s3://bucket/folder/"),
        (
            {"bucket": "b", "endpoint": "https://e"},
            "endpoint must be host and port without a scheme; set use_ssl to choose TLS",
        ),
    ],
)
def test_place_that_is_not_whole_is_refused(fields: dict[str, Any], message: str) -> None:
    assert refusal(secret_name="mine", **fields) == message


@pytest.mark.parametrize(
    ("fields", "location", "bucket", "scope"),
    [
        ({"bucket": "b"}, "s3://b/", "b", "s3://b/"),
        ({"bucket": "b", "prefix": "/p/q//"}, "s3://b/p/q/", "b", "s3://b/"),
        ({"bucket": "b", "prefix": "/"}, "s3://b/", "b", "s3://b/"),
        ({"data_path": "s3a://b/p/q//"}, "s3://b/p/q/", "b", "s3://b/"),
        ({"data_path": "s3://b"}, "s3://b/", "b", "s3://b/"),
        ({"scope": "s3n://b/p"}, "s3://b/p/", "b", "s3://b/p/"),
        ({"bucket": "b", "prefix": "p", "scope": "s3://b/p"}, "s3://b/p/", "b", "s3://b/p/"),
    ],
)
def test_location_and_scope_are_canonical(fields: dict[str, str], location: str, bucket: str, scope: str) -> None:
    storage = named(**fields)
    assert (storage.location, storage.bucket_name, storage.secret_scope) == (location, bucket, scope)


@pytest.mark.parametrize(
    ("endpoint", "namespace"),
    [
        (None, ""),
        ("s3.eu-central-1.amazonaws.com", ""),
        ("S3.AmazonAWS.com", ""),
        ("Minio.Example.com:9000", "minio.example.com:9000"),
        ("amazonaws.com.evil.example", "amazonaws.com.evil.example"),
    ],
)
def test_endpoints_of_aws_are_one_service(endpoint: str | None, namespace: str) -> None:
    assert named(bucket="b", endpoint=endpoint).namespace == namespace


# The certificate of the server.


def test_certificate_file_is_set_and_must_exist(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    storage = named(bucket="b", ca_cert_file=str(path))
    assert storage.path_fields() == ("ca_cert_file",)
    assert storage.duckdb_settings == (SetOption("ca_cert_file", str(path)),)
    with pytest.raises(StorageError) as raised:
        storage.prepare(read_only=False)
    assert raised.value.message == f"there is no file {path}"
    assert raised.value.hint == "set ca_cert_file to a certificate file (PEM)"
    path.mkdir()
    with pytest.raises(StorageError, match="there is no file"):
        storage.prepare(read_only=False)
    path.rmdir()
    path.touch()
    storage.prepare(read_only=True)


# Spark.


@pytest.mark.parametrize(
    ("fields", "region"),
    [
        ({}, None),
        ({"region": "eu"}, "eu"),
        ({"region": "auto"}, None),
        ({"endpoint": "e:9000"}, "us-east-1"),
        ({"endpoint": "e:9000", "region": "auto"}, "us-east-1"),
        ({"endpoint": "e:9000", "region": "eu"}, "eu"),
    ],
)
def test_region_for_which_spark_signs(fields: dict[str, str], region: str | None) -> None:
    assert named(bucket="b", **fields).hadoop_settings().get("fs.s3a.bucket.b.endpoint.region") == region


@pytest.mark.parametrize(("use_ssl", "scheme"), [(None, "https"), (True, "https"), (False, "http")])
def test_spark_uses_tls_unless_it_is_switched_off(*, use_ssl: bool | None, scheme: str) -> None:
    given = named(bucket="b", endpoint="e:9000", use_ssl=use_ssl).hadoop_settings()
    assert given["fs.s3a.bucket.b.endpoint"] == f"{scheme}://e:9000"


def test_settings_for_spark_have_every_field() -> None:
    storage = S3Storage(
        data_path="s3://b/p/",
        session_token=Secret("t"),
        endpoint="e",
        region="eu",
        url_style="path",
        secret_parameters={"kms_key_id": "arn"},
        **KEYS,
    )
    given = {key.removeprefix("fs.s3a.bucket.b."): value for key, value in storage.hadoop_settings().items()}
    assert given == {
        "endpoint": "https://e",
        "connection.ssl.enabled": "true",
        "endpoint.region": "eu",
        "path.style.access": "true",
        "access.key": Secret("k"),
        "secret.key": Secret("s"),
        "session.token": Secret("t"),
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
        "encryption.algorithm": "SSE-KMS",
        "encryption.key": "arn",
    }


@pytest.mark.parametrize("style", [None, "vhost"])
def test_the_host_contains_the_bucket_unless_the_path_does(style: Any) -> None:
    assert named(bucket="b", url_style=style).hadoop_settings() == {}


@pytest.mark.parametrize("character", ["?", "\\"])
def test_folders_that_duckdb_cannot_read_are_rejected(character: str) -> None:
    expected = f"the folder must not contain {character!r}: DuckDB cannot read files in such a folder"
    assert refusal(**KEYS, bucket="b", prefix=f"what{character}/x") == expected
    assert refusal(**KEYS, data_path=f"s3://b/what{character}/x") == expected


KEYS_OF_R2: dict[str, Any] = {"bucket": "b", "key_id": "k", "secret": Secret("s")}
NAMES_OF_R2 = StoreNames("dev", "dev")


@pytest.mark.parametrize("keys", [KEYS_OF_R2, {"bucket": "b", "secret_parameters": {"provider": "credential_chain"}}])
def test_credentials_need_the_account_or_an_endpoint(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"incomplete credentials: R2 needs account_id \(or an endpoint\)"):
        R2Storage(**keys)
    assert R2Storage(**keys, account_id="0a1b").creates_secret
    assert R2Storage(**keys, endpoint="minio:9000").creates_secret


def test_existing_secret_needs_no_account() -> None:
    storage = R2Storage(bucket="b", secret_name="mine")
    assert (storage.secrets(NAMES_OF_R2), storage.s3_endpoint, storage.namespace) == ((), None, "")


@pytest.mark.parametrize(
    ("fields", "endpoint"),
    [
        ({"account_id": "0a1b"}, "0a1b.r2.cloudflarestorage.com"),
        ({"account_id": "0a1b", "endpoint": "0a1b.eu.r2.cloudflarestorage.com"}, "0a1b.eu.r2.cloudflarestorage.com"),
        ({"endpoint": "minio:9000"}, "minio:9000"),
    ],
)
def test_endpoint_is_that_of_the_account_unless_another_is_set(fields: dict[str, Any], endpoint: str) -> None:
    storage = R2Storage(**KEYS_OF_R2, **fields)
    assert (storage.s3_endpoint, storage.namespace) == (endpoint, endpoint)
    assert storage.hadoop_settings()["fs.s3a.bucket.b.endpoint"] == f"https://{endpoint}"


def test_secret_contains_the_account_only_if_it_is_set() -> None:
    (secret,) = R2Storage(**KEYS_OF_R2, account_id="0a1b", region="auto").secrets(NAMES_OF_R2)
    assert (secret.type, dict(secret.options)) == (
        "r2",
        {"key_id": "k", "secret": Secret("s"), "region": "auto", "account_id": "0a1b", "scope": "r2://b/"},
    )
    (other,) = R2Storage(**KEYS_OF_R2, endpoint="e").secrets(NAMES_OF_R2)
    assert "account_id" not in other.options


@pytest.mark.parametrize(("style", "in_path"), [(None, True), ("path", True), ("vhost", False)])
def test_the_path_contains_the_bucket_unless_the_host_does(style: Any, *, in_path: bool) -> None:
    for storage in (R2Storage(**KEYS_OF_R2, account_id="a", url_style=style), bucket(url_style=style)):
        assert ("fs.s3a.bucket.b.path.style.access" in storage.hadoop_settings()) == in_path


def bucket(**fields: Any) -> GCSStorage:
    return GCSStorage(bucket="b", key_id="k", secret=Secret("s"), **fields)


@pytest.mark.parametrize("scheme", ["gs", "gcs"])
def test_both_schemes_name_one_location(scheme: str) -> None:
    assert GCSStorage(data_path=f"{scheme}://acme/lake", secret_name="mine").location == "gs://acme/lake/"


@pytest.mark.parametrize(("endpoint", "found"), [(None, "storage.googleapis.com"), ("proxy:443", "proxy:443")])
def test_endpoint_of_spark_is_googles_unless_another_is_set(endpoint: str | None, found: str) -> None:
    storage = bucket(endpoint=endpoint)
    assert (storage.s3_endpoint, storage.namespace) == (found, found)
    assert storage.hadoop_settings()["fs.s3a.bucket.b.endpoint"] == f"https://{found}"


def test_operations_that_google_lacks_are_disabled() -> None:
    given = bucket().hadoop_settings()
    assert {key.removeprefix("fs.s3a.bucket.b."): given[key] for key in given if given[key] in ("false", "1")} == {
        "checksum.generation": "false",
        "committer.magic.enabled": "false",
        "create.conditional.enabled": "false",
        "list.version": "1",
        "multiobjectdelete.enable": "false",
        "optimized.copy.from.local.enabled": "false",
    }


@pytest.mark.parametrize(
    ("path", "location"), [("/data", "/data/"), ("/data//", "/data/"), ("/", "/"), ("/a b'c", "/a b'c/")]
)
def test_location_ends_in_one_slash(path: str, location: str) -> None:
    assert LocalStorage(path=path).location == location


@pytest.mark.parametrize("path", ["a\\b", "\\", "/data\\"])
def test_path_with_a_backslash_is_refused(path: str) -> None:
    with pytest.raises(ValidationError, match="must not contain a backslash: DuckLake takes it for a slash"):
        LocalStorage(path=path)


def test_folder_and_its_parents_are_created(tmp_path: Path) -> None:
    storage = LocalStorage(path=str(tmp_path / "a" / "b"))
    for _ in range(2):
        storage.prepare(read_only=False)
        assert (tmp_path / "a" / "b").is_dir()


def test_reading_creates_nothing(tmp_path: Path) -> None:
    LocalStorage(path=str(tmp_path / "data")).prepare(read_only=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("read_only", [True, False])
def test_file_in_place_of_the_folder_is_refused(tmp_path: Path, *, read_only: bool) -> None:
    path = tmp_path / "data"
    path.touch()
    with pytest.raises(StorageError) as raised:
        LocalStorage(path=str(path)).prepare(read_only=read_only)
    assert raised.value.message == f"the data path {path} is a file"
    assert raised.value.hint == "set path to the folder of the Parquet files"


def test_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "data"
    with pytest.raises(StorageError) as raised:
        LocalStorage(path=str(path)).prepare(read_only=False)
    assert raised.value.message == f"the data path {path} cannot be created: Not a directory"
