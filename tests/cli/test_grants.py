"""The grants of each role, given to real roles of PostgreSQL and users of an S3 server that checks their actions."""

from __future__ import annotations

import contextlib
import json
import secrets
import shlex
from datetime import timedelta
from typing import TYPE_CHECKING, Any, get_args

import duckdb
import pytest
from botocore.exceptions import ClientError
from server_process import numbers
from servers import S3Keys

from lakeconf import CommitConflictError, LakeconfError, Secret, Store
from lakeconf.backends.backend import Role
from lakeconf.backends.metadata.postgres import PostgresMetadata
from lakeconf.backends.storage.azure import AzureStorage
from lakeconf.backends.storage.object_storage import GCSStorage, R2Storage, S3Storage
from lakeconf.engines.spark.hadoop import configure_session
from lakeconf.errors import CatalogError
from lakeconf.inspection.doctor import diagnose
from lakeconf.inspection.grants import grants

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from servers import PostgresServer, S3Server

    from lakeconf import Lake

INLINED = {"data_inlining_row_limit": 5}
MANY = [{"id": 1000 + number} for number in range(20)]
TOML = """\
default_store = "dev"
[stores.dev]
metadata_backend = { type = "sqlite", uri = "catalog.sqlite" }
storage_backend = { type = "s3", bucket = "acme", key_id = "k", secret = "hush" }
"""


class Roles:
    """A lake of an owner, and a store for each role that was granted access to it."""

    def __init__(self, postgres: PostgresServer, s3: S3Server) -> None:
        self._postgres, self._s3 = postgres, s3
        self.database, self.bucket = postgres.create_database(), s3.create_bucket()
        owner, password = self._role("owner")
        postgres.sql(f'CREATE SCHEMA lake AUTHORIZATION "{owner}"', self.database)
        self.owner = self._store(owner, password, s3.keys)
        self.stores: dict[str, Store] = {role: self._granted(role) for role in get_args(Role)}

    def _role(self, kind: str) -> tuple[str, str]:
        name, password = f"{kind}-{next(numbers)}", secrets.token_urlsafe(12)
        self._postgres.sql(f"CREATE ROLE \"{name}\" LOGIN PASSWORD '{password}'")
        return name, password

    def _granted(self, role: Role) -> Store:
        name, password = self._role(role)
        granted = grants(self.owner, role, name)
        self._postgres.sql(granted.catalog, self.database)
        policy = json.loads(granted.storage)
        if role == "maintainer":
            # For a deletion of several keys, AWS asks for the right to delete each, and moto for that of the bucket.
            bucket = f"arn:aws:s3:::{self.bucket}"
            policy["Statement"].append({"Effect": "Allow", "Action": "s3:DeleteObject", "Resource": bucket})
        keys = self._s3.create_user(name, json.dumps(policy))
        store = self._store(name, password, keys)
        return store.replace(attach_options={"read_only": True}) if role == "reader" else store

    def allowed(self, role: str) -> set[str]:
        """What the user of a role may do with files, in the folder of the lake and elsewhere."""
        storage = self.stores[role].storage_backend
        assert isinstance(storage, S3Storage)
        assert storage.key_id
        assert storage.secret
        keys = S3Keys(storage.key_id, storage.secret.reveal())
        allowed = set()
        with contextlib.closing(self._s3.client()) as owner, contextlib.closing(self._s3.client(keys=keys)) as client:
            for folder in ("prod", "other"):
                place = {"Bucket": self.bucket, "Key": f"{folder}/file"}
                owner.put_object(**place, Body=b"")
                for call in (client.get_object, client.put_object, client.delete_object):
                    with contextlib.suppress(ClientError):
                        call(**place)
                        allowed.add(f"{call.__name__} {folder}")
        return allowed

    def _store(self, user: str, password: str, keys: Any) -> Store:
        server = self._postgres
        metadata = PostgresMetadata(
            host=server.host,
            port=server.port,
            database=self.database,
            user=user,
            password=Secret(password),
            metadata_schema="lake",
        )
        storage = S3Storage(
            bucket=self.bucket,
            prefix="prod",
            key_id=keys.key_id,
            secret=Secret(keys.secret),
            endpoint=self._s3.endpoint,
            url_style="path",
            use_ssl=False,
        )
        return Store("prod", metadata_backend=metadata, storage_backend=storage, attach_options=INLINED)


