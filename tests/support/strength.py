"""How many examples the tests run: some in `make test`, many in `make prove`."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

PROVE = bool(os.environ.get("LAKECONF_PROVE"))

T = TypeVar("T")


def some(cases: Iterable[T], count: int) -> list[T]:
    """Cases that are alike: all in `make prove`, else `count` of them, spread over all."""
    every = list(cases)
    return every if PROVE else [every[number * len(every) // count] for number in range(min(count, len(every)))]


def mixed(*lists: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Combinations of values: all in `make prove`, else one for each combination of all lists but the shortest."""
    values = [list(each) for each in lists]
    shortest = min(map(len, values))
    numbers = itertools.product(*(range(len(each)) for each in values))
    chosen = [combination for combination in numbers if PROVE or sum(combination) % shortest == 0]
    return [tuple(each[number] for each, number in zip(values, one, strict=True)) for one in chosen]
