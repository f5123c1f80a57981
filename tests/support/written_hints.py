"""The hints in the code of the package, and the commands, options and calls that they name."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from source_tree import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator

TREES = {
    str(path.relative_to(REPOSITORY)): ast.parse(path.read_text())
    for folder in ("lakeconf", "pyspark_lakeconf")
    for path in sorted((REPOSITORY / folder).rglob("*.py"))
}
# Tables of hints, and functions that return one.
TABLES = re.compile(r".*_HINTS")
ROWS = re.compile(r"_BY_MESSAGE")
WRITERS = re.compile(r".+_hint|.*_fix|_unknown")
COMMAND = re.compile(r"\blakeconf ([a-z][a-z-]+)((?: [A-Z…]+| --[a-z-]+| [a-z]+\.[a-z]+)*)")
OPTION = re.compile(r"--[a-z][a-z-]+")
CALL = re.compile(r"\b(lake|tx|table|store|maintenance|runs)\b(?:\.table\([^()]*\))?\.(\w+)\(([^()]*)\)?")


def hints(tree: ast.Module) -> Iterator[ast.expr]:
    """The expressions that become hints."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "hint")
            if name_of(node.func) == "Problem" and len(node.args) > 2:
                yield node.args[2]
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Dict):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(TABLES.fullmatch(name_of(target)) for target in targets):
                yield from node.value.values
        elif (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.value, ast.Tuple)
            and ROWS.fullmatch(name_of(node.target))
        ):
            yield from (row.elts[-1] for row in node.value.elts if isinstance(row, ast.Tuple))
        elif isinstance(node, ast.FunctionDef) and WRITERS.fullmatch(node.name):
            yield from (each.value for each in ast.walk(node) if isinstance(each, ast.Return) and each.value)


def whole(node: ast.expr) -> str:
    """The words of a hint, with … for its values."""
    texts = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return "…".join([*texts, ""])


def name_of(node: ast.expr) -> str:
    """The last name of an expression such as `a.b`."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
