"""The names that the code defines, to check those that documentation, docstrings and comments mention."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from source_tree import PACKAGE, REPOSITORY, module_name

from lakeconf.sql import folded

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

_WORD = re.compile(r"[A-Za-z_]\w*")
_COMMENT = re.compile(r"(?:^ *|  )# (.*)$", re.MULTILINE)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class Definitions:
    """What a module or a class defines."""

    names: set[str] = field(default_factory=set)
    classes: dict[str, Definitions] = field(default_factory=dict)
    bases: set[str] = field(default_factory=set)  # the names of the base classes


@dataclass(frozen=True)
class SourceNames:
    """What the modules of the code define."""

    modules: Mapping[str, Sequence[Definitions]]  # by each end of their names, such as `driver` and `commit.driver`
    classes: Mapping[str, Definitions]  # by name, in lower case

    def knows(self, owner: str) -> bool:
        """True for the name of a module or a class, or of a variable that is named after its class."""
        return owner in self.modules or _class_key(owner) in self.classes

    def defines(self, dotted: str) -> bool:
        """True if a dotted name exists, such as `driver.Attempt.run`, `Attempt.run` or `attempt.run`."""
        parts = dotted.split(".")
        named = self.classes.get(_class_key(parts[0]))
        if named is not None and self.has(named, parts[1:]):
            return True
        ends = range(len(parts), 0, -1)
        return any(
            self.has(module, parts[end:]) for end in ends for module in self.modules.get(".".join(parts[:end]), ())
        )

    def has(self, owner: Definitions, names: Sequence[str]) -> bool:
        """True if a module or a class has an attribute; attributes of an object are not checked any further."""
        if not names:
            return True
        if names[0] in owner.classes:
            return self.has(owner.classes[names[0]], names[1:])
        bases = (self.classes[_class_key(name)] for name in owner.bases if _class_key(name) in self.classes)
        return names[0] in owner.names or any(self.has(base, names) for base in bases if base is not owner)


@functools.cache
def source_names() -> SourceNames:
    """The names of the package, of Spark's data source, and of the support of the tests."""
    modules: dict[str, list[Definitions]] = defaultdict(list)
    classes: dict[str, Definitions] = {}
    for path in code_files():
        module = definitions(path)
        parts = module_name(path).split(".")
        for start in range(len(parts)):
            modules[".".join(parts[start:])].append(module)
        classes |= {_class_key(name): defined for name, defined in module.classes.items()}
    return SourceNames(modules, classes)


def code_files() -> list[Path]:
    """The modules of the package, of Spark's data source, and of the support of the tests."""
    folders = (REPOSITORY / "tests" / "support", REPOSITORY / "pyspark_lakeconf", PACKAGE)
    return [path for folder in folders for path in sorted(folder.rglob("*.py"))]


@functools.cache
def definitions(path: Path) -> Definitions:
    """What the module in a file defines."""
    return _definitions(ast.parse(path.read_text()))


def _definitions(tree: ast.Module | ast.ClassDef) -> Definitions:
    found = Definitions()
    for node in _statements(tree.body):
        if isinstance(node, ast.ClassDef):
            found.classes[node.name] = _definitions(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.names.add(node.name)
            attributes = (inner for inner in ast.walk(node) if isinstance(inner, ast.Attribute))
            found.names |= {inner.attr for inner in attributes if isinstance(inner.ctx, ast.Store)}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.names |= {alias.asname or alias.name for alias in node.names}
        else:
            targets = (inner for inner in ast.walk(node) if isinstance(inner, ast.Name))
            found.names |= {inner.id for inner in targets if isinstance(inner.ctx, ast.Store)}
    if isinstance(tree, ast.ClassDef):
        found.bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in tree.bases}
    return found


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body, also those below `if` and `try`."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _statements([*node.body, *node.orelse])


def _class_key(name: str) -> str:
    return folded(name.replace("_", ""))


@functools.cache
def prose_of(path: Path) -> Sequence[str]:
    """The docstrings and the comments of a module."""
    source = path.read_text()
    documented = (node for node in ast.walk(ast.parse(source)) if isinstance(node, _DOCUMENTED))
    return [*(ast.get_docstring(node) or "" for node in documented), *_COMMENT.findall(source)]


@functools.cache
def words_of_code() -> Collection[str]:
    """The words in the code and its strings, without docstrings and comments, and in the files of the project."""
    others = (*PACKAGE.rglob("*.java"), REPOSITORY / "Makefile")
    words = {word for path in others for word in _WORD.findall(path.read_text())}
    for path in code_files():
        words.add(path.stem)
        counts = Counter(_WORD.findall(path.read_text()))
        counts.subtract(word for text in prose_of(path) for word in _WORD.findall(text))
        words |= {word for word, count in counts.items() if count > 0}
    return words
