"""Variables: references in values, and overrides of keys."""

from __future__ import annotations

from typing import Any

import pytest
from config_source import source_of, summary
from prod_store import DEV, PROD, postgres, s3, stores

from lakeconf.config.config import init
from lakeconf.config.environment import expand, overridden, overrides
from lakeconf.secret import FromVariable

FORM = "use LAKECONF_STORES__<store>__<key>, with two underscores between keys"
TEXT = """
default_store = "dev"
[stores.dev]
alias = "a"
Mixed_Case = 1
attach_options = { read_only = true }
[stores.prod]
extends = "dev"
"""


def changed(**variables: str) -> dict[str, Any]:
    """The stores after the overrides, each of which must be accepted."""
    data, problems = overridden(source_of(TEXT), {f"LAKECONF_{name}": value for name, value in variables.items()})
    assert problems == []
    return dict(data["stores"])


def test_only_variables_with_the_prefix_and_two_underscores_override() -> None:
    environment = dict.fromkeys(
        [
            *("LAKECONF_STORES__B__X", "LAKECONF_DEFAULT_STORE", "LAKECONF_STORES__A__X", "LAKECONF_A__B"),
            *("LAKECONF_CONFIG", "LAKECONF_HOME", "LAKECONF_", "STORES__A__X", "lakeconf_STORES__A__X", "X__LAKECONF_"),
        ],
        "value",
    )
    assert overrides(environment) == (
        "LAKECONF_A__B",
        "LAKECONF_DEFAULT_STORE",
        "LAKECONF_STORES__A__X",
        "LAKECONF_STORES__B__X",
    )
    assert overrides({}) == ()


def test_without_variables_the_file_is_unchanged() -> None:
    source = source_of(TEXT)
    data, problems = overridden(source, {"LAKECONF_CONFIG": "x", "OTHER__KEY": "y"})
    assert data is source.data
    assert problems == []


def test_value_knows_its_variable_and_other_keys_are_kept() -> None:
    found = changed(STORES__DEV__ALIAS="b")
    assert found == {
        "dev": {"alias": "b", "Mixed_Case": 1, "attach_options": {"read_only": True}},
        "prod": {"extends": "dev"},
    }
    alias = found["dev"]["alias"]
    assert isinstance(alias, FromVariable)
    assert alias.variable == "LAKECONF_STORES__DEV__ALIAS"


def test_missing_keys_and_tables_are_added_in_lower_case() -> None:
    found = changed(
        STORES__PROD__STORAGE_BACKEND__SECRET_PARAMETERS__PROFILE="ci", STORES__PROD__STORAGE_BACKEND__TYPE="s3"
    )
    assert found["prod"] == {
        "extends": "dev",
        "storage_backend": {"secret_parameters": {"profile": "ci"}, "type": "s3"},
    }


def test_key_of_the_file_is_matched_without_case() -> None:
    assert changed(STORES__DEV__MIXED_CASE="2")["dev"]["Mixed_Case"] == "2"
    assert changed(stores__Dev__ALIAS="b")["dev"]["alias"] == "b"


def test_file_is_not_changed() -> None:
    source = source_of(TEXT)
    overridden(source, {"LAKECONF_STORES__DEV__ATTACH_OPTIONS__READ_ONLY": "false"})
    assert source.data == source_of(TEXT).data


def test_default_store_is_overridden_with_its_variable() -> None:
    data, problems = overridden(source_of(TEXT), {"LAKECONF_DEFAULT_STORE": "prod"})
    assert (data["default_store"], data["default_store"].variable, problems) == ("prod", "LAKECONF_DEFAULT_STORE", [])


@pytest.mark.parametrize(
    ("variable", "message", "hint"),
    [
        ("LAKECONF_STORES__DEV", "does not override a key", FORM),
        ("LAKECONF_STORES__", "does not override a key", FORM),
        ("LAKECONF_STORES__DEV__", "does not override a key", FORM),
        ("LAKECONF_STORES____ALIAS", "does not override a key", FORM),
        ("LAKECONF_STORE__DEV__ALIAS", "does not override a key", FORM),
        ("LAKECONF_PIPELINE__PYTHON__X", "does not override a key", FORM),
        ("LAKECONF_STORES__DEB__ALIAS", "overrides a key of the unknown store 'deb'", 'did you mean "dev"?'),
        ("LAKECONF_STORES__X__ALIAS", "overrides a key of the unknown store 'x'", "use one of the stores: dev, prod"),
        (
            "LAKECONF_STORES__DEV__ALIAS__X",
            "overrides a key below stores.dev.alias, which is not a table",
            "override a single key",
        ),
        (
            "LAKECONF_STORES__DEV__ATTACH_OPTIONS",
            "overrides stores.dev.attach_options, which is a table",
            "override a single key",
        ),
    ],
)
def test_variable_that_overrides_no_single_key_is_reported(variable: str, message: str, hint: str) -> None:
    data, (problem,) = overridden(source_of(TEXT), {variable: "planted"})
    assert summary(problem) == ("LC032", f"the variable {variable} {message}", hint, None, None)
    assert data == source_of(TEXT).data


