"""Containers of Azure Blob Storage, also with the hierarchical namespace of Data Lake Storage Gen2."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, model_validator

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
from lakeconf.backends.storage.packages import hadoop_without
from lakeconf.backends.storage.policies import azure_policy
from lakeconf.errors import UnsupportedError
from lakeconf.secret import Secret
from lakeconf.sql import CreateSecret, Joined, Value

_PUBLIC = "blob.core.windows.net"
_ACCOUNT, _CONTAINER = re.compile("[a-z0-9]{3,24}"), re.compile("(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*")
# DuckDB reads the files through the Blob service of an account, ABFS through that of Data Lake Storage.
_URI = re.compile(r"az://([^./]+)\.blob\.([^/]+)/([^/]+)/(.*)", re.DOTALL)
_CREDENTIALS = ("account_key", "sas_token", "secret_parameters")
# A semicolon would end the value in a connection string, and could add another server to it.
_KEY, _TOKEN = re.compile(r"[A-Za-z0-9+/_-]+={0,2}"), re.compile(r"[^\s;]+")
# A part of the URL of the login.
_TENANT = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")
_OAUTH = "org.apache.hadoop.fs.azurebfs.oauth2."
_LOGIN = "https://login.microsoftonline.com/{}/oauth2/token"
# Parameters of DuckDB's secret with an equivalent in ABFS, by provider.
_UNDERSTOOD: Mapping[str, frozenset[str]] = {
    "service_principal": frozenset({"tenant_id", "client_id", "client_secret"}),
    "managed_identity": frozenset({"client_id"}),
}
# ABFS has another file system class for a server without TLS, and an emulator has no Data Lake service.
_EMULATOR = {"account.hns.enabled": "false", "fns.account.service.type": "BLOB", "ingress.service.type": "BLOB"}
_WITHOUT_TLS = {
    "fs.abfss.impl": "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem",
    "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
}


def _account(name: str) -> str:
    if not _ACCOUNT.fullmatch(name):
        raise ValueError("must be the name of a storage account: 3 to 24 lower-case letters and digits")
    return name


def _container(name: str) -> str:
    if not _CONTAINER.fullmatch(name):
        raise ValueError("must be the name of a container: 3 to 63 lower-case letters, digits and single hyphens")
    return name


def _prefix(prefix: str) -> str:
    if "?" in prefix or "\\" in prefix:
        raise ValueError("must not contain '?' or '\\': DuckDB cannot read files in such a folder")
    if {"", ".", ".."} & set(prefix.strip("/").split("/")):
        raise ValueError("must not contain '//' or the folders '.' and '..': they could lead elsewhere")
    return prefix


def _endpoint(endpoint: str) -> str:
    if not re.fullmatch(r"blob(\.[a-z0-9-]+)+|[A-Za-z0-9.-]+:[0-9]{1,5}", endpoint):
        raise ValueError(
            "must be such as blob.core.chinacloudapi.cn, or host and port of an emulator, without a scheme"
        )
    return endpoint


class AzureStorage(StorageBackend):
    """A container of Azure Blob Storage."""

    type: Literal["azure"] = "azure"
    secret_name: SecretName | None = None
    account: Annotated[Text, AfterValidator(_account), described("Name of the storage account.", example="acmelake")]
    container: Annotated[Text, AfterValidator(_container), described("Name of the container.", example="lake")]
    prefix: Annotated[
        Text | None, AfterValidator(lambda text: text and _prefix(text)), described("Folder in it.", example="prod")
    ] = None
    account_key: Annotated[
        Secret | None, described("Key of the account; use a variable.", example="${AZURE_ACCOUNT_KEY}")
    ] = None
    sas_token: Annotated[
        Secret | None,
        described("Shared access signature; use a variable.", example="${AZURE_SAS_TOKEN}"),
    ] = None
    endpoint: Annotated[
        Text | None,
        AfterValidator(lambda text: text and _endpoint(text)),
        described("Blob service of another cloud, or host and port of an emulator.", example="127.0.0.1:10000"),
    ] = None
    use_ssl: Annotated[bool | None, described("Set to false for an emulator without TLS.", example=False)] = None
    secret_parameters: SecretParameters = {}

    @model_validator(mode="after")
    def _credentials_are_whole(self) -> Self:
        present = [name for name in _CREDENTIALS if getattr(self, name)]
        if len(present) > 1:
            hint = f"remove {present[0]}, or {present[1]}"
            raise fault(f"{present[0]} conflicts with {present[1]}", *present, hint=hint, credentials=True)
        if not present and self.secret_name is None:
            message = (
                'no credentials: set account_key, sas_token, secret_parameters = { provider = "credential_chain" }, or '
                "the secret_name of an existing secret"
            )
            raise fault(message, hint=ANY_CREDENTIALS, credentials=True)
        if self.secret_parameters and self.provider is None:
            hint = 'write secret_parameters = { provider = "credential_chain" }'
            raise fault("secret_parameters need a provider", "secret_parameters", hint=hint, credentials=True)
        named = {key.lower() for key in self.secret_parameters}
        if self.provider == "service_principal" and not {"tenant_id", "client_id"} <= named:
            hint = "set tenant_id, client_id and client_secret"
            raise fault("service_principal needs tenant_id and client_id", "secret_parameters", hint=hint)
        tenant = self._parameter("tenant_id")
        if tenant is not None and not _TENANT.fullmatch(str(tenant)):
            hint = "write the tenant's ID or domain, as the Azure portal shows it"
            raise fault("tenant_id is not the ID of a tenant", "secret_parameters", hint=hint)
        if self.is_emulated and self.provider is not None:
            raise fault("an emulator needs account_key or sas_token", "endpoint", hint=ALL_CREDENTIALS)
        if self.use_ssl is False and not self.is_emulated:
            raise fault("only an emulator can be used without TLS", "use_ssl", hint="remove use_ssl")
        for name, form in (("account_key", _KEY), ("sas_token", _TOKEN)):
            value = getattr(self, name)
            if value is not None and not form.fullmatch(value.reveal()):
                message = f"{name} is no {'key' if form is _KEY else 'token'} of Azure"
                raise fault(message, name, hint="use the one that the Azure portal shows", credentials=True)
        return self

    @property
    def is_emulated(self) -> bool:
        """True if the endpoint is an emulator, which has the account in the path of its URLs."""
        return ":" in (self.endpoint or "")

    @property
    def provider(self) -> str | None:
        """The credential provider; None if the credentials are a key or a token."""
        provider = self._parameter("provider")
        return None if provider is None else str(provider)

    def _parameter(self, name: str) -> Value | None:
        """A parameter of the secret, whose name can have any case; None if it is missing."""
        return next((value for key, value in self.secret_parameters.items() if key.lower() == name), None)

    @property
    def extensions(self) -> tuple[str, ...]:
        return ("azure",)

    @property
    def service(self) -> str:
        """The host of the Blob service, without the account; an emulator has that of the public cloud."""
        return _PUBLIC if self.endpoint is None or self.is_emulated else self.endpoint

    @property
    def secret_scope(self) -> str:
        """The URI of the container. With the account in it, it is the same in DuckDB's listings."""
        return f"az://{self.account}.{self.service}/{self.container}/"

    @property
    def location(self) -> str:
        prefix = (self.prefix or "").strip("/")
        return f"{self.secret_scope}{prefix}{'/' if prefix else ''}"

    @property
    def namespace(self) -> str:
        return (self.endpoint or _PUBLIC).lower()

    def secrets(self, names: StoreNames) -> tuple[CreateSecret, ...]:
        options: dict[str, Value] = {}
        if self.account_key is not None:
            options["connection_string"] = Joined(f"{self._server()};AccountKey=", self.account_key)
        elif self.sas_token is not None:
            options["connection_string"] = Joined(f"{self._server()};SharedAccessSignature=", self.sas_token)
        elif self.secret_parameters:
            options = {**self.secret_parameters, "account_name": self.account}
            options |= {"endpoint": self.service} if self.endpoint else {}
        else:
            return ()
        name, key = self.secret_name or names.storage_secret, f"stores.{names.store}.storage_backend"
        return (CreateSecret(name, self.type, {**options, "scope": self.secret_scope}, key=key),)

    def _server(self) -> str:
        scheme = "http" if self.use_ssl is False else "https"
        place = f"{self.endpoint}/{self.account}" if self.is_emulated else f"{self.account}.{self.service}"
        return f"AccountName={self.account};BlobEndpoint={scheme}://{place}"

    @classmethod
    def hadoop_schemes(cls) -> tuple[str, ...]:
        return ("az",)

    @classmethod
    def hadoop_uri(cls, uri: str) -> str:
        parts = _URI.fullmatch(uri)
        if parts is None:
            return uri
        account, cloud, container, path = parts.groups()
        return f"abfss://{container}@{account}.dfs.{cloud}/{path}"

    def hadoop_settings(self) -> dict[str, str | Secret]:
        settings = self._abfs_credentials()
        if self.is_emulated:
            settings |= {**_EMULATOR, "abfs.endpoint": self.endpoint or ""}
        host = f"{self.account}.dfs.{self.service.removeprefix('blob.')}"
        of_account = {f"fs.azure.{key}.{host}": value for key, value in settings.items()}
        # ABFS has this for the whole session: a session for an emulator without TLS reaches no other store.
        tls = {"fs.azure.always.use.https": str(self.use_ssl is not False).lower()}
        return of_account | tls | (_WITHOUT_TLS if self.use_ssl is False else {})

    def _abfs_credentials(self) -> dict[str, str | Secret]:
        """The settings of ABFS for the credentials, without their prefix and the account."""
        if self.account_key is not None:
            return {"account.auth.type": "SharedKey", "account.key": self.account_key}
        if self.sas_token is not None:
            token = Secret(self.sas_token.reveal().removeprefix("?"))
            return {"account.auth.type": "SAS", "sas.fixed.token": token}
        parameters = {key.lower(): value for key, value in self.secret_parameters.items() if key.lower() != "provider"}
        if not self.secret_parameters:
            return {}
        provider = self.provider or ""
        unknown = sorted(parameters.keys() - _UNDERSTOOD.get(provider, frozenset()))
        if provider not in _UNDERSTOOD or unknown:
            what = f"secret_parameters.{unknown[0]}" if provider in _UNDERSTOOD else f"provider {provider!r}"
            raise UnsupportedError(
                f"Spark cannot access the container of the store: ABFS has no setting for {what}",
                hint=f"use account_key, sas_token or one of the providers {', '.join(_UNDERSTOOD)}, "
                "or use the store with DuckDB",
            )
        return _oauth(provider, {key: _shown(value) for key, value in parameters.items()})

    def grants(self, role: Role, name: str) -> str:  # noqa: ARG002 - a variable of the command
        return azure_policy(role, self.account, self.container)

    def spark_packages(self) -> dict[str, str]:
        return azure_packages()


def azure_packages() -> dict[str, str]:
    """The settings with which the installed Spark downloads ABFS."""
    version = hadoop_without("hadoop-azure")
    if version is None:
        return {}
    return {"spark.jars.packages": f"org.apache.hadoop:hadoop-azure:{version}", "spark.jars.excludes": "org.slf4j:*"}


def _shown(value: object) -> str | Secret:
    return value if isinstance(value, Secret) else str(value)


def _oauth(provider: str, parameters: Mapping[str, str | Secret]) -> dict[str, str | Secret]:
    names = {"client_id": "account.oauth2.client.id", "client_secret": "account.oauth2.client.secret"}
    settings: dict[str, str | Secret] = {names[key]: value for key, value in parameters.items() if key in names}
    settings["account.auth.type"] = "OAuth"
    if provider == "managed_identity":
        return settings | {"account.oauth.provider.type": _OAUTH + "MsiTokenProvider"}
    tenant = parameters.get("tenant_id", "")
    tenant = tenant.reveal() if isinstance(tenant, Secret) else tenant
    settings["account.oauth2.client.endpoint"] = _LOGIN.format(tenant)
    return settings | {"account.oauth.provider.type": _OAUTH + "ClientCredsTokenProvider"}