@pytest.fixture
def roles(postgres_server: PostgresServer, s3_iam_server: S3Server) -> Roles:
    granted = Roles(postgres_server, s3_iam_server)
    with granted.owner.open() as lake:
        lake.create_table("t", {"id": "BIGINT"}).append([{"id": 1}])
    return granted


def ids(store: Store) -> list[int]:
    with store.replace(attach_options={"read_only": True}).open() as lake:
        return sorted(id_ for (id_,) in lake.table("t").scan().to_native().fetchall())


@pytest.mark.slow
def test_each_role_can_do_what_it_needs_and_no_more(roles: Roles, s3_iam_server: S3Server) -> None:
    for store in roles.stores.values():
        assert ids(store) == [1]
        with store.replace(attach_options={"read_only": True}).connect() as plain:
            assert plain.sql("SELECT id FROM t").fetchall() == [(1,)]

    # A reader, also if its store does not say so.
    reader = roles.stores["reader"].replace(attach_options=INLINED)
    with reader.open() as lake, pytest.raises(CatalogError, match="the role may not change"):
        lake.table("t").append(MANY)
    with reader.connect() as plain, pytest.raises(duckdb.Error, match="Forbidden"):
        plain.execute("INSERT INTO t SELECT * FROM range(50)")

    # A writer: its tables of inlined rows belong to the owner, so all roles can read them.
    with roles.stores["writer"].open() as lake:
        lake.table("t").append(MANY)
        lake.table("t").delete("id = 1")
        lake.table("t").append([{"id": 2}])
        lake.create_table("u", {"id": "BIGINT"}).append([{"id": 1}])
    with roles.stores["writer"].connect() as plain:
        plain.execute("INSERT INTO t VALUES (3)")
        plain.execute("INSERT INTO t SELECT 5000 + range FROM range(50)")
        plain.execute("DROP TABLE u")
    expected = [2, 3, *(row["id"] for row in MANY), *range(5000, 5050)]
    assert [ids(store) for store in (*roles.stores.values(), roles.owner)] == [sorted(expected)] * 4

    before = s3_iam_server.objects(roles.bucket)
    with roles.stores["maintainer"].open() as lake:
        lake.maintenance.compact()
        lake.maintenance.expire_snapshots(older_than=timedelta(0), force=True)
        lake.maintenance.cleanup(older_than=timedelta(0), force=True)
    assert not set(before) <= set(s3_iam_server.objects(roles.bucket))
    assert [ids(store) for store in roles.stores.values()] == [sorted(expected)] * 3

    allowed = {role: roles.allowed(role) for role in get_args(Role)}
    assert allowed == {
        "reader": {"get_object prod"},
        "writer": {"get_object prod", "put_object prod"},
        "maintainer": {"get_object prod", "put_object prod", "delete_object prod"},
    }


def lose_a_race(lake: Lake, store: Store, rows: Any) -> None:
    """A transaction that has staged rows when another writer changes its table."""
    with lake, store.open() as other, lake.transaction("lost") as lost:
        lost.table("t").append(rows)
        lost.table("t").delete("id = 115")
        other.table("t").delete("id = 115")


