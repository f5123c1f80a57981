"""Hashes definitions of models by the syntax of their code, so that comments and layout do not count."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from lakeconf.errors import PipelineError

_DIGITS = 16

# In Python 3.11, threads that parse at the same time can fail with a SystemError.
_parsing = threading.Lock()
_SQL = re.compile(
    r"""
    (?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z)) | \s+
    | (?P<token>e'(?:[^'\\]|\\.|'')*(?:'|\Z) | '[^']*(?:'|\Z) | "[^"]*(?:"|\Z)
        | \$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z) | \w+ | \S)
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def digest(*parts: str) -> str:
    """Returns a hash of strings, in hexadecimal digits."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_DIGITS]


def file_digest(path: Path) -> str:
    """Returns a hash of a file's content, in hexadecimal digits."""
    if not path.is_file():
        raise PipelineError(f"file not found: {path}", hint="write the path relative to the folder of the model")
    return hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGITS]


def sql_code(text: str) -> str:
    """Returns the tokens of SQL without comments, and without a last semicolon."""
    matches = list(_SQL.finditer(text))
    # Comments nest, so the first end of such a comment is not its own.
    if any("/*" in match["comment"][2:] for match in matches if match["comment"]):
        return text
    tokens = [match["token"] for match in matches if match["token"]]
    while tokens and tokens[-1] == ";":
        tokens.pop()
    return " ".join(tokens)


class FunctionSource(NamedTuple):
    """The file of a function as it was when the function was loaded, and the first line of the function."""

    text: str
    line: int


def loaded_source(function: Callable[..., Any]) -> FunctionSource | None:
    """Returns the source of a function; None if it is unavailable, as in an interactive session.

    Read it when the function is loaded: its file may change later, and then contains the code of another function.
    """
    try:
        original = inspect.unwrap(function)
        lines, _ = inspect.findsource(original)
        return FunctionSource("".join(lines), original.__code__.co_firstlineno)
    except (AttributeError, OSError, TypeError):
        return None


def function_code(function: Callable[..., Any], source: FunctionSource | None) -> str:
    """Returns the syntax of a function and of what it uses of its file.

    Layout, comments, decorators and docstrings do not count; constants, functions and classes that it names do.
    """
    name = getattr(function, "__name__", type(function).__name__)
    if source is None:
        qualified = getattr(function, "__qualname__", type(function).__qualname__)
        raise PipelineError(f"the source of {qualified} is unavailable", hint="write the model in a file")
    try:
        file = _parsed(source.text)
    except SyntaxError:
        return source.text  # the commands of a notebook are no Python
    node = _statement(file, name, source.line)
    waiting, codes = [node], {node: _shown(node)}
    while waiting:
        used = _used(waiting.pop())
        for statement in file.body:
            if statement not in codes and used & _bound(statement):
                codes[statement] = _shown(statement)
                waiting.append(statement)
    return "\n".join([codes.pop(node), *sorted(codes.values())])


@functools.lru_cache(maxsize=16)
def _parsed(text: str) -> ast.Module:
    with _parsing:
        return ast.parse(text)


def _statement(file: ast.Module, name: str, line: int) -> ast.stmt:
    """The function that begins in a line; for a lambda, the shortest statement around the line."""
    around: list[ast.stmt] = []
    for node in ast.walk(file):
        if isinstance(node, _DEFINITIONS) and node.name == name:
            if line in (node.lineno, *(decorator.lineno for decorator in node.decorator_list)):
                return node
        elif isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            around.append(node)
    if not around:
        raise PipelineError(f"the source of {name} is unavailable", hint="write the model in a file")
    return min(around, key=lambda node: (node.end_lineno or 0) - node.lineno)


def _shown(node: object) -> str:
    """A syntax tree as text, which is the same in every version of Python, unlike that of `ast.dump`."""
    if isinstance(node, list):
        return f"[{', '.join(map(_shown, node))}]"
    if not isinstance(node, ast.AST):
        return ascii(node)
    fields = dict(ast.iter_fields(node))
    if isinstance(node, _DEFINITIONS):
        fields["decorator_list"] = []
        fields["body"] = node.body[1:] if ast.get_docstring(node) is not None else node.body
    # Later versions have more fields, which are empty if the code does not use them.
    parts = [f"{name}={_shown(value)}" for name, value in fields.items() if value is not None and value != []]
    return f"{type(node).__name__}({', '.join(parts)})"


def _bound(node: ast.stmt) -> set[str]:
    """The names that a statement of a file gives a value, without imports."""
    if isinstance(node, _DEFINITIONS):
        return {node.name}
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def _used(node: ast.stmt) -> set[str]:
    """The names of others that a statement uses; those of its decorators enter the hash with the kind of the model."""
    decorators = node.decorator_list if isinstance(node, _DEFINITIONS) else []
    aside = {id(part) for decorator in decorators for part in ast.walk(decorator)}
    names = [part for part in ast.walk(node) if isinstance(part, ast.Name) and id(part) not in aside]
    own = {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
    if isinstance(node, _DEFINITIONS):
        own |= {part.id for part in names if isinstance(part.ctx, ast.Store)}
    return {part.id for part in names if isinstance(part.ctx, ast.Load)} - own
