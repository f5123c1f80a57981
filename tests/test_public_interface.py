"""The public interface is the recorded one, and `docs/api.md` states the stability of each part of it."""

from __future__ import annotations

import ast
import enum
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

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
    "lakeconf.cli.app": ("run",),
    "lakeconf.backends.backend": ("MetadataBackend", "StorageBackend", "StoreNames", "Text"),
    "lakeconf.backends.server": ("CatalogServer",),
    "lakeconf.sql": ("Rendering", "Statement", "Value"),
    "lakeconf.integrations.dagster": ("LakeIOManager", "LakeResource"),
    "lakeconf.integrations.dbt": ("Plugin",),
    "lakeconf.integrations.dlt": ("destination",),
    "lakeconf.integrations.exports": ("export",),
    "lakeconf.integrations.pytest": ("LocalLakes",),
    "lakeconf.integrations.sqlmesh": ("connection",),
}
PROVISIONAL = {"lakeconf.backends.backend", "lakeconf.backends.server", "lakeconf.sql"}
# What the page does not show of a class is internal.
SHOWN = {"lakeconf.Config": ("default_store", "get_store", "names", "path", "problems")}


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


def _documented(kind: type) -> list[str]:
    """The attributes that a docstring lists: those of an object are not in its class."""
    section = inspect.cleandoc(kind.__doc__ or "").partition("\nAttributes:\n")[2]
    return re.findall(r"^    (\w+):", section.partition("\n\n")[0], re.MULTILINE)


def _members(kind: type) -> Iterator[tuple[str, type, Any]]:
    """The public members: their names, the classes that define them, and what they are."""
    for name in sorted({*dir(kind), *_documented(kind)}):
        owner = next((base for base in kind.__mro__ if name in {*vars(base), *_documented(base)}), object)
        is_listed_there = issubclass(kind, BaseException) and owner is not kind
        if name.startswith("_") or is_listed_there or not owner.__module__.startswith("lakeconf"):
            continue
        value = inspect.getattr_static(kind, name, None)
        yield name, owner, getattr(value, "__func__", value)


def _described(name: str, value: object) -> list[str]:
    """A line for a function or a class, and for each public member of the class."""
    if inspect.isfunction(value):
        return [f"{name}{_signature(value)}"]
    if not inspect.isclass(value):
        return [f"{name} = {_assigned(*name.rsplit('.', 1))}"]
    bases = [base.__name__ for base in value.__bases__ if base is not object]
    shown = "" if issubclass(value, enum.Enum | BaseException) else _signature(value)
    members = [
        f"{name}.{member}{_signature(function) if inspect.isfunction(function) else ''}"
        for member, _, function in _members(value)
        if member in SHOWN.get(name, (member,))
    ]
    return [f"{name}{shown}" + (f": {', '.join(bases)}" if bases else ""), *members]


def _annotations(name: str, value: object) -> Iterator[tuple[str, object]]:
    """The annotations of the fields, and of what functions take and return, each with its module."""
    if inspect.isfunction(value):
        yield from ((value.__module__, annotation) for annotation in value.__annotations__.values())
    if not inspect.isclass(value) or issubclass(value, BaseException):
        return
    for member, owner, function in _members(value):
        called = getattr(function, "fget", None) or getattr(function, "func", None) or function
        if member in SHOWN.get(name, (member,)) and inspect.isfunction(called):
            yield from ((owner.__module__, annotation) for annotation in called.__annotations__.values())
    for owner in value.__mro__:
        if owner.__module__.startswith("lakeconf") and name not in SHOWN:
            fields = vars(owner).get("__annotations__", {}).items()
            yield from ((owner.__module__, annotation) for field, annotation in fields if field[0] != "_")


@functools.cache
def _tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(import_module(module)))


def _assigned(module: str, name: str) -> str:
    """What a name for a type is assigned; the representation of its value can have an address."""
    nodes = [node for node in ast.walk(_tree(module)) if isinstance(node, ast.Assign | ast.AnnAssign)]
    lines = [re.fullmatch(rf"{name}(?:: .+)? = (.+)", ast.unparse(node), re.DOTALL) for node in nodes]
    return next(line[1] for line in lines if line is not None)


@functools.cache
def _imports(module: str) -> dict[str, tuple[str, str]]:
    """The names that a module imports from others, also those that only type checkers see."""
    nodes = [node for node in ast.walk(_tree(module)) if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: (node.module or "", alias.name) for node in nodes for alias in node.names}


