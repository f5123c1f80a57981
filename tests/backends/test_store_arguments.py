"""Arguments of `Store` that have wrong types are refused with the name of the argument, and without their value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from local_stores import store_of

from lakeconf.errors import LakeconfError
from lakeconf.secret import Secret
from lakeconf.store import Store, checked_secrets, checked_table

if TYPE_CHECKING:
    from pathlib import Path

PLANTED = "planted-in-an-argument"


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("name", None, "name is None, and not a text"),
        ("name", 5, "name is a value of the type int, and not a text"),
        ("name", "", "the name of the store is empty"),
        ("metadata_backend", None, "metadata_backend is None, and not a metadata backend"),
        ("metadata_backend", PLANTED, "metadata_backend is a value of the type str, and not a metadata backend"),
        ("storage_backend", PLANTED, "storage_backend is a value of the type str, and not a storage backend"),
        ("alias", 5, "alias is a value of the type int, and not a text"),
        ("attach_options", [PLANTED], "attach_options is a value of the type list, and not a dictionary"),
        ("attach_options", PLANTED, "attach_options is a value of the type str, and not a dictionary"),
        ("attach_options", {5: PLANTED}, "a key of attach_options is a value of the type int, and not a text"),
        ("maintenance", PLANTED, "maintenance is a value of the type str, and not a dictionary"),
        ("maintenance", {None: PLANTED}, "a key of maintenance is None, and not a text"),
        ("hidden", 5, "hidden is a value of the type int, and not a list of secrets"),
        ("hidden", None, "hidden is None, and not a list of secrets"),
        ("hidden", PLANTED, "an element of hidden is a value of the type str, and not a secret"),
        ("hidden", [Secret("x"), PLANTED], "an element of hidden is a value of the type str, and not a secret"),
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


def test_right_arguments_are_returned() -> None:
    assert checked_table(None, "maintenance", "{}") == {}
    assert checked_table({"deadline": "1h"}, "maintenance", "{}") == {"deadline": "1h"}
    secret = Secret("x")
    assert checked_secrets(one for one in [secret]) == (secret,)
