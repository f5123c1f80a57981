"""Hadoop settings and packages of each storage backend. test_storage.py tests with Spark that they work."""

from __future__ import annotations

import zipfile
from typing import Any

import pytest
from hadoop_aws import find_jars

from lakeconf.backends.storage import s3a
from lakeconf.backends.storage.gcs import GCSStorage
from lakeconf.backends.storage.local import LocalStorage
from lakeconf.backends.storage.r2 import R2Storage
from lakeconf.backends.storage.s3 import S3Storage
from lakeconf.errors import UnsupportedError
from lakeconf.secret import Secret

KEYS: dict[str, Any] = {"key_id": "k", "secret": Secret("s")}
HADOOP, SDK = "org.apache.hadoop.fs.s3a.", "software.amazon.awssdk.auth.credentials."


def settings(**fields: Any) -> dict[str, str | Secret]:
    """The settings of the S3 bucket `b`, without their prefix."""
    given = S3Storage(bucket="b", **fields).hadoop_settings()
    assert all(key.startswith("fs.s3a.bucket.b.") for key in given)
    return {key.removeprefix("fs.s3a.bucket.b."): value for key, value in given.items()}


def chain_settings(**parameters: Any) -> dict[str, str | Secret]:
    return settings(secret_parameters={"provider": "credential_chain", **parameters})


def test_s3_with_keys() -> None:
    assert settings(region="eu-central-1", **KEYS) == {
        "endpoint.region": "eu-central-1",
        "access.key": Secret("k"),
        "secret.key": Secret("s"),
        "aws.credentials.provider": HADOOP + "SimpleAWSCredentialsProvider",
    }


def test_s3_with_temporary_credentials() -> None:
    given = settings(session_token=Secret("t"), **KEYS)
    assert given["session.token"] == Secret("t")
    assert given["aws.credentials.provider"] == HADOOP + "TemporaryAWSCredentialsProvider"


@pytest.mark.parametrize(("use_ssl", "scheme", "encrypted"), [(None, "https", "true"), (False, "http", "false")])
def test_s3_compatible_server(*, use_ssl: bool | None, scheme: str, encrypted: str) -> None:
    given = settings(endpoint="minio:9000", url_style="path", use_ssl=use_ssl, **KEYS)
    assert given["endpoint"] == f"{scheme}://minio:9000"
    assert given["connection.ssl.enabled"] == encrypted
    assert given["path.style.access"] == "true"
    assert given["endpoint.region"] == "us-east-1"


def test_region_auto_becomes_us_east_1() -> None:
    assert settings(endpoint="minio:9000", region="auto", **KEYS)["endpoint.region"] == "us-east-1"


def test_r2_has_the_endpoint_of_its_account() -> None:
    given = R2Storage(bucket="b", account_id="abc", **KEYS).hadoop_settings()
    assert given["fs.s3a.bucket.b.endpoint"] == "https://abc.r2.cloudflarestorage.com"
    assert given["fs.s3a.bucket.b.path.style.access"] == "true"


def test_gcs_has_its_endpoint_and_disables_unsupported_operations() -> None:
    given = GCSStorage(bucket="b", **KEYS).hadoop_settings()
    assert given["fs.s3a.bucket.b.endpoint"] == "https://storage.googleapis.com"
    assert given["fs.s3a.bucket.b.multiobjectdelete.enable"] == "false"
    assert given["fs.s3a.bucket.b.list.version"] == "1"


@pytest.mark.parametrize(
    ("parameters", "providers"),
    [
        ({}, [SDK + "DefaultCredentialsProvider"]),
        ({"chain": "env"}, [SDK + "EnvironmentVariableCredentialsProvider"]),
        (
            {"chain": "sts;instance"},
            [SDK + "WebIdentityTokenFileCredentialsProvider", HADOOP + "auth.IAMInstanceCredentialsProvider"],
        ),
        ({"chain": "sso; process;config"}, [SDK + "ProfileCredentialsProvider"]),
        ({"profile": "p"}, [HADOOP + "auth.ProfileAWSCredentialsProvider"]),
        (
            {"chain": "env;config", "profile": "p"},
            [SDK + "EnvironmentVariableCredentialsProvider", HADOOP + "auth.ProfileAWSCredentialsProvider"],
        ),
    ],
)
def test_credential_chain_becomes_providers(parameters: dict[str, str], providers: list[str]) -> None:
    given = chain_settings(**parameters)
    assert given["aws.credentials.provider"] == ",".join(providers)
    assert given.get("auth.profile.name") == parameters.get("profile")


def test_assumed_role_settings() -> None:
    given = chain_settings(chain="env", assume_role_arn="arn:aws:iam::1:role/r", external_id="x")
    assert given["aws.credentials.provider"] == HADOOP + "auth.AssumedRoleCredentialProvider"
    assert given["assumed.role.credentials.provider"] == SDK + "EnvironmentVariableCredentialsProvider"
    assert given["assumed.role.arn"] == "arn:aws:iam::1:role/r"
    external_id = given["assumed.role.external.id"]
    assert isinstance(external_id, Secret)
    assert external_id.reveal() == "x"


def test_encryption_and_requester_pays() -> None:
    given = settings(secret_parameters={"KMS_KEY_ID": "arn:aws:kms:key", "requester_pays": True}, **KEYS)
    assert given["encryption.algorithm"] == "SSE-KMS"
    assert given["encryption.key"] == "arn:aws:kms:key"
    assert given["requester.pays.enabled"] == "true"


def test_parameters_only_for_duckdb_are_omitted() -> None:
    assert chain_settings(refresh="auto") == chain_settings()


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"bearer_token": "t"}, r"no setting for secret_parameters\.bearer_token"),
        ({"chain": "env;kerberos"}, "no provider for the chain 'kerberos'"),
        ({"chain": "sso", "profile": "p"}, "a named profile together with 'sso'"),
    ],
)
def test_parameters_unsupported_by_spark_are_rejected(parameters: dict[str, str], match: str) -> None:
    with pytest.raises(UnsupportedError, match=match):
        chain_settings(**parameters)


def test_local_files_need_no_settings_or_packages() -> None:
    assert LocalStorage(path="/data").hadoop_settings() == {}
    assert LocalStorage(path="/data").spark_packages() == {}


def test_packages_match_the_installed_spark() -> None:
    found = s3a.package_settings()
    assert "org.apache.hadoop:hadoop-aws:3." in found["spark.jars.packages"]
    assert "software.amazon.awssdk:bundle" in found["spark.jars.excludes"]


def test_unknown_hadoop_version_gets_the_whole_sdk() -> None:
    assert s3a.s3a_packages("9.9.9") == ("org.apache.hadoop:hadoop-aws:9.9.9",)
    assert s3a.s3a_excludes("9.9.9") == ()


@pytest.mark.hadoop_aws
def test_every_configured_class_exists(pytestconfig: pytest.Config) -> None:
    classes: set[str] = set()
    for jar in find_jars(pytestconfig):
        with zipfile.ZipFile(jar) as archive:
            classes |= {name.removesuffix(".class").replace("/", ".") for name in archive.namelist()}
    chains = [chain_settings(chain=link) for link in ("env", "config", "sso", "process", "sts", "instance")]
    given = [*chains, chain_settings(), chain_settings(profile="p"), chain_settings(assume_role_arn="a")]
    given += [settings(**KEYS), settings(session_token=Secret("t"), **KEYS)]
    named = {str(each["aws.credentials.provider"]) for each in given}
    assert named - classes == set()
