"""Settings and packages for Spark to access a bucket through Hadoop's S3A.

Class names and keys are those of hadoop-aws 3.4 and later, which uses version 2 of the AWS SDK.
Source: https://hadoop.apache.org/docs/stable/hadoop-aws/tools/hadoop-aws/index.html
"""

from __future__ import annotations

from collections.abc import Mapping

from lakeconf.backends.storage.packages import hadoop_without
from lakeconf.errors import UnsupportedError
from lakeconf.secret import Secret

# The AWS SDK that each Hadoop was built with: aws-java-sdk-v2.version in the pom of its hadoop-project.
AWS_SDK_VERSIONS: Mapping[str, str] = {"3.4.1": "2.24.6", "3.4.2": "2.29.52", "3.5.0": "2.35.4"}
# Instead of the SDK's bundle of 600 MB. Spark ships netty, which must not be mixed with another version.
_SDK_MODULES = ("s3-transfer-manager", "sts")
_EXCLUDED = ("software.amazon.awssdk:bundle", "io.netty:*", "org.slf4j:*")
_SDK = "software.amazon.awssdk.auth.credentials."
_HADOOP = "org.apache.hadoop.fs.s3a."
_PROFILE = _HADOOP + "auth.ProfileAWSCredentialsProvider"
_CHAIN: Mapping[str, str] = {
    "env": _SDK + "EnvironmentVariableCredentialsProvider",
    "config": _SDK + "ProfileCredentialsProvider",
    "sso": _SDK + "ProfileCredentialsProvider",
    "process": _SDK + "ProfileCredentialsProvider",
    "sts": _SDK + "WebIdentityTokenFileCredentialsProvider",
    "instance": _HADOOP + "auth.IAMInstanceCredentialsProvider",
}
# Parameters of DuckDB's secret with an equivalent in S3A; the second set is only relevant for DuckDB.
_UNDERSTOOD = {"provider", "chain", "profile", "assume_role_arn", "external_id", "kms_key_id", "requester_pays"}
_FOR_DUCKDB_ALONE = {"refresh", "refresh_info", "validation", "url_compatibility_mode"}


def s3a_packages(hadoop_version: str) -> tuple[str, ...]:
    """The coordinates for `spark.jars.packages` that match a version of Hadoop."""
    packages = (f"org.apache.hadoop:hadoop-aws:{hadoop_version}",)
    sdk = AWS_SDK_VERSIONS.get(hadoop_version)
    return packages + tuple(f"software.amazon.awssdk:{name}:{sdk}" for name in _SDK_MODULES if sdk)


def s3a_excludes(hadoop_version: str) -> tuple[str, ...]:
    """The value of `spark.jars.excludes` for `s3a_packages`."""
    return _EXCLUDED if hadoop_version in AWS_SDK_VERSIONS else ()


def package_settings() -> dict[str, str]:
    """The settings with which the installed Spark downloads S3A."""
    version = hadoop_without("hadoop-aws")
    if version is None:
        return {}
    settings = {"spark.jars.packages": ",".join(s3a_packages(version))}
    excludes = ",".join(s3a_excludes(version))
    return settings | ({"spark.jars.excludes": excludes} if excludes else {})


def s3a_settings(
    secret_parameters: Mapping[str, object], key_id: str | None, secret: Secret | None, session_token: Secret | None
) -> dict[str, str | Secret]:
    """The settings for these credentials and parameters of DuckDB's secret, without their prefix."""
    parameters = {key.lower(): value for key, value in secret_parameters.items()}
    for key in parameters:
        if key not in _UNDERSTOOD | _FOR_DUCKDB_ALONE:
            raise UnsupportedError(
                f"Spark cannot access the bucket of the store: S3A has no setting for secret_parameters.{key}",
                hint="use the store with DuckDB, or configure the session's fs.s3a.* settings yourself",
            )
    texts = {key: str(value) for key, value in parameters.items() if not isinstance(value, Secret)}
    if key_id is None or secret is None:
        return _chain(texts, parameters.get("external_id")) | _options(texts)
    keys: dict[str, str | Secret] = {"access.key": Secret(key_id), "secret.key": secret}
    provider = "SimpleAWSCredentialsProvider"
    if session_token is not None:
        keys["session.token"], provider = session_token, "TemporaryAWSCredentialsProvider"
    return keys | {"aws.credentials.provider": _HADOOP + provider} | _options(texts)


def _chain(parameters: Mapping[str, str], external_id: object) -> dict[str, str | Secret]:
    """The settings for credentials that S3A finds itself."""
    if parameters.get("provider") != "credential_chain":
        return {}
    providers = _chain_providers(parameters)
    own: dict[str, str | Secret] = {"auth.profile.name": parameters["profile"]} if "profile" in parameters else {}
    if "assume_role_arn" not in parameters:
        return own | {"aws.credentials.provider": providers}
    role: dict[str, str | Secret] = {
        "assumed.role.arn": parameters["assume_role_arn"],
        "assumed.role.credentials.provider": providers,
        "aws.credentials.provider": _HADOOP + "auth.AssumedRoleCredentialProvider",
    }
    if external_id is not None:
        role["assumed.role.external.id"] = external_id if isinstance(external_id, Secret) else str(external_id)
    return own | role


def _chain_providers(parameters: Mapping[str, str]) -> str:
    """The provider classes that are equivalent to DuckDB's credential chain, in the same order."""
    links = [link.strip().lower() for link in parameters.get("chain", "").split(";") if link.strip()]
    unknown = [link for link in links if link not in _CHAIN]
    by_profile = [link for link in links if link in ("sso", "process")]
    if unknown or ("profile" in parameters and by_profile):
        what = f"the chain {unknown[0]!r}" if unknown else f"a named profile together with {by_profile[0]!r}"
        raise UnsupportedError(
            f"Spark cannot use the credential chain in secret_parameters: S3A has no provider for {what}",
            hint=f"use only links that Spark supports: {', '.join(_CHAIN)}; set AWS_PROFILE to use a profile with them",
        )
    if "profile" in parameters:
        providers = [_PROFILE if link == "config" else _CHAIN[link] for link in links] or [_PROFILE]
    else:
        providers = [_CHAIN[link] for link in links] or [_SDK + "DefaultCredentialsProvider"]
    return ",".join(dict.fromkeys(providers))


def _options(parameters: Mapping[str, str]) -> dict[str, str | Secret]:
    options: dict[str, str | Secret] = {}
    if "kms_key_id" in parameters:
        options |= {"encryption.algorithm": "SSE-KMS", "encryption.key": parameters["kms_key_id"]}
    if parameters.get("requester_pays", "").lower() == "true":
        options["requester.pays.enabled"] = "true"
    return options
