"""What `lakeconf init` asks for: every built-in template gives a valid backend."""

from __future__ import annotations

import pytest

from lakeconf.backends.registry import (
    METADATA_BACKENDS,
    STORAGE_BACKENDS,
    metadata_backend,
    storage_backend,
)

MODELS = [*map(metadata_backend, METADATA_BACKENDS), *map(storage_backend, STORAGE_BACKENDS)]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_fields_of_a_template_make_a_valid_backend(model: type) -> None:
    template = model.init_template()  # type: ignore[attr-defined]
    fields = {name: "x" if default is None else default for name, default in template.fields.items()}
    parameters = {"secret_parameters": dict(template.secret_parameters)} if template.secret_parameters else {}
    model.model_validate(fields | parameters)  # type: ignore[attr-defined]
    assert template.without_parameters <= model.model_fields.keys()  # type: ignore[attr-defined]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_field_that_is_asked_for_has_a_description(model: type) -> None:
    """It is the help of the prompt."""
    fields = model.model_fields  # type: ignore[attr-defined]
    template = model.init_template()  # type: ignore[attr-defined]
    assert [name for name in template.fields if not fields[name].description] == []
