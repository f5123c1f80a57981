"""Hints for backend settings: each says what to write."""

from __future__ import annotations

import pytest

from lakeconf.backends.backend import Backend
from lakeconf.backends.registry import METADATA_BACKENDS, STORAGE_BACKENDS, metadata_backend, storage_backend
from lakeconf.config.backend_tables import field_fix

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
