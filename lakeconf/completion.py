"""What editors and notebooks propose after the name of an object and a point."""

from __future__ import annotations

from collections.abc import Iterable


class PublicNames:
    """A base class for objects that users explore: `dir()` leaves out attributes that begin with an underscore."""

    def __dir__(self) -> Iterable[str]:
        names = super().__dir__()
        return [name for name in names if not name.startswith("_") or name.endswith("__")]
