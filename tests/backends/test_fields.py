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


CONTROL = "must not contain control characters, such as line ends"
OF_A_SECRET = "the name of a secret must contain only letters, digits and underscores"
RESERVED = "names that start with lakeconf_ are reserved for secrets that lakeconf creates"
OF_AN_OPTION = "the name of an option must contain only letters, digits and underscores"
REFUSED: list[tuple[dict[str, Any], str]] = [
    *(({"text": text}, CONTROL) for text in ("a\nb", "\t", "\x1b[31m", "\x00", "\u2028", "\u202e", "\x85")),
    ({"text": ""}, "String should have at least 1 character"),
    *(({"name": name}, OF_A_SECRET) for name in ("", "1a", "a-b", "a b", 'a"b', "é", "a\n", "a.b")),
    *(({"name": name}, RESERVED) for name in ("lakeconf_", "LAKECONF_dev")),
    *(({"parameters": {name: "x"}}, OF_AN_OPTION) for name in ("", "1a", "a-b", "a) --", "é", "a\n")),
]


@pytest.mark.parametrize(("fields", "message"), REFUSED)
def test_value_of_a_field_is_refused(fields: dict[str, Any], message: str) -> None:
    assert refusal(**fields) == message


def test_other_values_are_kept() -> None:
    for text in ("a", " ", "it's", "🦆", "a\\b", "\u00a0"):
        assert Model(text=text).text == text
    for name in ("a", "_", "Lake_Secret1", "lakeconf"):
        assert Model(name=name).name == name
    for value in (True, 1, 1.5, "x", ["x", "y"], {"region": "x"}):
        assert parameters({"refresh_info": value}) == {"refresh_info": value}


def test_value_of_another_type_is_refused() -> None:
    values = [None, "", [""], [1], {"a": 1}, {"a": {"b": "x"}}, {"a": ""}, "a\nb", b"x"]
    for parameters in (*({"region": value} for value in values), "x", [("region", "eu")], ["region"]):
        with pytest.raises(ValidationError):
            Model.model_validate({"parameters": parameters})


def test_parameters_that_are_not_listed_are_secrets_and_secret_objects_are_kept_at_every_depth() -> None:
    assert parameters({"token": "x", "n": [FromVariable("y", "Y")]}) == {"token": Secret("x"), "n": [Secret("y")]}
    secret = Secret("x", variable="X")
    found = parameters({"region": secret, "m": {"k": secret}, "l": [secret]})
    assert found == {"region": secret, "m": {"k": secret}, "l": [secret]}
    assert found["region"] is secret
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
    given: Any = {"metadata_backend": store.metadata_backend, "storage_backend": store.storage_backend}
    with pytest.raises(LakeconfError) as refused:
        Store(**{"name": "dev", **given, argument: value})
    assert refused.value.message == message
    assert refused.value.hint is not None
    assert PLANTED not in str(refused.value)
    swapped: Any = (store.storage_backend, store.metadata_backend)
    with pytest.raises(LakeconfError, match="metadata_backend is a value of the type LocalStorage"):
        Store("dev", *swapped)
