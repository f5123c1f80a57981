"""The mapping of stores reads a store on access only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from local_stores import store_of

from lakeconf.config.config import LazyStores

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf.store import Store


class Reader:
    """Returns a store and remembers which names were read."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.read: list[str] = []

    def __call__(self, name: str) -> Store:
        self.read.append(name)
        return self.store


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(store_of(tmp_path))


def test_names_are_known_without_reading_a_store(reader: Reader) -> None:
    stores = LazyStores(("b", "a"), reader)
    assert list(stores) == list(stores.keys()) == ["b", "a"]
    assert len(stores) == 2
    assert "a" in stores
    assert "c" not in stores
    assert repr(stores) == "<stores: b, a>"
    assert repr(LazyStores((), reader)) == "<stores: >"
    assert reader.read == []


def test_store_is_read_on_access(reader: Reader) -> None:
    stores = LazyStores(("b", "a"), reader)
    assert stores["a"] is reader.store
    assert stores.get("b") is reader.store
    assert reader.read == ["a", "b"]
    assert dict(stores) == {"b": reader.store, "a": reader.store}


def test_unknown_name_is_a_key_error_and_reads_nothing(reader: Reader) -> None:
    stores = LazyStores(("a",), reader)
    with pytest.raises(KeyError, match="'A'"):
        stores["A"]
    assert stores.get("c") is None
    assert reader.read == []
