"""Containers of Azure: keys, secrets and settings, and what a real server refuses."""

from __future__ import annotations

import base64
import datetime as dt
import zipfile
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hadoop_aws import find_jars
from local_stores import config_of, ids, in_bucket
from pydantic import ValidationError

import lakeconf
from lakeconf.backends.backend import StoreNames
from lakeconf.backends.storage.azure import AzureStorage, azure_packages
from lakeconf.config.config import validate
from lakeconf.connection.connection import connect, load_extension
from lakeconf.engines.spark.hadoop import catalog_uri, check_session, configure_session, spark_uri
from lakeconf.engines.spark.start import merged_settings
from lakeconf.errors import LakeconfError, SparkError, StorageError, UnsupportedError
from lakeconf.secret import Secret
from lakeconf.sql import Joined

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from servers import AzureServer

    from lakeconf import Store

KEY = Secret("a2V5")
PLACE: dict[str, Any] = {"account": "acme", "container": "lake"}
NAMES = StoreNames("dev", "dev")
HOST = "acme.dfs.core.windows.net"
ROWS = pa.table({"id": pa.array(range(10), pa.int64())})
CHAIN = {"provider": "credential_chain"}
PRINCIPAL = {"provider": "service_principal", "tenant_id": "t", "client_id": "c", "client_secret": Secret("planted")}

REFUSED: list[tuple[dict[str, Any], str]] = [
    *(({"account": name}, "name of a storage account") for name in ("Acme", "ac", "a.b", "a/b", "a" * 25)),
    *(({"container": name}, "name of a container") for name in ("La", "a--b", "-ab", "ab-", "a/b", "a" * 64, "..")),
    *(({"prefix": prefix}, "could lead elsewhere") for prefix in ("a/../b", "..", "a//b", "./a")),
    *(({"prefix": prefix}, "DuckDB cannot read files") for prefix in ("a?b", "a\\b")),
    *(
        ({"endpoint": place}, "without a scheme")
        for place in ("http://h:1", "evil.example", "blob.x/y", "h:1/x", "blob..", "h:999999")
    ),
    ({"account_key": Secret("a;BlobEndpoint=https://evil")}, "account_key is no key of Azure"),
    ({"account_key": None, "sas_token": Secret("sv=1;BlobEndpoint=x")}, "sas_token is no token of Azure"),
    ({"sas_token": Secret("sv=1")}, "account_key conflicts with sas_token"),
    ({"secret_parameters": CHAIN}, "account_key conflicts with secret_parameters"),
    ({"account_key": None}, "no credentials: set account_key, sas_token"),
    ({"account_key": None, "secret_parameters": {"chain": "cli"}}, "secret_parameters need a provider"),
    (
        {"account_key": None, "secret_parameters": {"provider": "service_principal", "client_id": "c"}},
        "service_principal needs tenant_id and client_id",
    ),
    *(
        ({"account_key": None, "secret_parameters": {**PRINCIPAL, "tenant_id": tenant}}, "not the ID of a tenant")
        for tenant in ("t/../evil", "..", "t?x=1")
    ),
    ({"account_key": None, "secret_parameters": CHAIN, "endpoint": "h:1"}, "an emulator needs account_key"),
    ({"use_ssl": False}, "only an emulator can be used without TLS"),
]


@pytest.mark.parametrize(("fields", "message"), REFUSED)
def test_fields_that_do_not_fit_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as raised:
        AzureStorage(**{**PLACE, "account_key": KEY, **fields})
    (error,) = raised.value.errors(include_url=False, include_input=False)
    assert message in error["msg"]
    assert "evil" not in error["msg"]


