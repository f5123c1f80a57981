"""Helpers for the tests of the source code: the modules of lakeconf and their imports."""

from __future__ import annotations

import ast
import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

REPOSITORY = Path(__file__).parent.parent.parent
PACKAGE = REPOSITORY / "lakeconf"


@dataclass(frozen=True)
class Import:
    """An imported module, and the location of the import."""

    importer: str  # the dotted name of the module that imports
    imported: str  # the dotted name of the module that is imported
    line: int  # the line of the statement
    late: bool  # True inside a function
    typing: bool  # True where only type checkers see it


def project_file() -> dict[str, Any]:
    """The table `[project]` of pyproject.toml."""
    project: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    return project


def sources() -> dict[str, Path]:
    """The dotted name of each module of lakeconf, and its file."""
    return {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def module_name(path: Path) -> str:
    """The dotted name of the module in this file."""
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def all_imports() -> list[Import]:
    """Every import in lakeconf, those for type checkers and those inside functions included."""
    modules = sources()
    return [found for name, path in modules.items() for found in imports_of(name, path.read_text(), set(modules))]


def imports_of(name: str, source: str, modules: set[str]) -> list[Import]:
    """The imports in a module; `modules` distinguishes `from package import module` from `from module import name`."""
    tree = ast.parse(source)
    late = within(tree, lambda node: isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    typing = within(tree, lambda node: isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    found: list[Import] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}:{node.lineno} imports relatively"
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            known = modules | {"lakeconf.__version__"}
            targets = [target if target in known else str(node.module) for target in full]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "import_module":
            # A computed name is reported as `?`: the test lists the modules that may do this.
            named = node.args[0]
            targets = [str(named.value) if isinstance(named, ast.Constant) else "?"]
        else:
            continue
        found += [Import(name, target, node.lineno, id(node) in late, id(node) in typing) for target in targets]
    return found


def within(tree: ast.Module, matches: Callable[[ast.AST], bool]) -> set[int]:
    """The ids of all nodes below those that match."""
    return {id(inner) for outer in ast.walk(tree) if matches(outer) for inner in ast.walk(outer)}


def strings_of(source: str) -> list[str]:
    """The strings in a module and the literal parts of its f-strings, without docstrings."""
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings)
    return [node.value for node in constants if isinstance(node.value, str)]
