"""How many cases and examples the tests run: some in `make test-all`, all and many in `make prove`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

PROVE = bool(os.environ.get("LAKECONF_PROVE"))


def in_prove(values: Iterable[Any]) -> list[Any]:
    """Values of a parameter, or tuples for several, whose cases only `make prove` runs."""
    each = (value if isinstance(value, tuple) else (value,) for value in values)
    return [pytest.param(*parts, marks=pytest.mark.prove) for parts in each]
