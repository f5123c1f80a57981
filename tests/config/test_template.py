"""The text of a first configuration, values that it writes, and the hints that say what to write."""

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
from lakeconf.config.template import (
    DEFAULT_METADATA,
    DEFAULT_STORAGE,
    NO_STORAGE,
    first_configuration,
    with_store,
)
from lakeconf.config.toml_text import toml_value
from lakeconf.errors import ConfigError, LakeconfError

if TYPE_CHECKING:
    from pathlib import Path

Values = dict[tuple[str, str], str]
BUCKET = ("storage_backend", "bucket")
PORT = ("metadata_backend", "port")


def error(store: str, metadata: str, storage: str | None, values: Values | None = None) -> tuple[str, str | None]:
    with pytest.raises(LakeconfError) as raised:
        first_configuration(store, metadata, storage, values or {})
    return raised.value.message, raised.value.hint


def test_defaults_are_files_on_this_machine() -> None:
    assert (DEFAULT_METADATA, DEFAULT_STORAGE, NO_STORAGE) == ("sqlite", "local", "none")
    assert first_configuration("dev", DEFAULT_METADATA, DEFAULT_STORAGE, {}) == (
        'default_store = "dev"\n'
        "\n"
        "# Where the catalog is: names of tables, snapshots, files.\n"
        "[stores.dev.metadata_backend]\n"
        'type = "sqlite"\n'
        'uri = ".lakeconf/catalog.sqlite"\n'
        "\n"
        "# Where the Parquet files are.\n"
        "[stores.dev.storage_backend]\n"
        'type = "local"\n'
        'path = ".lakeconf/data"\n'
    )


def test_store_without_a_storage() -> None:
    assert first_configuration("prod", "motherduck", None, {}) == (
        'default_store = "prod"\n'
        "\n"
        "# Where the catalog is: names of tables, snapshots, files.\n"
        "[stores.prod.metadata_backend]\n"
        'type = "motherduck"\n'
        'database = "lake"\n'
    )


def test_given_fields_replace_defaults_and_are_added() -> None:
    values = {PORT: "5433", ("metadata_backend", "host"): "db", ("metadata_backend", "metadata_schema"): 'a"b'}
    text = first_configuration("dev", "postgres", "local", values)
    backend = tomllib.loads(text)["stores"]["dev"]["metadata_backend"]
    assert backend == {
        "type": "postgres",
        "host": "db",
        "database": "lake",
        "user": "${PGUSER}",
        "password": "${LAKE_PG_PASSWORD}",
        "port": 5433,
        "metadata_schema": 'a"b',
        "secret_parameters": {"sslmode": "${LAKE_PG_SSLMODE:-verify-full}", "sslrootcert": "${LAKE_PG_CA:-system}"},
    }
    assert text.endswith('path = ".lakeconf/data"\n')


def test_values_have_the_types_of_their_fields() -> None:
    text = first_configuration("dev", "sqlite", "s3", {BUCKET: "1", ("storage_backend", "use_ssl"): "false"})
    assert 'bucket = "1"\n' in text
    assert "use_ssl = false\n" in text


@pytest.mark.parametrize("omitted", ["key_id", "secret_name"])
def test_parameters_are_written_unless_a_field_replaces_them(omitted: str) -> None:
    given = {"key_id": {"key_id": "k", "secret": "${S}"}, "secret_name": {"secret_name": "mine"}}[omitted]
    values = {BUCKET: "b"} | {("storage_backend", name): value for name, value in given.items()}
    assert "secret_parameters" not in first_configuration("dev", "sqlite", "s3", values)
    assert 'secret_parameters = { provider = "credential_chain" }' in first_configuration(
        "dev", "sqlite", "s3", {BUCKET: "b"}
    )


@pytest.mark.parametrize(("name", "allowed"), [("My-Store", "my_store"), ("", "store"), ("a b", "a_b")])
def test_invalid_store_name_is_refused(name: str, allowed: str) -> None:
    assert error(name, "sqlite", "local") == (f"invalid store name {name!r}", f"write it as {allowed}")


def test_unknown_type_is_refused() -> None:
    assert error("dev", "sqlit", "local") == ("unknown type 'sqlit' of metadata_backend", 'did you mean "sqlite"?')
    assert error("dev", "local", "local") == (
        "unknown type 'local' of metadata_backend",
        "use one of: duckdb, motherduck, postgres, sqlite",
    )
    assert error("dev", "sqlite", "sqlite") == (
        "unknown type 'sqlite' of storage_backend",
        "use one of: gcs, local, r2, s3",
    )


