"""Hashes definitions of models by the tokens of their code, so that comments and layout do not count."""

from __future__ import annotations

import ast
import bisect
import functools
import hashlib
import inspect
import io
import re
import threading
import tokenize
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

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

# Tokens of Python without a meaning of their own, and what stands for those whose text is layout.
_SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER}
_LAYOUT = {tokenize.NEWLINE: "\n", tokenize.INDENT: "\t", tokenize.DEDENT: "\b"}

# A line, and a column in bytes.
_Position: TypeAlias = tuple[int, int]
_Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
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
    found = list(_SQL.finditer(text))
    # Comments nest, so the first end of such a comment is not its own.
    if any("/*" in one["comment"][2:] for one in found if one["comment"]):
        return text
    tokens = [one["token"] for one in found if one["token"]]
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
    """Returns the tokens of a function and of what it uses of its file.

    Decorators, docstrings and comments do not count; constants, functions and classes that it names do.
    """
    name = getattr(function, "__name__", type(function).__name__)
    if source is None:
        qualified = getattr(function, "__qualname__", type(function).__qualname__)
        raise PipelineError(f"the source of {qualified} is unavailable", hint="write the model in a file")
    try:
        file = _File.parsed(source.text)
    except (SyntaxError, tokenize.TokenError):
        return source.text  # the commands of a notebook are no Python
    return file.code(file.statement(name, source.line))


class _File(NamedTuple):
    """A file of Python: its statements, and the places and texts of its tokens."""

    tree: ast.Module
    starts: Sequence[_Position]
    texts: Sequence[str]

    @classmethod
    @functools.lru_cache(maxsize=16)
    def parsed(cls, text: str) -> _File:
        with _parsing:
            tree = ast.parse(text)
        found = list(_tokens(text))
        return cls(tree, [start for start, _ in found], [token for _, token in found])

    def statement(self, name: str, line: int) -> ast.stmt:
        """The function that begins in a line; for a lambda, the shortest statement around the line."""
        around: list[ast.stmt] = []
        for node in ast.walk(self.tree):
            if isinstance(node, _DEFINITIONS) and node.name == name:
                if line in (node.lineno, *(one.lineno for one in node.decorator_list)):
                    return node
            elif isinstance(node, ast.stmt) and node.lineno <= line <= _end(node)[0]:
                around.append(node)
        if not around:
            raise PipelineError(f"the source of {name} is unavailable", hint="write the model in a file")
        return min(around, key=lambda node: _end(node)[0] - node.lineno)

    def code(self, node: ast.stmt) -> str:
        """The tokens of a statement, and of the statements of the file that it depends on."""
        waiting, found = [node], {node: self._code(node)}
        while waiting:
            used = _used(waiting.pop())
            for one in self.tree.body:
                if one not in found and used & _bound(one):
                    found[one] = self._code(one)
                    waiting.append(one)
        return "\n".join([found.pop(node), *sorted(found.values())])

    def _code(self, node: ast.stmt) -> str:
        start, end = (node.lineno, node.col_offset), _end(node)
        first, last = bisect.bisect_left(self.starts, start), bisect.bisect_left(self.starts, end)
        texts = list(self.texts[first:last])
        if isinstance(node, _DEFINITIONS) and ast.get_docstring(node) is not None:
            doc = node.body[0]
            begin = bisect.bisect_left(self.starts, (doc.lineno, doc.col_offset))
            # The end of its line goes too.
            after = bisect.bisect_left(self.starts, _end(doc)) + 1
            del texts[begin - first : after - first]
        # The end of the block before it is at the same place.
        return " ".join(texts).lstrip("\b ")


def _end(node: ast.stmt) -> _Position:
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def _bound(node: ast.stmt) -> set[str]:
    """The names that a statement of a file gives a value, without imports."""
    if isinstance(node, _DEFINITIONS):
        return {node.name}
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}


def _used(node: ast.stmt) -> set[str]:
    """The names of others that a statement uses; those of its decorators enter the hash with the kind of the model."""
    decorators = node.decorator_list if isinstance(node, _DEFINITIONS) else []
    aside = {id(one) for decorator in decorators for one in ast.walk(decorator)}
    names = [one for one in ast.walk(node) if isinstance(one, ast.Name) and id(one) not in aside]
    own = {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}
    if isinstance(node, _DEFINITIONS):
        own |= {one.id for one in names if isinstance(one.ctx, ast.Store)}
    return {one.id for one in names if isinstance(one.ctx, ast.Load)} - own


def _tokens(text: str) -> Iterator[tuple[_Position, str]]:
    """The tokens of Python with their places. A formatted string is one token, as in Python 3.11."""
    lines = text.splitlines(keepends=True)
    depth, begin = 0, (0, 0)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        name = tokenize.tok_name[token.type]
        if name.endswith("STRING_START"):
            begin = begin if depth else token.start
            depth += 1
        elif name.endswith("STRING_END"):
            depth -= 1
            if not depth:
                yield _in_bytes(lines, begin), _between(lines, begin, token.end)
        elif not depth and token.type not in _SKIPPED:
            yield _in_bytes(lines, token.start), _LAYOUT.get(token.type, token.string)


def _in_bytes(lines: Sequence[str], position: _Position) -> _Position:
    line, column = position
    return line, len(lines[line - 1][:column].encode()) if line <= len(lines) else column


def _between(lines: Sequence[str], start: _Position, end: _Position) -> str:
    found = list(lines[start[0] - 1 : end[0]])
    found[-1] = found[-1][: end[1]]
    return "".join([found[0][start[1] :], *found[1:]])