def test_problem_has_a_line_and_a_hint_and_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "lakeconf.toml"
    file.write_text(
        '[stores.dev.metadata_backend]\ntype = "sqlite"\nuri = "c"\n\n[stores.dev.storage_backend]\ntype = "azure"\n'
        'account = "acme"\ncontainer = "Lake"\naccount_key = "planted;x"\n'
    )
    (problem,) = validate(file)
    assert (problem.line, problem.key) == (8, "stores.dev.storage_backend.container")
    assert problem.hint == 'write container = "lake" (name of the container)'
    file.write_text(file.read_text().replace('"Lake"', '"lake"'))
    (problem,) = validate(file)
    assert (problem.line, problem.hint) == (9, "use the one that the Azure portal shows")
    assert "planted" not in str(problem)


def test_location_has_the_account_so_that_listings_have_the_same_paths() -> None:
    storage = AzureStorage(**PLACE, account_key=KEY, prefix="/a/b/")
    assert (storage.location, storage.namespace) == (
        "az://acme.blob.core.windows.net/lake/a/b/",
        "blob.core.windows.net",
    )
    assert AzureStorage(**PLACE, secret_name="mine").location == "az://acme.blob.core.windows.net/lake/"
    other = AzureStorage(**PLACE, account_key=KEY, endpoint="blob.core.chinacloudapi.cn")
    assert other.location == "az://acme.blob.core.chinacloudapi.cn/lake/"
    assert f"fs.azure.account.key.{HOST.replace('windows.net', 'chinacloudapi.cn')}" in other.hadoop_settings()


@pytest.mark.parametrize("path", ["main/t/a b%2B.parquet", "f.parquet"])
def test_paths_convert_to_spark_and_back(path: str) -> None:
    location = "az://acme.blob.core.windows.net/lake/x/"
    assert spark_uri(location + path) == f"abfss://lake@{HOST}/x/{path}"
    assert catalog_uri(f"abfss://lake@{HOST}/x/{path}", location) == location + path
    with pytest.raises(SparkError, match="not below"):
        catalog_uri(f"abfss://other@{HOST}/x/{path}", location)


CREDENTIALS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    (
        {"account_key": KEY},
        {
            "connection_string": Joined(
                "AccountName=acme;BlobEndpoint=https://acme.blob.core.windows.net;AccountKey=", KEY
            )
        },
        {"account.auth.type": "SharedKey", "account.key": KEY},
    ),
    (
        {"sas_token": Secret("?sv=1&sig=planted")},
        {
            "connection_string": Joined(
                "AccountName=acme;BlobEndpoint=https://acme.blob.core.windows.net;SharedAccessSignature=",
                Secret("?sv=1&sig=planted"),
            )
        },
        {"account.auth.type": "SAS", "sas.fixed.token": Secret("sv=1&sig=planted")},
    ),
    (
        {"secret_parameters": PRINCIPAL},
        {**PRINCIPAL, "account_name": "acme"},
        {
            "account.auth.type": "OAuth",
            "account.oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
            "account.oauth2.client.endpoint": "https://login.microsoftonline.com/t/oauth2/token",
            "account.oauth2.client.id": "c",
            "account.oauth2.client.secret": Secret("planted"),
        },
    ),
    (
        {"secret_parameters": {"provider": "managed_identity", "client_id": "c"}},
        {"provider": "managed_identity", "client_id": "c", "account_name": "acme"},
        {
            "account.auth.type": "OAuth",
            "account.oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.MsiTokenProvider",
            "account.oauth2.client.id": "c",
        },
    ),
]


@pytest.mark.parametrize(("fields", "options", "settings"), CREDENTIALS)
def test_credentials_for_duckdb_and_spark(
    fields: dict[str, Any], options: dict[str, Any], settings: dict[str, Any]
) -> None:
    storage = AzureStorage(**PLACE, **fields)
    (secret,) = storage.secrets(NAMES)
    assert dict(secret.options) == {**options, "scope": "az://acme.blob.core.windows.net/lake/"}
    with connect() as connection:
        load_extension(connection, "azure")
        connection.run(secret)
    given = storage.hadoop_settings()
    assert given.pop("fs.azure.always.use.https") == "true"
    assert given == {f"fs.azure.{key}.{HOST}": value for key, value in settings.items()}


