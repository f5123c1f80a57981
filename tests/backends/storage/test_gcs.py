"""Google Cloud Storage: its secret, and what Spark needs to know about its server."""

from __future__ import annotations

from typing import Any

import pytest

from lakeconf.backends.backend import StoreNames
from lakeconf.backends.storage.object_storage import GCSStorage
from lakeconf.secret import Secret


def bucket(**fields: Any) -> GCSStorage:
    return GCSStorage(bucket="b", key_id="k", secret=Secret("s"), **fields)


@pytest.mark.parametrize("scheme", ["gs", "gcs"])
def test_both_schemes_name_one_location(scheme: str) -> None:
    assert GCSStorage(data_path=f"{scheme}://acme/lake", secret_name="mine").location == "gs://acme/lake/"


def test_secret_has_the_type_of_duckdb() -> None:
    (secret,) = bucket().secrets(StoreNames("dev", "dev"))
    assert (secret.type, secret.options["scope"]) == ("gcs", "gs://b/")


@pytest.mark.parametrize(("endpoint", "found"), [(None, "storage.googleapis.com"), ("proxy:443", "proxy:443")])
def test_endpoint_of_spark_is_googles_unless_another_is_set(endpoint: str | None, found: str) -> None:
    storage = bucket(endpoint=endpoint)
    assert (storage.s3_endpoint, storage.namespace) == (found, found)
    assert storage.hadoop_settings()["fs.s3a.bucket.b.endpoint"] == f"https://{found}"


@pytest.mark.parametrize(("style", "in_path"), [(None, True), ("path", True), ("vhost", False)])
def test_the_path_contains_the_bucket_unless_the_host_does(style: str | None, *, in_path: bool) -> None:
    assert ("fs.s3a.bucket.b.path.style.access" in bucket(url_style=style).hadoop_settings()) == in_path


def test_operations_that_google_lacks_are_disabled() -> None:
    given = bucket().hadoop_settings()
    assert {key.removeprefix("fs.s3a.bucket.b."): given[key] for key in given if given[key] in ("false", "1")} == {
        "checksum.generation": "false",
        "committer.magic.enabled": "false",
        "create.conditional.enabled": "false",
        "list.version": "1",
        "multiobjectdelete.enable": "false",
        "optimized.copy.from.local.enabled": "false",
    }


def test_new_configuration_asks_for_the_bucket_and_reads_the_keys_from_variables() -> None:
    assert GCSStorage.init_template().fields == {
        "bucket": None,
        "key_id": "${GCS_KEY_ID}",
        "secret": "${GCS_SECRET}",
    }
