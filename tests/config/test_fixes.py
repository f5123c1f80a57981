"""Hints for backend settings: each says what to write."""

from __future__ import annotations

import pytest

from lakeconf.backends.backend import Backend
from lakeconf.backends.registry import METADATA_BACKENDS, STORAGE_BACKENDS, metadata_backend, storage_backend
from lakeconf.config.backend_tables import credentials_fix, field_fix, parameter_fix, settings_fix

PLACE = "stores.prod.storage_backend"
BACKENDS = [*map(metadata_backend, METADATA_BACKENDS), *map(storage_backend, STORAGE_BACKENDS)]


@pytest.mark.parametrize(
    ("model", "name", "fix"),
    [
        (metadata_backend("postgres"), "port", "write port = 5432 (port of the server; default 5432)"),
        (metadata_backend("motherduck"), "compute", 'write compute = "local" (where queries run: in MotherDuck, '),
        (storage_backend("s3"), "data_path", 'write data_path = "s3://acme-lake/prod/" (URI of the folder; '),
    ],
)
def test_key_is_written_with_an_example_and_its_meaning(model: type[Backend], name: str, fix: str) -> None:
    assert field_fix(name, model.model_fields[name]).startswith(fix)


@pytest.mark.parametrize("model", BACKENDS, ids=lambda model: model.__name__)
def test_every_key_has_an_example(model: type[Backend]) -> None:
    for name in model.model_fields:
        assert name in ("type", "secret_name") or field_fix(name, model.model_fields[name]).startswith(
            f"write {name} = "
        )


@pytest.mark.parametrize(
    ("key", "fault", "fix"),
    [
        ("data_path", "data_path conflicts with bucket and prefix: set one", "remove data_path, or the keys that it "),
        ("data_path", "data_path must be a URI such as gs://bucket/folder/", 'write data_path = "gs://bucket/folder/"'),
        ("prefix", "prefix without bucket: set bucket too", 'write bucket = "acme-lake" ('),
        ("endpoint", "endpoint must be host and port without a scheme", 'write endpoint = "minio.example.com:9000" ('),
        (None, "no location for the files: set bucket (and prefix), or data_path", 'write bucket = "acme-lake" ('),
        (None, "nothing fits", f"change the keys of [{PLACE}]"),
    ],
)
def test_conflict_of_keys_names_the_key_to_change(key: str | None, fault: str, fix: str) -> None:
    assert settings_fix(storage_backend("s3"), PLACE, key, fault).startswith(fix)


@pytest.mark.parametrize(
    ("fault", "fix"),
    [
        ("region is a key of the backend: move it out of it", f"move region from secret_parameters to [{PLACE}]"),
        ("secret_parameters contain x twice", "remove one x: upper and lower case are the same"),
        (
            "key_id and secret conflict with secret_parameters.provider: …",
            "remove provider from secret_parameters, or ",
        ),
        ("secret_parameters need key_id and secret, or must contain a provider", "write secret_parameters = { "),
        ("incomplete credentials: key_id without secret", "set all of them, or omit them all "),
        ("no credentials: …", "set all credentials, or omit them all "),
    ],
)
def test_credentials_have_the_fix_of_their_fault(fault: str, fix: str) -> None:
    assert credentials_fix(PLACE, fault).startswith(fix)


@pytest.mark.parametrize(("name", "fix"), [("kms-key-id", "rename it to kms_key_id"), ("é", "remove it")])
def test_parameter_gets_an_allowed_name(name: str, fix: str) -> None:
    assert parameter_fix(name) == fix
