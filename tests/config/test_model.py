"""`init()`, `Config`, and how a store combines the file, its parents and the environment."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

from lakeconf.backends.metadata.postgres import PostgresMetadata
from lakeconf.backends.storage.s3 import S3Storage
from lakeconf.config.model import Config, init, validate
from lakeconf.errors import ConfigError, LakeconfError, Problem
from lakeconf.secret import Secret
from lakeconf.sql import CreateSecret

SQLITE = {"type": "sqlite", "uri": "/lake/c.sqlite"}
LOCAL = {"type": "local", "path": "/lake/data"}
DEV = {"metadata_backend": SQLITE, "storage_backend": LOCAL}
PROD: dict[str, Any] = {
    "alias": "lake",
    "metadata_backend": {
        "type": "postgres",
        "secret_name": "prod_catalog",
        "host": "${PGHOST}",
        "database": "${PGDATABASE:-lake}",
        "user": "lake",
        "password": "${PGPASSWORD:?export it}",
    },
    "storage_backend": {
        "type": "s3",
        "secret_name": "prod_s3",
        "bucket": "acme",
        "prefix": "shop",
        "secret_parameters": {"provider": "credential_chain"},
    },
}


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db.example.com")
    monkeypatch.setenv("PGPASSWORD", "hunter2")


def stores(**tables: Any) -> dict[str, Any]:
    return {"stores": tables}


def problems_of(source: Any, name: str | None = None) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as raised:
        init(source).get_store(name)
    return raised.value.problems


def postgres(config: Config, name: str) -> PostgresMetadata:
    backend = config.get_store(name).metadata_backend
    assert isinstance(backend, PostgresMetadata)
    return backend


def s3(config: Config, name: str) -> S3Storage:
    backend = config.get_store(name).storage_backend
    assert isinstance(backend, S3Storage)
    return backend


# Store selection.


def test_the_default_store() -> None:
    config = init({"default_store": "b", **stores(a=DEV, b=DEV)})
    assert config.default_store == "b"
    assert config.get_store().name == "b"
    assert config.get_store("a").name == "a"


def test_the_only_store_is_the_default() -> None:
    assert init(stores(a=DEV)).get_store().name == "a"


def test_without_a_default_store_the_hint_lists_the_stores() -> None:
    (problem,) = problems_of(stores(a=DEV, b=DEV))
    assert problem.code == "LC022"
    assert problem.hint is not None
    assert "a, b" in problem.hint


def test_the_default_store_may_be_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    source = {"default_store": "${LAKE:-a}", **stores(a=DEV, b=DEV)}
    assert init(source).get_store().name == "a"
    monkeypatch.setenv("LAKE", "b")
    assert init(source).get_store().name == "b"
    monkeypatch.setenv("LAKE", "c")
    assert [problem.code for problem in problems_of(source)] == ["LC021"]


def test_unset_default_store_does_not_affect_a_named_store() -> None:
    source = {"default_store": "${LAKE}", **stores(a=DEV, b=DEV)}
    assert init(source).get_store("a").name == "a"
    assert [problem.code for problem in problems_of(source)] == ["LC030"]
    assert [problem.code for problem in validate(source)] == ["LC030"]


def test_unknown_store_hint_lists_the_known_stores() -> None:
    (problem,) = problems_of(stores(dev=DEV, prod=DEV), "prd")
    assert problem.code == "LC021"
    assert problem.hint == 'did you mean "prod"? known stores: dev, prod'


def test_stores_is_a_lazy_mapping(variables: None) -> None:
    config = init(stores(dev=DEV, broken={"allias": 1}, prod=PROD))
    assert list(config.stores) == ["dev", "broken", "prod"]
    assert len(config.stores) == 3
    assert "broken" in config.stores
    assert config.stores["prod"].alias == "lake"
    assert config.stores["dev"] is config.get_store("dev")
    with pytest.raises(KeyError):
        config.stores["nowhere"]
    with pytest.raises(ConfigError):
        config.stores["broken"]


def test_missing_variable_of_one_store_does_not_affect_another() -> None:
    config = init(stores(dev=DEV, prod=PROD))
    assert config.get_store("dev").name == "dev"
    assert [problem.key for problem in problems_of(stores(prod=PROD))] == [
        "stores.prod.metadata_backend.host",
        "stores.prod.metadata_backend.password",
    ]


def test_variable_set_after_init_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    config = init(stores(prod=PROD))
    with pytest.raises(ConfigError):
        config.get_store()
    monkeypatch.setenv("PGHOST", "h")
    monkeypatch.setenv("PGPASSWORD", "p")
    assert config.get_store().name == "prod"


def test_init_can_be_called_repeatedly(project: Path) -> None:
    one, two = init(), init()
    assert one is not two
    assert one.get_store().preview_sql() == two.get_store().preview_sql()
    assert one.path == project / "lakeconf.toml"


def test_init_does_not_change_its_argument(variables: None, monkeypatch: pytest.MonkeyPatch) -> None:
    source = stores(dev=DEV, prod=PROD, staging={"extends": "prod"})
    before = copy.deepcopy(source)
    monkeypatch.setenv("LAKECONF_STORES__PROD__ALIAS", "other")
    init(source).get_store("staging")
    assert source == before


def test_config_repr_shows_no_values() -> None:
    config = init(stores(prod={**PROD, "metadata_backend": {**PROD["metadata_backend"], "password": "hunter2"}}))
    assert "hunter2" not in f"{config!r} {config.stores!r} {config.reading('prod')!r}"


# Variables and secrets.


def test_values_of_variables(variables: None) -> None:
    backend = postgres(init(stores(prod=PROD)), "prod")
    assert (backend.host, backend.database) == ("db.example.com", "lake")
    assert backend.password == Secret("hunter2")
    assert backend.password is not None
    assert backend.password.variable == "PGPASSWORD"


@pytest.mark.parametrize(
    ("value", "portable"),
    [("${TOKEN}", True), ("${TOKEN:?m}", True), ("${TOKEN:-d}", False), ("x${TOKEN}", False), ("literal", False)],
)
def test_secret_is_portable_only_if_it_is_a_single_variable(
    value: str, portable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hunter2")
    storage = {"type": "s3", "bucket": "b", "secret_parameters": {"provider": "config", "api_token": value}}
    store = init(stores(prod={"metadata_backend": SQLITE, "storage_backend": storage})).get_store()
    if portable:
        assert any("API_TOKEN getenv('TOKEN')" in line for line in store.preview_sql(portable=True))
    else:
        with pytest.raises(LakeconfError, match=r"stores\.prod\.storage_backend.*api_token"):
            store.preview_sql(portable=True)


def test_pickled_store_contains_names_of_variables_only(variables: None, monkeypatch: pytest.MonkeyPatch) -> None:
    store = init(stores(prod=PROD)).get_store()
    pickled = pickle.dumps(store)
    assert b"hunter2" not in pickled
    monkeypatch.setenv("PGPASSWORD", "there")
    copied = pickle.loads(pickled)  # noqa: S301 - made above
    assert copied.preview_sql() == store.preview_sql()
    assert [secret.reveal() for secret in copied.secrets] == ["there"]


def test_store_with_a_literal_secret_cannot_be_pickled(variables: None) -> None:
    literal = {**PROD, "metadata_backend": {**PROD["metadata_backend"], "password": "hunter2"}}
    with pytest.raises(TypeError, match="VARIABLE"):
        pickle.dumps(init(stores(prod=literal)).get_store())


def test_dict_may_contain_secret_objects() -> None:
    metadata = {"type": "postgres", "host": "h", "database": "d", "user": "u", "password": Secret("hunter2")}
    backend = postgres(init(stores(prod={"metadata_backend": metadata, "storage_backend": LOCAL})), "prod")
    assert backend.password == Secret("hunter2")


@pytest.mark.parametrize(("port", "expected"), [("${PORT}", 5433), ("${UNSET:-5432}", 5432), (5434, 5434)])
def test_values_of_variables_are_converted_to_the_type_of_the_field(
    port: object, expected: int, variables: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORT", "5433")
    prod = {**PROD, "metadata_backend": {**PROD["metadata_backend"], "port": port}}
    assert postgres(init(stores(prod=prod)), "prod").port == expected


def test_strings_in_the_file_are_not_converted(variables: None) -> None:
    prod = {**PROD, "metadata_backend": {**PROD["metadata_backend"], "port": "5432"}}
    assert [problem.code for problem in problems_of(stores(prod=prod))] == ["LC012"]


def test_values_of_variables_in_attach_options_are_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERSION", "7")
    options = {"snapshot_version": "${VERSION}", "read_only": "${UNSET:-true}", "meta_x": "${VERSION}"}
    store = init(stores(dev={**DEV, "attach_options": options})).get_store()
    assert store.attach_options == {"snapshot_version": 7, "read_only": True, "meta_x": Secret("7")}


# Overrides.


def test_override_variables_replace_keys(variables: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKECONF_STORES__PROD__METADATA_BACKEND__HOST", "other")
    monkeypatch.setenv("LAKECONF_STORES__PROD__METADATA_BACKEND__PORT", "5433")
    monkeypatch.setenv("LAKECONF_STORES__PROD__STORAGE_BACKEND__USE_SSL", "false")
    monkeypatch.setenv("LAKECONF_STORES__PROD__STORAGE_BACKEND__SECRET_PARAMETERS__PROFILE", "ci")
    monkeypatch.setenv("LAKECONF_STORES__PROD__ATTACH_OPTIONS__READ_ONLY", "true")
    monkeypatch.setenv("LAKECONF_STORES__PROD__ALIAS", "mine")
    config = init(stores(prod=PROD))
    assert (postgres(config, "prod").host, postgres(config, "prod").port) == ("other", 5433)
    assert s3(config, "prod").use_ssl is False
    assert s3(config, "prod").secret_parameters == {"provider": "credential_chain", "profile": "ci"}
    assert config.get_store().alias == "mine"
    assert config.get_store().read_only is True


def test_overridden_variables_need_not_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKECONF_STORES__PROD__METADATA_BACKEND__HOST", "h")
    monkeypatch.setenv("LAKECONF_STORES__PROD__METADATA_BACKEND__PASSWORD", "hunter2")
    password = postgres(init(stores(prod=PROD)), "prod").password
    assert password is not None
    assert password.variable == "LAKECONF_STORES__PROD__METADATA_BACKEND__PASSWORD"


def test_override_values_are_not_expanded(variables: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKECONF_STORES__PROD__METADATA_BACKEND__USER", "${X} $$")
    assert postgres(init(stores(prod=PROD)), "prod").user == "${X} $$"


def test_override_of_a_parent_is_inherited(variables: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKECONF_STORES__PROD__METADATA_BACKEND__HOST", "other")
    assert postgres(init(stores(prod=PROD, staging={"extends": "prod"})), "staging").host == "other"


def test_override_matches_an_upper_case_key(variables: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKECONF_STORES__PROD__STORAGE_BACKEND__SECRET_PARAMETERS__KMS_KEY_ID", "b")
    parameters = {"provider": "credential_chain", "KMS_KEY_ID": "a"}
    prod = {**PROD, "storage_backend": {**PROD["storage_backend"], "secret_parameters": parameters}}
    assert s3(init(stores(prod=prod)), "prod").secret_parameters["KMS_KEY_ID"] == "b"


def test_the_default_store_can_be_overridden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKECONF_DEFAULT_STORE", "b")
    assert init({"default_store": "a", **stores(a=DEV, b=DEV)}).get_store().name == "b"


def test_unrelated_variables_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKECONF_HOME", "x")
    monkeypatch.setenv("OTHER_STORES__DEV__ALIAS", "x")
    assert init(stores(dev=DEV)).get_store().alias == "dev"


# Inheritance.


def test_child_replaces_only_the_keys_it_sets(variables: None) -> None:
    staging = {"extends": "prod", "metadata_backend": {"metadata_schema": "s"}, "storage_backend": {"prefix": "t"}}
    config = init(stores(prod=PROD, staging=staging))
    store = config.get_store("staging")
    assert store.alias == "lake"
    assert (postgres(config, "staging").host, postgres(config, "staging").metadata_schema) == ("db.example.com", "s")
    assert (s3(config, "staging").bucket, s3(config, "staging").prefix) == ("acme", "t")
    assert postgres(config, "prod").metadata_schema == "public"


def test_inheritance_over_several_levels(variables: None) -> None:
    config = init(
        stores(
            a={"extends": "b", "alias": "from_a"},
            b={"extends": "c", "alias": "from_b", "storage_backend": {"prefix": "from_b"}},
            c=PROD,
        )
    )
    assert config.get_store("a").alias == "from_a"
    assert s3(config, "a").prefix == "from_b"
    assert postgres(config, "a").user == "lake"


def test_backend_of_another_type_inherits_nothing(variables: None) -> None:
    dev = {"extends": "prod", "storage_backend": {"type": "local", "path": "/d"}}
    assert init(stores(prod=PROD, dev=dev)).get_store("dev").storage_backend is not None


def test_backend_of_the_same_type_inherits_the_other_keys(variables: None) -> None:
    dev = {"extends": "prod", "storage_backend": {"type": "s3", "prefix": "d"}}
    assert s3(init(stores(prod=PROD, dev=dev)), "dev").bucket == "acme"


def test_variable_replaced_by_the_child_need_not_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "p")
    staging = {"extends": "prod", "metadata_backend": {"secret_name": "own", "host": "h"}}
    assert postgres(init(stores(prod=PROD, staging=staging)), "staging").host == "h"


def test_problem_of_a_parent_is_reported_once(tmp_path: Path) -> None:
    prod = {**DEV, "allias": "x"}
    assert len(validate(stores(prod=prod, staging={"extends": "prod"}))) == 1


# Shared secrets.


def test_stores_with_equal_fields_can_share_a_secret(variables: None) -> None:
    assert validate(stores(prod=PROD, staging={"extends": "prod", "alias": "other"})) == []


def test_shared_secret_with_different_fields_is_refused(variables: None) -> None:
    staging = {"extends": "prod", "metadata_backend": {"host": "other"}}
    source = stores(prod=PROD, staging=staging)
    for name, other in [("prod", "staging"), ("staging", "prod")]:
        (problem,) = problems_of(source, name)
        assert problem.code == "LC055"
        assert other in problem.message


def test_store_can_refer_to_the_secret_of_another_store(variables: None) -> None:
    reader = {**PROD, "metadata_backend": {"type": "postgres", "secret_name": "prod_catalog"}}
    assert validate(stores(prod=PROD, reader=reader)) == []


def test_generated_secret_names_are_unique(variables: None) -> None:
    metadata = {key: value for key, value in PROD["metadata_backend"].items() if key != "secret_name"}
    storage = {key: value for key, value in PROD["storage_backend"].items() if key != "secret_name"}
    table = {"metadata_backend": metadata, "storage_backend": storage}
    names = ["a", "a_b", "metadata", "a_metadata", "a_storage", "lakeconf"]
    config = init(stores(**dict.fromkeys(names, table)))
    made = [s.name for name in names for s in config.get_store(name).statements if isinstance(s, CreateSecret)]
    assert len(set(made)) == len(made) == 3 * len(names)


# Origins of values.


def test_origin_of_each_value(variables: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKECONF_STORES__STAGING__METADATA_BACKEND__PORT", "5433")
    config = init(stores(prod=PROD, staging={"extends": "prod", "metadata_backend": {"user": "own"}}))
    origins = config.reading("staging").origins
    seen = {
        key: (origins["metadata_backend", key].kind, origins["metadata_backend", key].variable)
        for key in ("host", "database", "user", "port", "type")
    }
    assert seen == {
        "host": ("variable", "PGHOST"),
        "database": ("default", "PGDATABASE"),
        "user": ("literal", None),
        "port": ("override", "LAKECONF_STORES__STAGING__METADATA_BACKEND__PORT"),
        "type": ("literal", None),
    }
    assert origins["metadata_backend", "host"].place == ("stores", "prod", "metadata_backend", "host")
    assert origins["metadata_backend", "user"].place == ("stores", "staging", "metadata_backend", "user")


# Problems show no values.


@pytest.mark.parametrize("key", ["host", "database", "user", "password", "port", "secret_name", "nonsense"])
@pytest.mark.parametrize("value", ["hunter2", 7351947, ["hunter2"], {"a": "hunter2"}, "hunter2\0", "${hunter2", ""])
def test_problems_of_metadata_show_no_values(key: str, value: object) -> None:
    metadata = {**PROD["metadata_backend"], "host": "h", "password": "hunter2", key: value}
    source = stores(prod={**PROD, "metadata_backend": metadata})
    shown = repr(problems := validate(source))
    assert bool(problems) != (key in {"host", "database", "user", "password", "secret_name"} and value == "hunter2")
    if not problems and key == "password":
        assert "hunter2" not in repr(init(source).get_store("prod"))
    assert "hunter2" not in shown
    assert "7351947" not in shown


@pytest.mark.parametrize("key", ["key_id", "secret", "session_token", "bucket", "data_path", "endpoint", "nonsense"])
@pytest.mark.parametrize("value", ["hunter2://x", 7351947, ["hunter2"], {"a": "hunter2"}, "hunter2/hunter2"])
def test_problems_of_storage_show_no_values(key: str, value: object) -> None:
    storage = {"type": "s3", "bucket": "b", "key_id": "k", "secret": "hunter2", key: value}
    source = stores(prod={"metadata_backend": SQLITE, "storage_backend": storage})
    shown = repr(problems := validate(source))
    is_text = isinstance(value, str) and (key != "endpoint" or "://" not in value)
    assert bool(problems) != (is_text and key in {"key_id", "secret", "session_token", "endpoint"})
    if not problems and key != "endpoint":
        assert "hunter2" not in repr(init(source).get_store("prod"))
    assert "hunter2" not in shown
    assert "7351947" not in shown
