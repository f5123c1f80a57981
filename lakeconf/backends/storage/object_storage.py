"""Buckets: Amazon S3 and servers with its protocol, Cloudflare R2, and Google Cloud Storage."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import model_validator

from lakeconf.backends.backend import (
    ALL_CREDENTIALS,
    ANY_CREDENTIALS,
    Role,
    SecretName,
    SecretParameters,
    StorageBackend,
    StoreNames,
    Text,
    described,
    fault,
)
from lakeconf.backends.storage.policies import gcs_policy, r2_policy, s3_policy
from lakeconf.backends.storage.s3a import package_settings, s3a_settings
from lakeconf.errors import StorageError
from lakeconf.secret import Secret
from lakeconf.sql import CreateSecret, SetOption

# Also DuckDB's default, so both sign requests in the same way.
DEFAULT_REGION = "us-east-1"
# The keys that say where the files are.
_PLACE = ("data_path", "bucket", "prefix")
_SECRET_FIELDS = ("key_id", "secret", "session_token", "region", "endpoint", "url_style", "use_ssl")
# GCS has no bulk delete, no listing version 2 and no conditional PUT. Source:
# https://hadoop.apache.org/docs/stable/hadoop-aws/tools/hadoop-aws/third_party_stores.html
_DIFFERENT_FROM_S3: Mapping[str, str] = {
    "checksum.generation": "false",
    "committer.magic.enabled": "false",
    "create.conditional.enabled": "false",
    "list.version": "1",
    "multiobjectdelete.enable": "false",
    "optimized.copy.from.local.enabled": "false",
}


class ObjectStorage(StorageBackend):
    """A bucket with the S3 protocol."""

    scheme: ClassVar[str]
    other_schemes: ClassVar[tuple[str, ...]] = ()
    # S3A's settings for a server that differs from S3, without their prefix.
    s3_features: ClassVar[Mapping[str, str]] = {}
    default_url_style: ClassVar[str] = "vhost"
    # The keys that DuckDB's secret has as well.
    secret_fields: ClassVar[tuple[str, ...]] = _SECRET_FIELDS

    secret_name: SecretName | None = None
    bucket: Annotated[
        Text | None, described("Name of the bucket; alternative to `data_path`.", example="acme-lake")
    ] = None
    prefix: Annotated[Text | None, described("Folder in the bucket.", example="prod")] = None
    data_path: Annotated[
        Text | None,
        described("URI of the folder; alternative to `bucket` and `prefix`.", example="s3://acme-lake/prod/"),
    ] = None
    scope: Annotated[
        Text | None,
        described(
            "URI prefix that the secret applies to, ending in `/`; default is the bucket.", example="s3://acme-lake/"
        ),
    ] = None
    key_id: Annotated[Text | None, described("Access key id.", example="${S3_KEY_ID}")] = None
    secret: Annotated[Secret | None, described("Secret access key; use a variable.", example="${S3_SECRET}")] = None
    session_token: Annotated[
        Secret | None, described("Session token of temporary credentials.", example="${AWS_SESSION_TOKEN}")
    ] = None
    region: Annotated[Text | None, described("Region of the bucket.", example="eu-central-1")] = None
    endpoint: Annotated[
        Text | None,
        described("Host and port of an S3-compatible server, without scheme.", example="minio.example.com:9000"),
    ] = None
    url_style: Annotated[
        Literal["path", "vhost"] | None,
        described("Whether URLs contain the bucket in the path or in the host name.", example="path"),
    ] = None
    use_ssl: Annotated[bool | None, described("Set to false for a server without TLS.", example=False)] = None
    ca_cert_file: Annotated[
        Text | None,
        described(
            "PEM file of the private certificate authority that signed the server's certificate.",
            example="certificates/ca.pem",
        ),
    ] = None
    secret_parameters: SecretParameters = {}

    @model_validator(mode="after")
    def _credentials_are_whole(self) -> Self:
        lacking = {"secret": "key_id", "key_id": "secret", "session_token": "key_id"}
        for name, other in lacking.items():
            if getattr(self, name) is not None and getattr(self, other) is None:
                others = "key_id and secret" if name == "session_token" else other
                message = f"incomplete credentials: {name} without {others}"
                raise fault(message, name, hint=ALL_CREDENTIALS, credentials=True)
        if self.provider is not None and self.key_id is not None:
            message = "key_id and secret conflict with secret_parameters.provider: set only one of them"
            hint = "remove provider from secret_parameters, or remove key_id and secret"
            raise fault(message, "key_id", "secret", "secret_parameters", hint=hint, credentials=True)
        if self.creates_secret:
            return self
        if self.secret_parameters:
            message = "secret_parameters need key_id and secret, or must contain a provider"
            hint = 'write secret_parameters = { provider = "credential_chain" }, or set key_id and secret'
            raise fault(message, "secret_parameters", hint=hint, credentials=True)
        if self.secret_name is None:
            message = (
                'no credentials: set key_id and secret, secret_parameters = { provider = "credential_chain" }, or the '
                "secret_name of an existing secret"
            )
            raise fault(message, hint=ANY_CREDENTIALS, credentials=True)
        return self

    @model_validator(mode="after")
    def _place_is_whole(self) -> Self:
        if self.data_path is not None and (self.bucket is not None or self.prefix is not None):
            message, hint = "set only one of them", "remove data_path, or the keys that it conflicts with"
            raise fault(f"data_path conflicts with bucket and prefix: {message}", *_PLACE, hint=hint)
        if self.bucket is None and self.prefix is not None:
            raise fault("prefix without bucket: set bucket too", "prefix", wanted="bucket")
        if self.bucket is None and self.data_path is None and self.scope is None:
            raise fault("no location for the files: set bucket (and prefix), or data_path", wanted="bucket")
        if self.bucket is not None and "/" in self.bucket:
            raise fault("bucket must not contain a slash: move the rest of the path to prefix", "bucket")
        for name in ("data_path", "scope"):
            if getattr(self, name) is not None:
                self._canonical(name, getattr(self, name))
        location = "" if self.bucket is None and self.data_path is None else self.location
        unreadable = next((character for character in "?\\" if character in location), None)
        if unreadable is not None:
            message = f"the folder must not contain {unreadable!r}: DuckDB cannot read files in such a folder"
            raise fault(message, *_PLACE, hint="use another folder")
        if self.endpoint is not None and "://" in self.endpoint:
            message = "endpoint must be host and port without a scheme; set use_ssl to choose TLS"
            raise fault(message, "endpoint", "use_ssl")
        return self

    def _canonical(self, name: str, uri: str) -> str:
        scheme, separator, rest = uri.partition("://")
        if not separator or scheme not in (self.scheme, *self.other_schemes) or not rest.strip("/"):
            example = f"{self.scheme}://bucket/folder/"
            raise fault(f"{name} must be a URI such as {example}", name, hint=f'write {name} = "{example}"')
        return f"{self.scheme}://{re.sub('/+$', '', rest)}/"

    @classmethod
    def path_fields(cls) -> tuple[str, ...]:
        return ("ca_cert_file",)

    def prepare(self, *, read_only: bool) -> None:  # noqa: ARG002 - the contract
        if self.ca_cert_file is not None and not Path(self.ca_cert_file).is_file():
            raise StorageError(
                f"there is no file {self.ca_cert_file}", hint="set ca_cert_file to a certificate file (PEM)"
            )

    @property
    def duckdb_settings(self) -> tuple[SetOption, ...]:
        return () if self.ca_cert_file is None else (SetOption("ca_cert_file", self.ca_cert_file),)

    @property
    def provider(self) -> str | None:
        """The credential provider; None if the credentials are inline."""
        provider = next((value for key, value in self.secret_parameters.items() if key.lower() == "provider"), None)
        return None if provider is None else str(provider)

    @property
    def creates_secret(self) -> bool:
        """True if the store creates the secret, False if it refers to an existing one."""
        return self.key_id is not None or self.provider is not None

    @property
    def extensions(self) -> tuple[str, ...]:
        return ("httpfs", "aws") if self.provider == "credential_chain" else ("httpfs",)

    @property
    def location(self) -> str:
        if self.data_path is not None:
            return self._canonical("data_path", self.data_path)
        if self.bucket is None:
            return self._canonical("scope", self.scope or "")
        prefix = (self.prefix or "").strip("/")
        return f"{self.scheme}://{self.bucket}/{prefix}{'/' if prefix else ''}"

    @property
    def namespace(self) -> str:
        # All endpoints of AWS serve the same buckets.
        endpoint = (self.s3_endpoint or "").lower()
        return "" if endpoint.endswith(".amazonaws.com") else endpoint

    @property
    def bucket_name(self) -> str:
        """The name of the bucket."""
        return self.location.partition("://")[2].partition("/")[0]

    @property
    def folder(self) -> str:
        """The folder in the bucket: empty, or ends in `/`."""
        return self.location.partition("://")[2].partition("/")[2]

    @property
    def secret_scope(self) -> str:
        """The scope of the secret. It ends with `/`, because DuckDB compares plain prefixes."""
        return self._canonical("scope", self.scope) if self.scope else f"{self.scheme}://{self.bucket_name}/"

    def secrets(self, names: StoreNames) -> tuple[CreateSecret, ...]:
        if not self.creates_secret:
            return ()
        own = {name: value for name in self.secret_fields if (value := getattr(self, name)) is not None}
        options = {**own, "scope": self.secret_scope, **self.secret_parameters}
        name = self.secret_name or names.storage_secret
        return (CreateSecret(name, self.type, options, key=f"stores.{names.store}.storage_backend"),)

    @property
    def s3_endpoint(self) -> str | None:
        """The endpoint that Spark's S3A needs, without a scheme; None for AWS itself."""
        return self.endpoint

    @classmethod
    def hadoop_schemes(cls) -> tuple[str, ...]:
        return (cls.scheme, *cls.other_schemes)

    @classmethod
    def hadoop_uri(cls, uri: str) -> str:
        return f"s3a://{uri.partition('://')[2]}"

    def hadoop_settings(self) -> dict[str, str | Secret]:
        credentials = s3a_settings(self.secret_parameters, self.key_id, self.secret, self.session_token)
        settings = {**self._s3a_place(), **credentials, **self.s3_features}
        return {f"fs.s3a.bucket.{self.bucket_name}.{key}": value for key, value in settings.items()}

    def _s3a_place(self) -> dict[str, str | Secret]:
        place: dict[str, str | Secret] = {}
        if self.s3_endpoint is not None:
            place["endpoint"] = f"{'http' if self.use_ssl is False else 'https'}://{self.s3_endpoint}"
            place["connection.ssl.enabled"] = str(self.use_ssl is not False).lower()
        # Servers other than AWS need any region except `auto`.
        region = None if self.region == "auto" else self.region
        if region is not None or self.s3_endpoint is not None:
            place["endpoint.region"] = region or DEFAULT_REGION
        if (self.url_style or self.default_url_style) == "path":
            place["path.style.access"] = "true"
        return place

    def spark_packages(self) -> dict[str, str]:
        return package_settings()


