"""What editors and notebooks propose after the name of an object and a point."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import ClassVar


class PublicNames:
    """A base class for objects that users explore: `dir()` leaves out attributes that begin with an underscore.

    Attributes:
        _not_proposed: Other attributes that `dir()` leaves out, because only lakeconf itself needs them.
    """

    _not_proposed: ClassVar[Collection[str]] = ()

    def __dir__(self) -> Iterable[str]:
        names = super().__dir__()
        public = (name for name in names if not name.startswith("_") or name.endswith("__"))
        return [name for name in public if name not in self._not_proposed]
