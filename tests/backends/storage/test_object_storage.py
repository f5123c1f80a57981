"""Buckets and folders: fields that belong together, places, and secrets that give access to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from lakeconf.backends.backend import StoreNames
from lakeconf.backends.storage.local import LocalStorage
from lakeconf.backends.storage.object_storage import GCSStorage, ObjectStorage, R2Storage, S3Storage
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


# tests/config/broken has the other combinations.
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({**CHAIN, "session_token": Secret("t")}, "incomplete credentials: session_token without key_id and secret"),
    *(
        ({"data_path": path}, "data_path must be a URI such as s3://bucket/folder/")
        for path in ("s3://", "S3://b/", "s3:///")
    ),
    ({"scope": "b/"}, "scope must be a URI such as s3://bucket/folder/"),
    ({"prefix": "p", "scope": "s3://b/", "bucket": None}, "prefix without bucket: set bucket too"),
    ({"prefix": "p", "data_path": "s3://b/"}, "data_path conflicts with bucket and prefix: set only one of them"),
    *(
        (fields, f"the folder must not contain {sign!r}: DuckDB cannot read files in such a folder")
        for sign in "?\\"
        for fields in ({"bucket": "b", "prefix": f"a{sign}/x"}, {"data_path": f"s3://b/a{sign}/x"})
    ),
]


@pytest.mark.parametrize(("fields", "message"), REFUSED)
def test_fields_that_do_not_fit_are_refused(fields: dict[str, Any], message: str) -> None:
    place = {} if "data_path" in fields else {"bucket": "b"}
    assert refusal(**{**({} if "session_token" in fields else {"secret_name": "mine"}), **place, **fields}) == message


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


def test_endpoints_of_aws_are_one_service() -> None:
    for endpoint in (None, "s3.eu-central-1.amazonaws.com", "S3.AmazonAWS.com"):
        assert named(bucket="b", endpoint=endpoint).namespace == ""
    for endpoint in ("Minio.Example.com:9000", "amazonaws.com.evil.example"):
        assert named(bucket="b", endpoint=endpoint).namespace == endpoint.lower()


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


def r2(**fields: Any) -> R2Storage:
    return R2Storage(bucket="b", secret_name="mine", **fields)


def gcs(**fields: Any) -> GCSStorage:
    return GCSStorage(bucket="b", secret_name="mine", **fields)


# A backend, one of its settings for Spark without the prefix, and the value.
SETTINGS: list[tuple[ObjectStorage, str, str | None]] = [
    *(
        (named(bucket="b", **fields), "endpoint.region", region)
        for fields, region in (
            ({}, None),
            ({"region": "eu"}, "eu"),
            ({"region": "auto"}, None),
            ({"endpoint": "e:9000"}, "us-east-1"),
            ({"endpoint": "e:9000", "region": "auto"}, "us-east-1"),
            ({"endpoint": "e:9000", "region": "eu"}, "eu"),
        )
    ),
    *((named(bucket="b", endpoint="e:1", use_ssl=use), "endpoint", "https://e:1") for use in (None, True)),
    (named(bucket="b", endpoint="e:1", use_ssl=False), "endpoint", "http://e:1"),
    *((named(bucket="b", url_style=style), "path.style.access", None) for style in (None, "vhost")),
    (r2(account_id="0a1b"), "endpoint", "https://0a1b.r2.cloudflarestorage.com"),
    (r2(account_id="0a1b", endpoint="0a1b.eu.r2.example"), "endpoint", "https://0a1b.eu.r2.example"),
    (r2(endpoint="minio:9000"), "endpoint", "https://minio:9000"),
    (gcs(), "endpoint", "https://storage.googleapis.com"),
    (gcs(endpoint="proxy:443"), "endpoint", "https://proxy:443"),
    *(
        (made(url_style=style), "path.style.access", value)
        for made in (lambda **fields: r2(account_id="a", **fields), gcs)
        for style, value in ((None, "true"), ("path", "true"), ("vhost", None))
    ),
]


@pytest.mark.parametrize(("storage", "name", "value"), SETTINGS)
def test_a_setting_of_spark(storage: ObjectStorage, name: str, value: str | None) -> None:
    assert storage.hadoop_settings().get(f"fs.s3a.bucket.b.{name}") == value
    if name == "endpoint":
        assert value == f"{'http' if storage.use_ssl is False else 'https'}://{storage.s3_endpoint}"
        assert storage.namespace == storage.s3_endpoint


KEYS_OF_R2: dict[str, Any] = {"bucket": "b", "key_id": "k", "secret": Secret("s")}


@pytest.mark.parametrize("keys", [KEYS_OF_R2, {"bucket": "b", "secret_parameters": {"provider": "credential_chain"}}])
def test_credentials_need_the_account_or_an_endpoint_unless_the_secret_exists(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"incomplete credentials: R2 needs account_id \(or an endpoint\)"):
        R2Storage(**keys)
    assert R2Storage(**keys, account_id="0a1b").creates_secret
    assert R2Storage(**keys, endpoint="minio:9000").creates_secret
    assert (r2().secrets(NAMES), r2().s3_endpoint, r2().namespace) == ((), None, "")


def test_secret_contains_the_account_only_if_it_is_set() -> None:
    (secret,) = R2Storage(**KEYS_OF_R2, account_id="0a1b", region="auto").secrets(NAMES)
    assert (secret.type, dict(secret.options)) == (
        "r2",
        {"key_id": "k", "secret": Secret("s"), "region": "auto", "account_id": "0a1b", "scope": "r2://b/"},
    )
    (other,) = R2Storage(**KEYS_OF_R2, endpoint="e").secrets(NAMES)
    assert "account_id" not in other.options


def test_both_schemes_name_one_location_and_operations_that_google_lacks_are_disabled() -> None:
    for scheme in ("gs", "gcs"):
        assert GCSStorage(data_path=f"{scheme}://acme/lake", secret_name="mine").location == "gs://acme/lake/"
    given = gcs().hadoop_settings()
    assert {key.removeprefix("fs.s3a.bucket.b."): given[key] for key in given if given[key] in ("false", "1")} == {
        "checksum.generation": "false",
        "committer.magic.enabled": "false",
        "create.conditional.enabled": "false",
        "list.version": "1",
        "multiobjectdelete.enable": "false",
        "optimized.copy.from.local.enabled": "false",
    }


def test_local_location_ends_in_one_slash_and_has_no_backslash() -> None:
    for path, location in (("/data", "/data/"), ("/data//", "/data/"), ("/", "/"), ("/a b'c", "/a b'c/")):
        assert LocalStorage(path=path).location == location
    for path in ("a\\b", "\\", "/data\\"):
        with pytest.raises(ValidationError, match="must not contain a backslash: DuckLake takes it for a slash"):
            LocalStorage(path=path)


def test_folder_is_created_only_for_writes_and_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    folder, file = tmp_path / "a" / "b", tmp_path / "file"
    LocalStorage(path=str(folder)).prepare(read_only=True)
    assert list(tmp_path.iterdir()) == []
    for _ in range(2):
        LocalStorage(path=str(folder)).prepare(read_only=False)
        assert folder.is_dir()
    file.touch()
    for path, read_only, problem, hint in (
        (file, True, "is a file", "set path to the folder of the Parquet files"),
        (file, False, "is a file", "set path to the folder of the Parquet files"),
        (file / "data", False, "cannot be created: Not a directory", None),
    ):
        with pytest.raises(StorageError) as raised:
            LocalStorage(path=str(path)).prepare(read_only=read_only)
        assert raised.value.message == f"the data path {path} {problem}"
        assert hint in (None, raised.value.hint)
