"""Values as TOML, and the hints that say what to write."""

from __future__ import annotations

import datetime as dt
import math
import re
import tomllib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeconf.backends.backend import Backend
from lakeconf.backends.registry import METADATA_BACKENDS, STORAGE_BACKENDS, metadata_backend, storage_backend
from lakeconf.backends.store_options import option_fault
from lakeconf.config.backend_tables import field_fix
from lakeconf.config.config import read, validate
from lakeconf.config.toml_text import toml_value
from lakeconf.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = st.text(st.characters(codec="utf-8"))
VALUES = st.recursive(
    TEXTS | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@given(value=VALUES)
def test_written_value_is_read_back(value: object) -> None:
    assert tomllib.loads(f"key = {toml_value(value)}") == {"key": value}


@pytest.mark.parametrize(
    "value", ["\x7f", {"\x7f": 1}, "\u2028", 'a "b" \\ c', dt.datetime(2024, 1, 2, 3, 4, 5), -math.inf]
)
def test_values_that_json_writes_differently(value: object) -> None:
    assert tomllib.loads(f"key = {toml_value(value)}")["key"] == value


def test_nan() -> None:
    assert math.isnan(tomllib.loads(f"key = {toml_value(math.nan)}")["key"])


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
    "text",
    [
        '[stores."a b"]\n',
        '[stores]\n"a b" = 1\n[stores.c]\nextends = "a b"\n',
        '[stores."a b"]\nmetadata_backend = 1\n',
        '[stores."a b"]\nmetadata_backend = { type = "sqlite", uri = "c", alias = "x" }\n',
        '[stores."a b"]\nmetadata_backend = { type = "sqlite", uri = "c" }\n',
        '[stores."a b"]\nmetadata_backend = { type = "postgres", host = "h", port = "x" }\n',
    ],
)
def test_tables_that_hints_name_are_toml(text: str, tmp_path: Path) -> None:
    (tmp_path / "lakeconf.toml").write_text(text)
    try:
        problems = validate(read(tmp_path))
    except ConfigError as error:
        problems = [*error.problems]
    assert problems
    for problem in problems:
        for header in re.findall(r"\[(?:stores|pipeline)[^\]]*\]", problem.hint or ""):
            assert tomllib.loads(header)


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_hint_about_a_catalog_file_names_one_of_its_type(kind: str, tmp_path: Path) -> None:
    (tmp_path / "lakeconf.toml").write_text(f'[stores.dev]\nmetadata_backend = {{ type = "{kind}" }}\n')
    hints = [str(problem.hint) for problem in validate(read(tmp_path)) if "uri" in (problem.key or "")]
    assert [f'uri = ".lakeconf/catalog.{kind}"' in hint for hint in hints] == [True]


def test_hint_about_a_value_of_an_option_is_about_the_value() -> None:
    for key, value in (("metadata_catalog", "main"), ("metadata_catalog", "a\nb"), ("snapshot_version", -1)):
        fault = option_fault("attach_options", key, value)
        assert fault is not None
        assert fault.hint.startswith(f"write {key} = ")
