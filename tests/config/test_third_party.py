"""Third-party backends are found through entry points, checked like built-in ones, and leak no secrets."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, field_validator

from lakeconf.backends import registry
from lakeconf.backends.backend import MetadataBackend, StorageBackend, StoreNames, Text
from lakeconf.config.config import init, validate
from lakeconf.errors import Problem
from lakeconf.secret import Secret
from lakeconf.sql import Value


class ShelfMetadata(MetadataBackend):
    """A catalog on a shelf."""

    type: Literal["shelf"] = "shelf"
    board: Annotated[Text, Field(description="The board.")]
    height: Annotated[int | None, Field(description="Centimetres.", ge=0)] = None
    pin: Annotated[Secret | None, Field(description="Opens the shelf.")] = None

    @property
    def extensions(self) -> tuple[str, ...]:
        return ()

    def ducklake_options(self, _names: StoreNames) -> Mapping[str, Value]:
        return {"metadata_path": f"duckdb:{self.board}"}


class LeakyStorage(StorageBackend):
    """A backend that puts values into its error messages."""

    type: Literal["leaky"] = "leaky"
    token: Annotated[str, Field(description="A token, kept as plain text.")]

    @field_validator("token")
    @classmethod
    def _is_long(cls, token: str) -> str:
        raise ValueError(f"the token {token!r} is too short")

    @property
    def extensions(self) -> tuple[str, ...]:
        return ()

    @property
    def location(self) -> str:
        return "/leaky/"


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Registers entry points as an installed package would. The module `third_party` contains the two classes."""
    module = ModuleType("third_party")
    module.__dict__.update(ShelfMetadata=ShelfMetadata, LeakyStorage=LeakyStorage)
    monkeypatch.setitem(sys.modules, "third_party", module)

    def add(**targets: str) -> None:
        points = tuple(
            EntryPoint(name, target, f"lakeconf.{target.rpartition('.')[2]}") for name, target in targets.items()
        )
        found = {
            group: tuple(EntryPoint(p.name, p.value, group) for p in points)
            for group in ("lakeconf.metadata_backends", "lakeconf.storage_backends")
        }
        monkeypatch.setattr(registry, "_entry_points", found.__getitem__)

    return add


def problems(**store: Any) -> list[Problem]:
    return validate({"stores": {"dev": store}})


LOCAL = {"type": "local", "path": "/data"}
SQLITE = {"type": "sqlite", "uri": "/c"}


def test_third_party_backend_is_used(install: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    install(shelf="third_party:ShelfMetadata")
    monkeypatch.setenv("HEIGHT", "40")
    table = {"type": "shelf", "board": "top", "height": "${HEIGHT}"}
    store = init({"stores": {"dev": {"metadata_backend": table, "storage_backend": LOCAL}}}).get_store()
    assert isinstance(store.metadata_backend, ShelfMetadata)
    assert store.metadata_backend.height == 40
    assert "METADATA_PATH 'duckdb:top'" in "".join(store.preview_sql())


def test_unknown_and_invalid_keys_are_refused(install: Callable[..., None]) -> None:
    install(shelf="third_party:ShelfMetadata")
    found = problems(metadata_backend={"type": "shelf", "bord": "top", "height": -1}, storage_backend=LOCAL)
    assert {(problem.code, problem.key) for problem in found} == {
        ("LC010", "stores.dev.metadata_backend.bord"),
        ("LC013", "stores.dev.metadata_backend.height"),
    }


def test_error_of_a_third_party_backend_shows_no_secret(install: Callable[..., None]) -> None:
    install(leaky="third_party:LeakyStorage")
    (problem,) = problems(metadata_backend=SQLITE, storage_backend={"type": "leaky", "token": "hunter2"})
    assert problem.message == "the token '***' is too short"