@pytest.mark.parametrize(
    ("parameters", "what"),
    [
        (CHAIN, "provider 'credential_chain'"),
        ({"provider": "access_token", "access_token": "t"}, "provider 'access_token'"),
        (
            {**PRINCIPAL, "client_certificate_path": "c.pem"},
            "secret_parameters.client_certificate_path",
        ),
    ],
)
def test_credentials_that_spark_cannot_use_are_named(parameters: dict[str, Any], what: str) -> None:
    storage = AzureStorage(**PLACE, secret_parameters=parameters)
    with connect() as connection:
        load_extension(connection, "azure")
        connection.run(storage.secrets(NAMES)[0])
    with pytest.raises(UnsupportedError, match=f"ABFS has no setting for {what}"):
        storage.hadoop_settings()


@pytest.mark.hadoop_aws
def test_every_configured_class_exists(pytestconfig: pytest.Config) -> None:
    classes: set[str] = set()
    for jar in find_jars(pytestconfig):
        with zipfile.ZipFile(jar) as archive:
            classes |= {name.removesuffix(".class").replace("/", ".") for name in archive.namelist()}
    emulator = AzureStorage(**PLACE, account_key=KEY, endpoint="h:1", use_ssl=False)
    given = [emulator, *(AzureStorage(**PLACE, **fields) for fields, _, _ in CREDENTIALS)]
    named = {str(value) for storage in given for value in storage.hadoop_settings().values()}
    assert {name for name in named if name.startswith("org.apache.")} - classes == set()


def test_packages_of_stores_in_several_clouds_are_joined() -> None:
    s3 = {"spark.jars.packages": "a:b:1,c:d:2", "spark.jars.excludes": "x:*,org.slf4j:*", "k": "1"}
    assert merged_settings([s3, {"spark.jars.packages": "e:f:3", "spark.jars.excludes": "org.slf4j:*", "k": "2"}]) == {
        "spark.jars.packages": "a:b:1,c:d:2,e:f:3",
        "spark.jars.excludes": "x:*,org.slf4j:*",
        "k": "2",
    }
    assert set(azure_packages()) == {"spark.jars.packages", "spark.jars.excludes"}


# A real server.


@pytest.fixture
def storage(azure_server: AzureServer) -> dict[str, Any]:
    return in_bucket(azure_server)


def store_in(folder: Path, storage: dict[str, Any], **fields: Any) -> Store:
    given = {key: value for key, value in {**storage, **fields}.items() if value is not None}
    return lakeconf.init(config_of(folder, storage=given)).get_store("dev")


def test_shared_access_signature_reads_and_writes(
    storage: dict[str, Any], azure_server: AzureServer, tmp_path: Path
) -> None:
    with store_in(tmp_path, storage, account_key=None, sas_token=f"?{azure_server.sas_token()}").open() as lake:
        lake.create_table("t", ROWS).append(ROWS)
        lake.table("t").delete("id < 5")
        lake.maintenance.expire_snapshots(older_than=dt.timedelta(0), force=True)
        lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True)
        assert ids(lake) == list(range(5, 10))


WRONG = "check account_key, sas_token or secret_parameters of the storage backend: they are wrong or too old"
DENIED: dict[str, tuple[dict[str, Any], str]] = {
    "another key": ({"account_key": base64.b64encode(b"planted" * 9).decode()}, WRONG),
    "no key": ({"account_key": "planted"}, WRONG),
    "another token": ({"account_key": None, "sas_token": "sv=2021-08-06&sig=planted"}, WRONG),
    "an expired token": ({"account_key": None, "until": dt.timedelta(days=-1)}, WRONG),
    "a token that only reads": (
        {"account_key": None, "permissions": "rl"},
        "permit this on the container to the credentials of the storage backend, or use other credentials",
    ),
    "no container": ({"container": "missing"}, "create the container, or check `account`, `container` and `endpoint`"),
    "no server": (
        {"endpoint": "127.0.0.1:1"},
        "check that the storage server is running, and check `account`, `endpoint` and `use_ssl`",
    ),
}