@pytest.mark.parametrize("text", ["", "stores = 1", "stores = []"])
def test_file_without_stores_has_none_to_override(text: str) -> None:
    _, (problem,) = overridden(source_of(text), {"LAKECONF_STORES__DEV__ALIAS": "x"})
    assert problem.hint == "declare the store in the file"


def test_valid_variables_count_beside_invalid_ones() -> None:
    environment = {"LAKECONF_STORES__DEV__ALIAS": "b", "LAKECONF_STORES__NO__ALIAS": "c", "LAKECONF_A__B": "d"}
    data, problems = overridden(source_of(TEXT), environment)
    assert data["stores"]["dev"]["alias"] == "b"
    assert [problem.message.split()[2] for problem in problems] == ["LAKECONF_A__B", "LAKECONF_STORES__NO__ALIAS"]


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


ENVIRONMENT = {"X": "one", "EMPTY": "", "_y2": "two"}


@pytest.mark.parametrize(
    ("text", "expected", "kind"),
    [
        ("plain", "plain", "literal"),
        ("", "", "literal"),
        ("${X}", "one", "variable"),
        ("${_y2}", "two", "variable"),
        ("${X:?needed}", "one", "variable"),
        ("${X:-other}", "one", "variable"),
        ("${UNSET:-other}", "other", "default"),
        ("${UNSET:-}", "", "default"),
        ("${UNSET:-a:-b c/d}", "a:-b c/d", "default"),
        ("${EMPTY:-other}", "other", "default"),
        ("${EMPTY}", "", "variable"),
        ("a-${X}/b", "a-one/b", "mixed"),
        ("${X}${_y2}", "onetwo", "mixed"),
        ("$$", "$", "literal"),
        ("$${X}", "${X}", "literal"),
        ("$$${X}", "$one", "mixed"),
        ("pa$word", "pa$word", "literal"),
        ("$X", "$X", "literal"),
        ("ends with $", "ends with $", "literal"),
    ],
)
def test_expanded_text_and_kind(text: str, expected: str, kind: str) -> None:
    expansion = expand(text, ENVIRONMENT)
    assert (expansion.text, expansion.kind, expansion.faults) == (expected, kind, ())


@pytest.mark.parametrize("text", ["${X}", "${X:?needed}"])
def test_single_variable_keeps_its_name(text: str) -> None:
    value = expand(text, ENVIRONMENT).text
    assert isinstance(value, FromVariable)
    assert value.variable == "X"


@pytest.mark.parametrize("text", ["${X:-other}", "${UNSET:-other}", "${X} ", "a${X}", "${X}${X}", "plain"])
def test_other_texts_keep_no_variable_name(text: str) -> None:
    assert not isinstance(expand(text, ENVIRONMENT).text, FromVariable)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${UNSET}", "the variable UNSET is not set"),
        ("${UNSET:?ask us}", "the variable UNSET is not set: ask us"),
        ("${UNSET:?}", "the variable UNSET is not set"),
        ("${EMPTY:?ask us}", "the variable EMPTY is empty: ask us"),
    ],
)
def test_unset_variable(text: str, message: str) -> None:
    (fault,) = expand(text, ENVIRONMENT).faults
    assert (fault.code.code, fault.message) == ("LC030", message)


@pytest.mark.parametrize("text", ["${", "a${}", "${1X}", "${X", "${X-d}", "${X:d}", "${my-x}", "${A:-${B}}", "${é}"])
def test_malformed_variable(text: str) -> None:
    (fault,) = expand(text, ENVIRONMENT).faults
    assert fault.code.code == "LC031"
    assert f"at character {text.index('$') + 1}" in fault.message


def test_every_unset_variable_is_reported() -> None:
    assert [fault.message for fault in expand("${A}-${B}", {}).faults] == [
        "the variable A is not set",
        "the variable B is not set",
    ]


def test_repr_shows_no_value() -> None:
    assert "one" not in repr(expand("${X}", ENVIRONMENT))