def test_field_of_another_section_is_refused() -> None:
    hint = "use one of the sections: metadata_backend, storage_backend"
    assert error("dev", "sqlite", "local", {("storage", "bucket"): "b"}) == (
        "storage.bucket cannot be set: the store has no storage",
        hint,
    )
    assert error("dev", "motherduck", None, {BUCKET: "b"}) == (
        "storage_backend.bucket cannot be set: the store has no storage_backend",
        hint,
    )


def test_type_cannot_be_set_as_a_field() -> None:
    assert error("dev", "sqlite", "local", {("metadata_backend", "type"): "sqlite"}) == (
        "metadata_backend.type is already sqlite",
        "set it with --metadata and --storage",
    )


def test_missing_field_is_refused() -> None:
    assert error("dev", "sqlite", "s3") == (
        "storage_backend.bucket is missing",
        "pass --set storage_backend.bucket=… (Name of the bucket; alternative to `data_path`)",
    )


@pytest.mark.parametrize("value", ["planted", "x${P}", "${P:-planted}", "$P"])
def test_secret_that_is_not_a_variable_is_refused_without_its_value(value: str) -> None:
    found = error("dev", "postgres", "local", {("metadata_backend", "password"): value})
    assert found == (
        "metadata_backend.password is a secret, so its value must not be in the file",
        "use a variable: --set 'metadata_backend.password=${MY_PASSWORD}'",
    )


@pytest.mark.parametrize("value", ["${P}", "${P:?why}"])
def test_secret_may_be_any_single_variable(value: str) -> None:
    text = first_configuration("dev", "postgres", "local", {("metadata_backend", "password"): value})
    assert f'password = "{value}"' in text


@pytest.mark.parametrize(
    ("values", "message", "hint"),
    [
        (
            {PORT: "99999"},
            "stores.dev.metadata_backend.port: must be less than or equal to 65535",
            "write port = 5432 (port of the server; default 5432)",
        ),
        (
            {("metadata_backend", "prt"): "1"},
            "stores.dev.metadata_backend.prt: unknown key",
            'did you mean "port"?',
        ),
        (
            {("storage_backend", "a b"): "1"},
            'stores.dev.storage_backend."a b": unknown key',
            "use one of: type, path",
        ),
    ],
)
def test_invalid_configuration_is_refused(values: Values, message: str, hint: str) -> None:
    assert error("dev", "postgres", "local", values) == (message, hint)


def test_unsupported_pair_is_refused() -> None:
    message, hint = error("dev", "motherduck", "local")
    assert message.startswith("stores.dev.storage_backend: motherduck supports s3, r2 or gcs storage")
    assert hint == "change the type of one of the two"


ONE = (
    '# mine\n[stores.dev.metadata_backend]\ntype = "sqlite"\nuri = "c"\n'
    '[stores.dev.storage_backend]\ntype = "local"\npath = "d" # end'
)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_added_store_leaves_the_text_and_makes_the_other_store_the_default(line_end: str) -> None:
    text = with_store(ONE.replace("\n", line_end), "new", "duckdb", "local", {})
    assert text.replace("\r\n", "\n") == (
        f'default_store = "dev"\n\n{ONE}\n'
        "\n"
        "# Where the catalog is: names of tables, snapshots, files.\n"
        "[stores.new.metadata_backend]\n"
        'type = "duckdb"\n'
        'uri = ".lakeconf/new/catalog.duckdb"\n'
        "\n"
        "# Where the Parquet files are.\n"
        "[stores.new.storage_backend]\n"
        'type = "local"\n'
        'path = ".lakeconf/new/data"\n'
    )
    assert ("\r" in text) == (text.count("\r\n") == text.count("\n"))
    assert with_store(text, "third", "sqlite", "local", {}).startswith(text.rstrip())


def test_a_store_is_added_to_a_file_without_stores() -> None:
    assert tomllib.loads(with_store("", "new", "sqlite", "local", {}))["stores"].keys() == {"new"}


@pytest.mark.parametrize(
    ("before", "message"),
    [
        (ONE.replace("dev", "new"), "the file already declares the store 'new'"),
        ('stores = { dev = { extends = "x" } }', "its `stores` are not tables"),
        ("stores = 3", "its `stores` are not tables"),
    ],
)
def test_a_file_that_cannot_be_extended_is_refused(before: str, message: str) -> None:
    with pytest.raises(LakeconfError, match=message):
        with_store(before, "new", "sqlite", "local", {})


def test_problems_of_other_stores_do_not_prevent_a_new_one() -> None:
    assert "[stores.new.storage_backend]" in with_store(
        '[stores.dev.metadata_backend]\ntype = "sqlit"', "new", "sqlite", "local", {}
    )


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
