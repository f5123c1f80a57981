"""The public interface is the recorded one, and `docs/api.md` states the stability of each part of it."""

from __future__ import annotations

import ast
import enum
import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from source_tree import REPOSITORY

RECORD = Path(__file__).with_name("public_interface.txt")
API = (REPOSITORY / "docs" / "api.md").read_text()
# Each module with its public names: those of `__all__`, or these.
MODULES: dict[str, tuple[str, ...]] = {
    "lakeconf": (),
    "lakeconf.pipelines": (),
    "lakeconf.errors": ("*",),
    "lakeconf.lake.maintenance": ("Maintenance",),
    "lakeconf.lake.run_journal": ("RunJournal",),
    "lakeconf.backends.backend": ("MetadataBackend", "StorageBackend"),
    "lakeconf.integrations.dagster": ("LakeIOManager", "LakeResource"),
    "lakeconf.integrations.dbt": ("Plugin",),
    "lakeconf.integrations.dlt": ("destination",),
    "lakeconf.integrations.exports": ("export",),
    "lakeconf.integrations.pytest": ("LocalLakes",),
    "lakeconf.integrations.sqlmesh": ("connection",),
}


def public_names(module: str) -> list[str]:
    loaded, names = import_module(module), MODULES[module]
    if names == ("*",):
        return sorted(name for name, value in vars(loaded).items() if _is_own_class(value, module))
    return sorted(names or loaded.__all__)


def _is_own_class(value: object, module: str) -> bool:
    return inspect.isclass(value) and value.__module__ == module and not value.__name__.startswith("_")


def _signature(call: Callable[..., Any]) -> str:
    """The parameters with their kinds and defaults, without types: mypy checks those."""
    parameters = inspect.signature(call).parameters.values()
    bare = [
        parameter.replace(
            annotation=inspect.Parameter.empty,
            # The representation of a function has its address.
            default=... if inspect.isfunction(parameter.default) else parameter.default,
        )
        for parameter in parameters
        if parameter.name not in ("self", "cls")
    ]
    return str(inspect.Signature(bare))


def _members(kind: type) -> Iterator[str]:
    for name in sorted(dir(kind)):
        owner = next((base for base in kind.__mro__ if name in vars(base)), object)
        is_listed_there = issubclass(kind, BaseException) and owner is not kind
        if name.startswith("_") or is_listed_there or not owner.__module__.startswith("lakeconf"):
            continue
        value = inspect.getattr_static(kind, name)
        function = getattr(value, "__func__", value)
        yield f"{name}{_signature(function) if inspect.isfunction(function) else ''}"


def interface() -> list[str]:
    """A line for each public function and class, and for each public member of a class."""
    lines = []
    for module in MODULES:
        for name in public_names(module):
            value = getattr(import_module(module), name)
            if module == "lakeconf" and value.__module__ == "lakeconf.errors":
                lines.append(f"lakeconf.{name}")
            elif inspect.isclass(value):
                bases = [base.__name__ for base in value.__bases__ if base is not object]
                shown = "" if issubclass(value, enum.Enum | BaseException) else _signature(value)
                lines.append(f"{module}.{name}{shown}" + (f": {', '.join(bases)}" if bases else ""))
                lines += [f"{module}.{name}.{member}" for member in _members(value)]
            else:
                lines.append(f"{module}.{name}{_signature(value)}")
    return lines


def test_the_public_interface_is_the_recorded_one(check_golden: Callable[[Path, str], None]) -> None:
    check_golden(RECORD, "\n".join(interface()) + "\n")


def test_the_page_states_the_stability_of_each_public_name() -> None:
    rows = re.findall(r"^\| (.+?) \| (stable|provisional) \|", API, re.MULTILINE)
    stated = [name for names, _ in rows for name in re.findall(r"`([\w.]+)`", names)]
    assert sorted(stated) == sorted(set(stated))
    wholes = {name for name in stated if name in MODULES}
    expected = {
        name if module == "lakeconf" else f"{module}.{name}"
        for module in MODULES
        if module not in wholes
        for name in public_names(module)
        if not (module == "lakeconf" and name.endswith("Error"))  # they are those of lakeconf.errors
    }
    assert set(stated) - wholes == expected


def test_what_the_documentation_imports_is_public() -> None:
    pages = [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")]
    blocks = [block for page in pages for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)]
    imported = {
        (node.module, alias.name)
        for block in blocks
        if "from lakeconf" in block
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("lakeconf")
        for alias in node.names
    }
    assert len(imported) > 10
    assert {(module, name) for module, name in imported if name not in public_names(module)} == set()
