"""The contracts of backends: their defaults, the names of a store's secrets, and the statements of a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError

from lakeconf.backends.backend import MetadataBackend, SecretParameters, StorageBackend, StoreNames, Text
from lakeconf.backends.metadata.file_catalogs import SQLiteMetadata
from lakeconf.secret import Secret
from lakeconf.sql import Attach, CreateSecret, Value

NAMES = StoreNames("dev", "lake")


class LeastCatalog(MetadataBackend):
    """A catalog with nothing but what the contract requires."""

    type: Literal["catalog"] = "catalog"
    place: Annotated[Text, Field(description="Where it is.")]
    path: Annotated[Text | None, Field(description="A path.")] = None
    keys: Annotated[list[Any] | None, Field(description="Anything.")] = None
    secret_parameters: SecretParameters = {}  # noqa: RUF012 - a field of the model

    @classmethod
    def path_fields(cls) -> tuple[str, ...]:
        return ("path",)

    @property
    def extensions(self) -> tuple[str, ...]:
        return ()

    def ducklake_options(self, names: StoreNames) -> Mapping[str, Value]:
        return {"metadata_path": f"{self.place}/{names.store}"}


class Folder(StorageBackend):
    """A storage with nothing but what the contract requires."""

    type: Literal["folder"] = "folder"

    @property
    def extensions(self) -> tuple[str, ...]:
        return ()

    @property
    def location(self) -> str:
        return "az://container/folder/"


def refusal(**fields: Any) -> str:
    with pytest.raises(ValidationError) as raised:
        LeastCatalog(place="p", **fields)
    (error,) = raised.value.errors(include_url=False, include_input=False)
    return error["msg"].removeprefix("Value error, ")


@pytest.mark.parametrize("field", [{"plase": "x"}, {"place": 1}, {"place": b"x"}])
def test_unknown_keys_and_values_of_another_type_are_refused(field: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as raised:
        LeastCatalog.model_validate({"place": "p", **field})
    assert "input_value" not in str(raised.value)


def test_parameter_that_is_a_field_or_given_twice_is_refused() -> None:
    for key in ("place", "PLACE", "Secret_Parameters", "type"):
        message = f"{key.lower()} is a key of the backend: move it out of secret_parameters"
        assert refusal(secret_parameters={key: "x"}) == message
    assert refusal(secret_parameters={"a_b": "x", "A_B": "y"}) == "secret_parameters contain a_b twice"


@pytest.mark.parametrize(
    "fields",
    [
        {"place": "db://u:planted@h"},
        {"keys": ["x", ("db://u:planted@h",)]},
        {"keys": [{"a": {"b": "db://u:planted@h"}}]},
        {"secret_parameters": {"refresh_info": {"region": "db://u:planted@h"}}},
    ],
)
def test_credentials_in_a_shown_value_are_refused_at_every_depth(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="contains a user or a password: use separate keys for them") as raised:
        LeastCatalog.model_validate({"place": "p", **fields})
    assert "planted" not in str(raised.value)
    assert next(iter(fields)) in str(raised.value)


def test_paths_numbers_and_secrets_may_look_like_credentials_and_secrets_are_found_at_every_depth() -> None:
    backend = LeastCatalog(place="p", path="/a://b@c", keys=[1, None, Secret("x://u@h")])
    assert backend.path == "/a://b@c"
    one, other, third = Secret("1"), Secret("2"), Secret("3")
    backend = LeastCatalog(place="p", keys=[one, "x", {"a": {"b": other}}, (third,), 1])
    assert backend.secrets_held() == (one, other, third)


# The statements of a catalog.


def attached(
    backend: MetadataBackend, storage: StorageBackend | None = None, **options: Value
) -> tuple[dict[str, Value], dict[str, Value]]:
    """The options of the DuckLake secret and of ATTACH."""
    *_, secret, attach = backend.statements(NAMES, storage, options)
    assert isinstance(secret, CreateSecret)
    assert isinstance(attach, Attach)
    assert (secret.name, secret.type) == ("lakeconf_dev", "ducklake")
    assert (attach.path, attach.alias, attach.key) == ("ducklake:lakeconf_dev", "lake", "stores.dev.attach_options")
    return dict(secret.options), dict(attach.options)


def test_small_writes_are_files_unless_the_option_says_otherwise() -> None:
    assert attached(LeastCatalog(place="p")) == ({"metadata_path": "p/dev"}, {"data_inlining_row_limit": 0})
    assert attached(LeastCatalog(place="p"), data_inlining_row_limit=9)[1] == {"data_inlining_row_limit": 9}
    given: dict[str, Value] = {"data_inlining_row_limit": 5, "meta_busy_timeout": 1, "meta_journal_mode": "DELETE"}
    assert attached(SQLiteMetadata(uri="/c"), Folder(), **given)[1] == given


def test_data_path_is_in_the_secret_with_the_encryption() -> None:
    secret, attach = attached(LeastCatalog(place="p"), Folder(), encrypted=True, read_only=True)
    assert secret == {"metadata_path": "p/dev", "data_path": "az://container/folder/", "encrypted": True}
    assert attach == {"data_inlining_row_limit": 0, "read_only": True}


@pytest.mark.parametrize(
    ("options", "writes"),
    [({}, True), ({"read_only": False}, True), ({"read_only": True}, False), ({"snapshot_version": 1}, False)],
)
def test_defaults_for_writing_are_omitted_by_a_reader(options: dict[str, Value], *, writes: bool) -> None:
    _, attach = attached(SQLiteMetadata(uri="/c"), Folder(), **options)
    assert ("meta_journal_mode" in attach) == writes
    assert attach["meta_busy_timeout"] == 30_000