@pytest.mark.parametrize("case", DENIED)
def test_what_the_server_refuses_is_a_named_error_without_secrets(
    storage: dict[str, Any], azure_server: AzureServer, tmp_path: Path, case: str
) -> None:
    fields, hint = DENIED[case]
    with store_in(tmp_path, storage).open() as lake:
        lake.create_table("t", ROWS).append(ROWS)
    before = azure_server.objects(storage["container"])
    asked = {key: value for key, value in fields.items() if key in ("until", "permissions")}
    if asked:
        token = azure_server.sas_token(**asked)
        fields = {"account_key": None, "sas_token": token}
    elsewhere = tmp_path / case  # with a catalog of its own: the other one has the container in it
    elsewhere.mkdir()
    refused = store_in(elsewhere if "container" in fields else tmp_path, storage, **fields)
    with pytest.raises(StorageError) as raised, refused.open() as lake:
        lake.create_table("t", ROWS, if_not_exists=True).append(ROWS)
    assert raised.value.hint == hint
    shown = f"{raised.value!r} {raised.value} {raised.value.__cause__!r}"
    given = [secret.reveal() for secret in refused.secrets]
    assert not any(text in shown for text in (*given, "planted", *(part[4:] for part in given if "sig=" in part)))
    assert azure_server.objects(storage["container"]) == before
    with store_in(tmp_path, storage).open() as lake:
        assert ids(lake) == list(range(10))


def test_lost_file_is_an_error_and_never_fewer_rows(
    storage: dict[str, Any], azure_server: AzureServer, tmp_path: Path
) -> None:
    """Also a lost file of deletes: without it, deleted rows would be back."""
    with store_in(tmp_path, storage).open() as lake:
        lake.create_table("t", ROWS).append(ROWS)
        lake.table("t").append(ROWS)
        lake.table("t").delete("id = 3")
    for lost in ("-delete.parquet", ".parquet"):
        name = next(key for key in azure_server.objects(storage["container"]) if key.endswith(lost))
        azure_server.remove(storage["container"], name)
        with store_in(tmp_path, storage).open() as lake, pytest.raises(LakeconfError, match=name.rpartition("/")[2]):
            ids(lake)


@pytest.mark.slow
@pytest.mark.hadoop_aws
def test_session_with_other_settings_is_refused(storage: dict[str, Any], spark: SparkSession) -> None:
    backend = AzureStorage(**{**storage, "account_key": Secret(storage["account_key"])})
    other = backend.model_copy(update={"account_key": Secret("cGxhbnRlZA==")})
    configure_session(spark, backend.hadoop_settings())
    check_session(spark, backend.location, backend.hadoop_settings())
    with pytest.raises(SparkError, match=r"different: fs\.azure\.account\.key") as raised:
        check_session(spark, other.location, other.hadoop_settings())
    real = AzureStorage(**PLACE, account_key=KEY)
    configure_session(spark, {key: value for key, value in real.hadoop_settings().items() if "always" not in key})
    with pytest.raises(SparkError, match=r"different: fs\.azure\.always\.use\.https"):
        check_session(spark, real.location, real.hadoop_settings())
    elsewhere = backend.model_copy(update={"endpoint": "127.0.0.1:1"})
    configure_session(spark, elsewhere.hadoop_settings())
    with pytest.raises(SparkError, match=r"Hadoop keeps the first; different: fs\.azure\.abfs\.endpoint"):
        check_session(spark, elsewhere.location, elsewhere.hadoop_settings())
    assert storage["account_key"] not in str(raised.value)
    assert "cGxhbnRlZA==" not in str(raised.value)
