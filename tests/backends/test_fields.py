"""The types of fields that backends share, and the arguments of `Store`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from local_stores import store_of
from pydantic import BaseModel, ConfigDict, ValidationError

from lakeconf.backends.backend import SecretName, SecretParameters, Text
from lakeconf.backends.store_options import checked_committer
from lakeconf.errors import LakeconfError
from lakeconf.secret import FromVariable, Secret
from lakeconf.store import Store

if TYPE_CHECKING:
    from pathlib import Path


class Model(BaseModel):
    """A model with one field of each type, as strict as a backend."""

    model_config = ConfigDict(strict=True, extra="forbid")

    text: Text = "x"
    name: SecretName | None = None
    parameters: SecretParameters = {}


def parameters(given: object) -> dict[str, Any]:
    """The parameters of a model."""
    return dict(Model.model_validate({"parameters": given}).parameters)


def refusal(**fields: Any) -> str:
    with pytest.raises(ValidationError) as raised:
        Model(**fields)
    return raised.value.errors(include_url=False, include_input=False)[0]["msg"].removeprefix("Value error, ")


@pytest.mark.parametrize("text", ["a", " ", "it's", "🦆", "a\\b", "\u00a0"])
def test_text_is_kept(text: str) -> None:
    assert Model(text=text).text == text


@pytest.mark.parametrize("text", ["a\nb", "\t", "\x1b[31m", "\x00", "\u2028", "\u202e", "\x85"])
def test_text_with_control_characters_is_refused(text: str) -> None:
    assert refusal(text=text) == "must not contain control characters, such as line ends"


def test_empty_text_is_refused() -> None:
    assert refusal(text="") == "String should have at least 1 character"


@pytest.mark.parametrize("name", ["a", "_", "Lake_Secret1", "lakeconf"])
def test_name_of_a_secret_is_kept(name: str) -> None:
    assert Model(name=name).name == name


@pytest.mark.parametrize("name", ["", "1a", "a-b", "a b", 'a"b', "é", "a\n", "a.b"])
def test_name_of_a_secret_with_other_characters_is_refused(name: str) -> None:
    assert refusal(name=name) == "the name of a secret must contain only letters, digits and underscores"


@pytest.mark.parametrize("name", ["lakeconf_", "LAKECONF_dev"])
def test_names_of_the_secrets_that_lakeconf_creates_are_reserved(name: str) -> None:
    assert refusal(name=name) == "names that start with lakeconf_ are reserved for secrets that lakeconf creates"


@pytest.mark.parametrize("name", ["", "1a", "a-b", "a) --", "é", "a\n"])
def test_name_of_a_parameter_with_other_characters_is_refused(name: str) -> None:
    assert refusal(parameters={name: "x"}) == (
        "the name of an option must contain only letters, digits and underscores"
    )


@pytest.mark.parametrize("value", [True, 1, 1.5, "x", ["x", "y"], {"region": "x"}])
def test_value_of_a_listed_parameter_is_kept(value: object) -> None:
    assert parameters({"refresh_info": value}) == {"refresh_info": value}


@pytest.mark.parametrize("value", [None, "", [""], [1], {"a": 1}, {"a": {"b": "x"}}, {"a": ""}, "a\nb", b"x"])
def test_value_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        Model.model_validate({"parameters": {"region": value}})


@pytest.mark.parametrize("value", ["x", [("region", "eu")], ["region"]])
def test_parameters_are_a_table(value: object) -> None:
    with pytest.raises(ValidationError):
        Model.model_validate({"parameters": value})


def test_parameters_that_are_not_listed_are_secrets() -> None:
    assert parameters({"token": "x", "n": [FromVariable("y", "Y")]}) == {"token": Secret("x"), "n": [Secret("y")]}


def test_secret_objects_are_kept_at_every_depth() -> None:
    secret = Secret("x", variable="X")
    found = parameters({"region": secret, "m": {"k": secret}, "l": [secret]})
    assert found == {"region": secret, "m": {"k": secret}, "l": [secret]}
    assert found["region"] is secret


def test_secret_object_with_a_control_character_is_refused_like_a_text() -> None:
    with pytest.raises(ValidationError, match="control characters"):
        parameters({"region": Secret("a\nb")})


def test_unknown_committer_is_refused() -> None:
    with pytest.raises(LakeconfError, match=r"stores\.dev\.committer: must be one of auto, public, staged"):
        checked_committer("dev", "Staged")


PLANTED = "planted-in-an-argument"


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("name", None, "name is None, and not a string"),
        ("name", 5, "name is a value of the type int, and not a string"),
        ("name", "", "the name of the store is empty"),
        ("metadata_backend", None, "metadata_backend is None, and not a metadata backend"),
        ("metadata_backend", PLANTED, "metadata_backend is a value of the type str, and not a metadata backend"),
        ("storage_backend", PLANTED, "storage_backend is a value of the type str, and not a storage backend"),
        ("alias", 5, "alias is a value of the type int, and not a string"),
    ],
)
def test_wrong_argument_of_a_store_is_named(argument: str, value: Any, message: str, tmp_path: Path) -> None:
    store = store_of(tmp_path)
    given: dict[str, Any] = {
        "name": "dev", "metadata_backend": store.metadata_backend, "storage_backend": store.storage_backend
    }  # fmt: skip
    with pytest.raises(LakeconfError) as refused:
        Store(**{**given, argument: value})
    assert refused.value.message == message
    assert refused.value.hint is not None
    assert PLANTED not in str(refused.value)


def test_backends_in_the_wrong_order_are_refused(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    swapped: Any = (store.storage_backend, store.metadata_backend)
    with pytest.raises(LakeconfError, match="metadata_backend is a value of the type LocalStorage"):
        Store("dev", *swapped)
