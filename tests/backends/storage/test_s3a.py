"""Hadoop settings and packages for S3A. tests/engines/spark/test_hadoop.py tests with Spark that they work."""

from __future__ import annotations

import sys
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from hadoop_aws import find_jars

from lakeconf.backends.storage import s3a
from lakeconf.backends.storage.object_storage import S3Storage
from lakeconf.errors import UnsupportedError
from lakeconf.secret import Secret

if TYPE_CHECKING:
    from pathlib import Path

KEYS: dict[str, Any] = {"key_id": "k", "secret": Secret("s")}
HADOOP, SDK = "org.apache.hadoop.fs.s3a.", "software.amazon.awssdk.auth.credentials."


def settings(**fields: Any) -> dict[str, str | Secret]:
    """The settings of the S3 bucket `b`, without their prefix."""
    given = S3Storage(bucket="b", **fields).hadoop_settings()
    assert all(key.startswith("fs.s3a.bucket.b.") for key in given)
    return {key.removeprefix("fs.s3a.bucket.b."): value for key, value in given.items()}


def chain_settings(**parameters: Any) -> dict[str, str | Secret]:
    return settings(secret_parameters={"provider": "credential_chain", **parameters})


def test_only_keys_and_a_chain_are_credentials() -> None:
    assert settings(region="eu-central-1", **KEYS) == {
        "endpoint.region": "eu-central-1",
        "access.key": Secret("k"),
        "secret.key": Secret("s"),
        "aws.credentials.provider": HADOOP + "SimpleAWSCredentialsProvider",
    }
    assert settings(region="eu", secret_parameters={"provider": "config"}) == {"endpoint.region": "eu"}
    hidden = {"kms_key_id": Secret("hunter2"), "profile": Secret("hunter2")}
    assert s3a.s3a_settings(hidden, None, None, None) == {}


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
    """The name of the external id may be in any case."""
    for name in ("external_id", "EXTERNAL_ID"):
        given = chain_settings(chain="env", assume_role_arn="arn:aws:iam::1:role/r", **{name: "x"})
        assert given["aws.credentials.provider"] == HADOOP + "auth.AssumedRoleCredentialProvider"
        assert given["assumed.role.credentials.provider"] == SDK + "EnvironmentVariableCredentialsProvider"
        assert given["assumed.role.arn"] == "arn:aws:iam::1:role/r"
        external_id = given["assumed.role.external.id"]
        assert isinstance(external_id, Secret)
        assert external_id.reveal() == "x"
    assert "assumed.role.external.id" not in chain_settings(assume_role_arn="a")


def test_requester_pays_is_set_only_if_it_is_true() -> None:
    for value in (False, "no", "XXtrue"):
        assert "requester.pays.enabled" not in chain_settings(requester_pays=value)
    assert chain_settings(requester_pays="TRUE")["requester.pays.enabled"] == "true"


@pytest.mark.parametrize("name", ["refresh", "refresh_info", "validation", "url_compatibility_mode", "REFRESH"])
def test_parameters_only_for_duckdb_are_omitted(name: str) -> None:
    assert chain_settings(**{name: "auto"}) == chain_settings()


@pytest.mark.parametrize("chain", ["", " ; ", " ENV ; env", "Env;;ENV"])
def test_chain_is_read_without_spaces_case_and_repetitions(chain: str) -> None:
    name = "EnvironmentVariableCredentialsProvider" if "n" in chain.lower() else "DefaultCredentialsProvider"
    assert chain_settings(chain=chain or ";")["aws.credentials.provider"] == SDK + name


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"bearer_token": "t"}, r"no setting for secret_parameters\.bearer_token"),
        ({"chain": "env;kerberos"}, "no provider for the chain 'kerberos'"),
        ({"chain": "sso", "profile": "p"}, "no provider for a named profile together with 'sso'"),
        ({"chain": "env;process", "profile": "p"}, "no provider for a named profile together with 'process'"),
    ],
)
def test_parameters_unsupported_by_spark_are_rejected(parameters: dict[str, str], match: str) -> None:
    with pytest.raises(UnsupportedError, match=match) as raised:
        chain_settings(**parameters)
    assert raised.value.message.startswith("Spark cannot ")
    assert raised.value.hint == (
        "use only links that Spark supports: env, config, sso, process, sts, instance; "
        "set AWS_PROFILE to use a profile with them"
        if "chain" in parameters
        else "use the store with DuckDB, or configure the session's fs.s3a.* settings yourself"
    )


@pytest.mark.parametrize(("hadoop", "sdk"), [("3.4.1", "2.24.6"), ("3.4.2", "2.29.52"), ("3.5.0", "2.35.4")])
def test_known_hadoop_version_gets_the_parts_of_its_sdk_and_another_the_whole(hadoop: str, sdk: str) -> None:
    assert s3a.s3a_packages(hadoop) == (
        f"org.apache.hadoop:hadoop-aws:{hadoop}",
        f"software.amazon.awssdk:s3-transfer-manager:{sdk}",
        f"software.amazon.awssdk:sts:{sdk}",
    )
    assert s3a.s3a_excludes(hadoop) == ("software.amazon.awssdk:bundle", "io.netty:*", "org.slf4j:*")
    assert (s3a.s3a_packages("9.9.9"), s3a.s3a_excludes("9.9.9")) == (("org.apache.hadoop:hadoop-aws:9.9.9",), ())


def test_packages_are_those_of_the_jars_of_spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    (tmp_path / "jars").mkdir()
    assert s3a.package_settings() == {}
    for jar in ("hadoop-yarn-3.0.0.jar", "hadoop-client-api-9.9.9.jar", "hadoop-client-api-tests.zip"):
        (tmp_path / "jars" / jar).touch()
    assert s3a.package_settings() == {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:9.9.9"}
    (tmp_path / "jars" / "hadoop-client-api-9.9.9.jar").rename(tmp_path / "jars" / "hadoop-client-api-3.5.0.jar")
    assert s3a.package_settings() == {
        "spark.jars.packages": ",".join(s3a.s3a_packages("3.5.0")),
        "spark.jars.excludes": ",".join(s3a.s3a_excludes("3.5.0")),
    }
    (tmp_path / "jars" / "hadoop-aws-3.5.0.jar").touch()
    assert s3a.package_settings() == {}


def test_no_packages_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    assert s3a.package_settings() == {}


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
