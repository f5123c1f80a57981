"""Modules that are imported when they are first used: a command that only reads a lake loads no code that writes.

Type checkers see a normal import:

    if TYPE_CHECKING:
        from lakeconf.write import writes
    else:
        writes = deferred("lakeconf.write.writes")
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _Deferred:
    """Stands for a module, or for a class or function of one that is called."""

    __slots__ = ("_attribute", "_module")

    def __init__(self, module: str, attribute: str | None) -> None:
        self._module = module
        self._attribute = attribute

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found(), name)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._found()(*arguments, **options)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self._found())

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy has no attributes at first, so looking for its methods would look for the module, and so on.
        return deferred, (self._module, self._attribute)

    def _found(self) -> Any:
        module = import_module(self._module)
        return module if self._attribute is None else getattr(module, self._attribute)


def deferred(module: str, attribute: str | None = None) -> Any:
    """Returns what stands for a module, or for something in it, and imports the module when it is used."""
    return _Deferred(module, attribute)
