"""pytest: the fixture `lake` provides the project's stores on SQLite and temporary folders."""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from lakeconf.config.config import Config
    from lakeconf.lake.lake import Lake


class LocalLakes:
    """The stores of a project, with their names and aliases, on SQLite and temporary folders of one test.

    Args:
        config: The configuration of the test.
        stack: Closes the lakes when the test ends.

    Attributes:
        config: The configuration of the test.
    """

    def __init__(self, config: Config, stack: contextlib.ExitStack) -> None:
        self.config = config
        self._stack = stack

    def __call__(self, store: str | None = None, engine: Any = None) -> Lake:
        """Opens the lake of a store; it is closed when the test ends.

        Args:
            store: The store's name; default: the default store.
            engine: As for `Store.open`.
        """
        return self._stack.enter_context(self.config.get_store(store).open(engine))


@pytest.fixture
def lake(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalLakes]:
    """Opens lakes for a test: `lake("prod")` is an empty lake that uses neither the server nor the bucket of `prod`.

    Code under test gets the same lakes from `lakeconf.init()`. The variables of the configuration need not be set.
    """
    folder = tmp_path_factory.mktemp("lakes")
    path = folder / "lakeconf.toml"
    # Every pytest run loads this module: import the slow configuration models only if the fixture is used.
    model = importlib.import_module("lakeconf.config.config")
    path.write_text("\n".join(_lines(model.init(), folder)))
    monkeypatch.setenv("LAKECONF_CONFIG", str(path))
    with contextlib.ExitStack() as stack:
        yield LocalLakes(model.init(), stack)


def _lines(config: Config, folder: Path) -> Iterator[str]:
    stores = config.outline()
    yield from (f"default_store = {json.dumps(store.name)}" for store in stores if store.is_default)
    for name, alias in ((store.name, store.alias) for store in stores):
        yield f"[stores.{name}]"
        yield f"alias = {json.dumps(alias)}"
        yield f'metadata_backend = {{ type = "sqlite", uri = {json.dumps(str(folder / f"{name}.sqlite"))} }}'
        yield f'storage_backend = {{ type = "local", path = {json.dumps(str(folder / name))} }}'
