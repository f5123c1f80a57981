"""Cloudflare R2: the account sets the endpoint."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from lakeconf.backends.backend import StoreNames
from lakeconf.backends.storage.object_storage import R2Storage
from lakeconf.secret import Secret

KEYS: dict[str, Any] = {"bucket": "b", "key_id": "k", "secret": Secret("s")}
NAMES = StoreNames("dev", "dev")


@pytest.mark.parametrize("keys", [KEYS, {"bucket": "b", "secret_parameters": {"provider": "credential_chain"}}])
def test_credentials_need_the_account_or_an_endpoint(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"incomplete credentials: R2 needs account_id \(or an endpoint\)"):
        R2Storage(**keys)
    assert R2Storage(**keys, account_id="0a1b").creates_secret
    assert R2Storage(**keys, endpoint="minio:9000").creates_secret


def test_existing_secret_needs_no_account() -> None:
    storage = R2Storage(bucket="b", secret_name="mine")
    assert (storage.secrets(NAMES), storage.s3_endpoint, storage.namespace) == ((), None, "")


@pytest.mark.parametrize(
    ("fields", "endpoint"),
    [
        ({"account_id": "0a1b"}, "0a1b.r2.cloudflarestorage.com"),
        ({"account_id": "0a1b", "endpoint": "0a1b.eu.r2.cloudflarestorage.com"}, "0a1b.eu.r2.cloudflarestorage.com"),
        ({"endpoint": "minio:9000"}, "minio:9000"),
    ],
)
def test_endpoint_is_that_of_the_account_unless_another_is_set(fields: dict[str, Any], endpoint: str) -> None:
    storage = R2Storage(**KEYS, **fields)
    assert (storage.s3_endpoint, storage.namespace) == (endpoint, endpoint)
    assert storage.hadoop_settings()["fs.s3a.bucket.b.endpoint"] == f"https://{endpoint}"


def test_secret_contains_the_account_only_if_it_is_set() -> None:
    (secret,) = R2Storage(**KEYS, account_id="0a1b", region="auto").secrets(NAMES)
    assert (secret.type, dict(secret.options)) == (
        "r2",
        {"key_id": "k", "secret": Secret("s"), "region": "auto", "account_id": "0a1b", "scope": "r2://b/"},
    )
    (other,) = R2Storage(**KEYS, endpoint="e").secrets(NAMES)
    assert "account_id" not in other.options


@pytest.mark.parametrize(("style", "in_path"), [(None, True), ("path", True), ("vhost", False)])
def test_the_path_contains_the_bucket_unless_the_host_does(style: Any, *, in_path: bool) -> None:
    given = R2Storage(**KEYS, account_id="a", url_style=style).hadoop_settings()
    assert ("fs.s3a.bucket.b.path.style.access" in given) == in_path


def test_new_configuration_asks_for_account_and_bucket_and_reads_the_keys_from_variables() -> None:
    assert dict(R2Storage.init_template().fields) == {
        "account_id": None,
        "bucket": None,
        "key_id": "${R2_KEY_ID}",
        "secret": "${R2_SECRET}",
    }