@pytest.mark.slow
@pytest.mark.hadoop_aws
def test_a_writer_whose_commit_fails_leaves_files_that_a_maintainer_removes(
    roles: Roles, s3_iam_server: S3Server, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    store = roles.stores["writer"]
    assert store.storage_backend
    configure_session(spark, store.storage_backend.hadoop_settings())
    with store.open(spark) as lake:
        lake.table("t").append(spark.range(100, 200))
        lake.table("t").merge(spark.range(150, 250), on="id")
        lake.table("t").delete("id >= 240")
    assert ids(store) == [1, *range(100, 240)]
    caplog.clear()
    with pytest.raises(CommitConflictError, match="another writer"):
        lose_a_race(store.open(), store, MANY)
    with roles.owner.open() as lake:
        lake.table("t").append([{"id": 115}])
    with pytest.raises(CommitConflictError, match="another writer"):
        lose_a_race(store.open(spark), store, spark.range(300, 400))
    assert "cannot remove files of write" in caplog.text
    assert ids(store) == [1, *range(100, 115), *range(116, 240)]
    left = set(s3_iam_server.objects(roles.bucket))
    with roles.stores["maintainer"].open() as lake:
        lake.maintenance.cleanup(older_than=timedelta(0), force=True)
    assert len(left - set(s3_iam_server.objects(roles.bucket))) >= 2
    assert ids(store) == [1, *range(100, 115), *range(116, 240)]
    steps = {step.name: step.status for step in diagnose(store)}
    assert (steps["data path writable"], set(steps.values())) == ("warning", {"ok", "warning"})


METADATA = PostgresMetadata(host="db", database='la"ke', user="o'wner", password=Secret("hush"), metadata_schema="lake")
S3 = S3Storage(bucket="acme", prefix="a*b", region="cn-north-1", key_id="k", secret=Secret("hush"))


def test_names_and_folders_are_quoted() -> None:
    granted = grants(Store("prod", metadata_backend=METADATA, storage_backend=S3), "writer", 'et"l')
    assert granted.catalog.splitlines() == [
        '-- A new role: CREATE ROLE "et""l" LOGIN; then \\password "et""l"',
        'GRANT CONNECT ON DATABASE "la""ke" TO "et""l";',
        'GRANT "o\'wner" TO "et""l";',
        'ALTER ROLE "et""l" IN DATABASE "la""ke" SET role = \'o\'\'wner\';',
    ]
    listing, files = json.loads(granted.storage)["Statement"]
    assert listing["Condition"]["StringLike"]["s3:prefix"] == ["a${*}b", "a${*}b/*"]
    assert (listing["Resource"], files["Resource"]) == ("arn:aws-cn:s3:::acme", "arn:aws-cn:s3:::acme/a${*}b/*")
    for name in ("a\nDROP", "", "x" * 64):
        with pytest.raises(LakeconfError, match="1 to 63 bytes and no control characters"):
            grants(Store("prod", metadata_backend=METADATA, storage_backend=S3), "writer", name)
    with pytest.raises(LakeconfError, match="owns the catalog already"):
        grants(Store("prod", metadata_backend=METADATA, storage_backend=S3), "writer", "o'wner")


def test_azure() -> None:
    storage = AzureStorage(account="acme", container="lake", account_key=Secret("hush"))
    assert [storage.grants(role, "x").split('"')[3] for role in get_args(Role)] == [
        "Storage Blob Data Reader",
        "Storage Blob Data Contributor",
        "Storage Blob Data Contributor",
    ]
    assert "--name acme " in storage.grants("reader", "x")
    assert storage.grants("reader", "x").endswith('/blobServices/default/containers/lake"')


def test_r2_gcs_and_kms() -> None:
    keys: dict[str, Any] = {"bucket": "acme", "prefix": "pr od", "key_id": "k", "secret": Secret("hush")}
    r2 = json.loads(
        R2Storage(**keys, account_id="acc", endpoint="acc.eu.r2.cloudflarestorage.com").grants("reader", "x")
    )
    assert r2["policies"][0]["resources"] == {"com.cloudflare.edge.r2.bucket.acc_eu_acme": "*"}
    assert [group["name"] for group in r2["policies"][0]["permission_groups"]] == [
        "Workers R2 Storage Bucket Item Read"
    ]
    lines = GCSStorage(**keys).grants("writer", "x").splitlines()
    assert [shlex.split(line)[2:5] for line in lines] == [
        ["managed-folders", "create", "gs://acme/pr od/"],
        *([["managed-folders", "add-iam-policy-binding", "gs://acme/pr od/"]] * 2),
    ]
    assert [line.rpartition("/")[2] for line in lines[1:]] == ["storage.objectViewer", "storage.objectCreator"]
    kms = "arn:aws:kms:eu-central-1:1:key/2"
    policy = json.loads(S3Storage(**keys, secret_parameters={"kms_key_id": kms}).grants("reader", "x"))
    assert policy["Statement"][2] == {"Effect": "Allow", "Action": ["kms:Decrypt"], "Resource": kms}


def test_the_command_says_what_has_no_roles(project: Path, called: Any) -> None:
    code, _, err = called("grants", "--role", "reader")
    assert (code, "neither backend of the store has roles: sqlite and local" in err) == (1, True)


def test_the_command_prints_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: Any) -> None:
    (tmp_path / "lakeconf.toml").write_text(TOML)
    monkeypatch.chdir(tmp_path)
    code, out, err = called("grants", "--role", "maintainer")
    assert (code, err) == (
        0,
        "note: lakeconf has no statements for sqlite: use the permissions of its files or its service\n",
    )
    assert "s3:DeleteObject" in json.loads(out)["Statement"][1]["Action"]
    assert "hush" not in out
    code, out, _ = called("grants", "--role", "reader", "--format", "json")
    assert (code, json.loads(json.loads(out)["storage"])["Statement"][1]["Action"]) == (0, ["s3:GetObject"])
