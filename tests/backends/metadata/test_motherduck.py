"""A catalog in MotherDuck: its statements, and what it refuses. Nothing here reaches the service."""

from __future__ import annotations

from typing import Any

import pytest

from lakeconf.backends.backend import StoreNames
from lakeconf.backends.metadata.motherduck import MotherDuckMetadata
from lakeconf.backends.storage.object_storage import S3Storage
from lakeconf.errors import LakeconfError
from lakeconf.secret import Secret
from lakeconf.sql import Attach, CreateDatabase, CreateSecret

SHOP = MotherDuckMetadata(database="shop")
HERE = MotherDuckMetadata(database="shop", compute="local")
NAMES = StoreNames("prod", "shop")
BUCKET = S3Storage(bucket="acme", prefix="lake", key_id="k", secret=Secret("s"))


def test_managed_files_are_refused_only_if_queries_run_here() -> None:
    assert SHOP.refusal(None) is None
    assert HERE.refusal(None) == (
        'with compute = "local" needs a storage_backend: only MotherDuck can read a managed lake'
    )


def test_alias_is_the_database_if_motherduck_attaches_it() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"database": "shop"}, "shop"),
        ({"database": "shop", "compute": "motherduck"}, "shop"),
        ({"database": "shop", "compute": "local"}, "prod"),
        ({"database": "", "compute": "motherduck"}, "prod"),
        ({"database": 7}, "prod"),
        ({}, "prod"),
    ]
    for fields, alias in cases:
        assert MotherDuckMetadata.default_alias("prod", fields) == alias, fields


@pytest.mark.parametrize("region", [None, "eu-central-1"])
def test_secret_of_the_bucket_is_stored_in_motherduck_before_the_database(region: str | None) -> None:
    backend = MotherDuckMetadata(database="shop", region=region)
    attach, secret, database = backend.statements(NAMES, BUCKET, {})
    assert attach == Attach("md:", None)
    assert isinstance(secret, CreateSecret)
    assert (secret.name, secret.type, secret.in_motherduck) == ("lakeconf_prod__storage", "s3", True)
    assert secret.key == "stores.prod.storage_backend"
    expected = {"key_id": "k", "secret": Secret("s"), "scope": "s3://acme/"}
    assert secret.options == ({"region": region} if region else {}) | expected
    assert database == CreateDatabase("shop", {"data_path": "s3://acme/lake/"})
    # The region of the bucket comes before that of the catalog.
    _, secret, _ = backend.statements(NAMES, BUCKET.model_copy(update={"region": "us-east-1"}), {})
    assert isinstance(secret, CreateSecret)
    assert secret.options["region"] == "us-east-1"


def test_reader_creates_no_database() -> None:
    for options, creates in (
        ({}, True),
        ({"create_if_not_exists": True}, True),
        ({"read_only": False}, True),
        ({"create_if_not_exists": False}, False),
        ({"read_only": True}, False),
        ({"create_if_not_exists": True, "read_only": True}, False),
    ):
        statements = SHOP.statements(NAMES, None, options)
        assert [isinstance(one, CreateDatabase) for one in statements] == [False, True][: 1 + creates], options


def test_other_options_and_another_alias_are_refused() -> None:
    with pytest.raises(LakeconfError) as raised:
        SHOP.statements(NAMES, None, {"snapshot_version": 1, "encrypted": True, "read_only": True})
    assert raised.value.message == (
        "stores.prod.attach_options: MotherDuck does not support the attach option encrypted, snapshot_version"
    )
    with pytest.raises(LakeconfError) as raised:
        SHOP.statements(StoreNames("prod", "other"), None, {})
    assert raised.value.message == "stores.prod.alias: the alias 'other' is not the database 'shop'"
    assert raised.value.hint == "omit alias: MotherDuck attaches a database under its own name"


def test_queries_on_this_machine_attach_the_catalog_as_other_catalogs() -> None:
    *secrets, attach = HERE.statements(StoreNames("prod", "other"), BUCKET, {"snapshot_version": 1})
    assert [one.name for one in secrets if isinstance(one, CreateSecret)] == ["lakeconf_prod__storage", "lakeconf_prod"]
    assert isinstance(attach, Attach)
    assert (attach.path, attach.alias) == ("ducklake:lakeconf_prod", "other")
    assert attach.options == {"data_inlining_row_limit": 0, "snapshot_version": 1}
    (secret,) = (one for one in secrets if isinstance(one, CreateSecret) and one.type == "ducklake")
    assert secret.options == {"metadata_path": "md:__ducklake_metadata_shop", "data_path": "s3://acme/lake/"}
