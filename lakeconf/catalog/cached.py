"""A property that is computed once for each object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property

    cached = cached_property
else:

    class cached:  # noqa: N801 - a decorator
        """Like `functools.cached_property` of Python 3.12.

        In Python 3.11, that class computes values under one lock for all objects. A catalog server that does not reply
        would block the other lakes of the process. Here, two threads may compute a value twice.
        """

        def __init__(self, function: Any) -> None:
            self._function, self.__doc__ = function, function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            # Not setattr: the class may be a frozen dataclass. From now on, Python finds the value without this method.
            return instance.__dict__.setdefault(self._name, self._function(instance))