def _types_in(module: str, annotation: object) -> Iterator[str]:
    """The full names of the types of lakeconf in an annotation, where they are defined."""
    if isinstance(annotation, str):
        names = [node.id for node in ast.walk(ast.parse(annotation, mode="eval")) if isinstance(node, ast.Name)]
        yield from (home for home in (_home(module, name) for name in names) if home is not None)
    elif inspect.isclass(annotation) and annotation.__module__.startswith("lakeconf"):
        yield f"{annotation.__module__}.{annotation.__qualname__}"
    for part in get_args(annotation):
        yield from _types_in(module, part)


def _home(module: str, name: str) -> str | None:
    while name in _imports(module):
        module, name = _imports(module)[name]
        if not module.startswith("lakeconf"):
            return None
    value = vars(import_module(module)).get(name)
    is_type = value is not None and not inspect.ismodule(value) and not inspect.isfunction(value)
    return f"{module}.{name}" if is_type else None


@functools.cache
def types_of_methods() -> tuple[str, ...]:
    """The types of lakeconf that the stable names take and return, directly or in fields, without the stable names."""
    stable = {f"{module}.{name}" for module in MODULES if module not in PROVISIONAL for name in public_names(module)}
    public = {f"{module}.{name}" for module in MODULES for name in public_names(module)}
    homes = {f"{value.__module__}.{value.__qualname__}" for value in map(_value, public) if inspect.isclass(value)}
    seen: set[str] = set()
    todo = [*stable]
    while todo:
        name = todo.pop()
        for module, annotation in _annotations(name, _value(name)):
            new = {*_types_in(module, annotation)} - seen - homes
            seen |= new
            todo += new
    return tuple(sorted(seen))


def _value(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def interface() -> list[str]:
    """A line for each public function and class, for each public member of a class, and for the types of both."""
    lines = []
    for module in MODULES:
        for name in public_names(module):
            value = getattr(import_module(module), name)
            is_listed_there = module == "lakeconf" and value.__module__ == "lakeconf.errors"
            lines += [f"lakeconf.{name}"] if is_listed_there else _described(f"{module}.{name}", value)
    return [*lines, *(line for name in types_of_methods() for line in _described(name, _value(name)))]


def test_the_public_interface_is_the_recorded_one(check_golden: Callable[[Path, str], None]) -> None:
    check_golden(RECORD, "\n".join(interface()) + "\n")


def test_the_page_states_the_stability_of_each_public_name() -> None:
    rows = re.findall(r"^\| (.+?) \| (stable|provisional) \|", API, re.MULTILINE)
    stated = [name for names, _ in rows for name in re.findall(r"`([\w.]+)`", names)]
    stated += re.findall(r"^::: (.+)", API.partition("\n## Types of arguments and results\n")[2], re.MULTILINE)
    assert sorted(stated) == sorted(set(stated))
    wholes = {name for name in stated if name in MODULES}
    expected = {
        name if module == "lakeconf" else f"{module}.{name}"
        for module in MODULES
        if module not in wholes
        for name in public_names(module)
        if not (module == "lakeconf" and name.endswith("Error"))  # they are those of lakeconf.errors
    }
    assert set(stated) - wholes == expected | {name for name in types_of_methods() if inspect.isclass(_value(name))}


def _imported(code: str) -> Iterator[str]:
    """The modules and names of lakeconf that some code imports."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_what_pages_and_examples_import_and_name_is_public() -> None:
    design = {*(REPOSITORY / "docs" / "design").glob("*.md")}
    pages = {REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md"), *(REPOSITORY / "examples").rglob("*.md")}
    texts = [page.read_text() for page in pages - design]
    code = [block for text in texts for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]
    code += [path.read_text() for path in (REPOSITORY / "examples").rglob("*.py")]
    used = {name for part in code if "import" in part for name in _imported(part) if re.match(r"lakeconf\b", name)}
    named = {name for text in texts for name in re.findall(r"`(lakeconf(?:\.\w+){2,})(?:\(\))?`", text)}
    public = {f"{module}.{name}" for module in MODULES for name in public_names(module)}
    assert len(used) > 10
    assert len(named) > 5
    assert (used | named) - public - {*MODULES, *types_of_methods()} == set()
