"""Amazon S3 and compatible servers."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from lakeconf.backends.backend import StoreNames
from lakeconf.backends.storage.object_storage import S3Storage
from lakeconf.config.config import validate
from lakeconf.config.template import first_configuration
from lakeconf.secret import Secret


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_schemes_of_hadoop_name_the_same_location(scheme: str) -> None:
    assert S3Storage(data_path=f"{scheme}://acme/lake", secret_name="mine").location == "s3://acme/lake/"


@pytest.mark.parametrize("uri", ["gs://acme/", "S3://acme/", "acme/lake", "s3:/acme"])
def test_other_schemes_are_refused(uri: str) -> None:
    with pytest.raises(ValidationError, match="data_path must be a URI such as s3://bucket/folder/"):
        S3Storage(data_path=uri, secret_name="mine")


def test_secret_has_the_type_of_duckdb() -> None:
    (secret,) = S3Storage(bucket="b", key_id="k", secret=Secret("s")).secrets(StoreNames("dev", "dev"))
    assert (secret.name, secret.type, secret.options["scope"]) == ("lakeconf_dev__storage", "s3", "s3://b/")


def test_new_configuration_uses_the_credentials_of_the_aws_tools() -> None:
    text = first_configuration("dev", "sqlite", "s3", {("storage_backend", "bucket"): "acme"})
    assert text.endswith(
        'type = "s3"\nbucket = "acme"\nregion = "us-east-1"\nsecret_parameters = { provider = "credential_chain" }\n'
    )


@pytest.mark.parametrize(
    "given", [{"key_id": "${K}", "secret": "${S}"}, {"secret_name": "mine"}], ids=["keys", "existing secret"]
)
def test_new_configuration_with_other_credentials_has_no_credential_chain(given: dict[str, str]) -> None:
    values = {("storage_backend", name): value for name, value in ({"bucket": "acme"} | given).items()}
    text = first_configuration("dev", "sqlite", "s3", values)
    assert "secret_parameters" not in text
    assert all(name in text for name in given)


def test_bucket_without_credentials_is_refused() -> None:
    storage = {"type": "s3", "bucket": "acme"}
    (problem,) = validate(
        {"stores": {"dev": {"metadata_backend": {"type": "sqlite", "uri": "/c"}, "storage_backend": storage}}}
    )
    assert problem.code == "LC052"