class S3Storage(ObjectStorage):
    """A bucket of Amazon S3, or of a compatible server named by `endpoint`."""

    scheme: ClassVar[str] = "s3"
    other_schemes: ClassVar[tuple[str, ...]] = ("s3a", "s3n")
    type: Literal["s3"] = "s3"

    def grants(self, role: Role, name: str) -> str:  # noqa: ARG002 - a policy is attached to any user
        keys = {key.lower(): value for key, value in self.secret_parameters.items()}
        kms_key = keys.get("kms_key_id")
        return s3_policy(role, self.bucket_name, self.folder, self.region, None if kms_key is None else str(kms_key))


class R2Storage(ObjectStorage):
    """A bucket of Cloudflare R2."""

    scheme: ClassVar[str] = "r2"
    default_url_style: ClassVar[str] = "path"
    secret_fields: ClassVar[tuple[str, ...]] = (*_SECRET_FIELDS, "account_id")
    type: Literal["r2"] = "r2"
    account_id: Annotated[
        Text | None, described("Cloudflare account id; sets the endpoint.", example="${R2_ACCOUNT_ID}")
    ] = None

    @model_validator(mode="after")
    def _account_is_given(self) -> Self:
        if self.creates_secret and self.account_id is None and self.endpoint is None:
            message = "incomplete credentials: R2 needs account_id (or an endpoint)"
            raise fault(message, hint=ALL_CREDENTIALS, credentials=True)
        return self

    @property
    def s3_endpoint(self) -> str | None:
        if self.endpoint is not None or self.account_id is None:
            return self.endpoint
        return f"{self.account_id}.r2.cloudflarestorage.com"

    def grants(self, role: Role, name: str) -> str:  # noqa: ARG002 - a token has no role
        return r2_policy(role, self.bucket_name, self.account_id, self.endpoint)


class GCSStorage(ObjectStorage):
    """A Google Cloud Storage bucket, accessed with HMAC keys through the S3-compatible interface."""

    scheme: ClassVar[str] = "gs"
    other_schemes: ClassVar[tuple[str, ...]] = ("gcs",)
    s3_features: ClassVar[Mapping[str, str]] = _DIFFERENT_FROM_S3
    default_url_style: ClassVar[str] = "path"
    type: Literal["gcs"] = "gcs"

    @property
    def s3_endpoint(self) -> str | None:
        return self.endpoint or "storage.googleapis.com"

    def grants(self, role: Role, name: str) -> str:  # noqa: ARG002 - a variable of the commands
        return gcs_policy(role, self.bucket_name, self.folder)
