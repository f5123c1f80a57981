"""A mapping of store names to stores that reads each store on access."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from lakeconf.store import Store


class LazyStores(Mapping[str, Store]):
    """The stores of a configuration by name; a store is read on access.

    Args:
        names: The names of the stores.
        get: Reads a store.
    """

    def __init__(self, names: Sequence[str], get: Callable[[str], Store]) -> None:
        self._names = names
        self._get = get

    def __getitem__(self, name: str) -> Store:
        if name not in self:
            raise KeyError(name)
        return self._get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<stores: {', '.join(self)}>"
