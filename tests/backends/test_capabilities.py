"""Only a backend's own file knows its name or class; all other code asks the contract what a backend supports."""

from __future__ import annotations

import ast

from source_tree import sources

from lakeconf.backends.registry import METADATA_BACKENDS, STORAGE_BACKENDS

TYPES = {*METADATA_BACKENDS, *STORAGE_BACKENDS}
OWN = ("lakeconf.backends.metadata.", "lakeconf.backends.storage.")
REGISTRY = "lakeconf.backends.registry"
# They ask DuckDB for the type of an attached database, which decides how a catalog stores values.
CATALOG_TABLES = ("lakeconf.transfer.catalog_tables", "lakeconf.transfer.staged_catalog")


def backend_classes() -> set[str]:
    """The classes in the backend files, including their common base classes."""
    return {
        node.name
        for name, path in sources().items()
        if name.startswith(OWN)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    }


def texts(node: ast.AST) -> set[str]:
    """The strings in an expression."""
    return {part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)}


def names(node: ast.AST) -> set[str]:
    """The names and attributes in an expression."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} | {
        part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)
    }


def questions(source: str, classes: set[str]) -> list[tuple[int, str]]:
    """Line and text of each place that checks for a backend by its name, class or fields."""
    found = []
    for node in ast.walk(ast.parse(source)):
        asked: set[str] = set()
        if isinstance(node, ast.Compare):
            asked = {text for part in (node.left, *node.comparators) for text in texts(part)} & TYPES
        elif isinstance(node, ast.Dict):  # a table of backends: more than one of its keys is a type
            keys = {text for key in node.keys if key is not None for text in texts(key)} & TYPES
            asked = keys if len(keys) > 1 else set()
        elif isinstance(node, ast.match_case):
            asked = (texts(node.pattern) & TYPES) | (names(node.pattern) & classes)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1:
            if node.func.id in ("isinstance", "issubclass"):
                asked = names(node.args[1]) & classes
            elif node.func.id in ("getattr", "hasattr") and any("backend" in name for name in names(node.args[0])):
                asked = texts(node.args[1])
        found += [(getattr(node, "lineno", 0), one) for one in sorted(asked)]
    return found


def test_no_code_checks_for_a_backend_by_name_or_class() -> None:
    classes = backend_classes()
    found = [
        f"{name}:{line} asks for {what}"
        for name, path in sources().items()
        if not name.startswith(OWN) and name not in (REGISTRY, *CATALOG_TABLES)
        for line, what in questions(path.read_text(), classes)
    ]
    assert found == []


def test_the_check_finds_name_and_class_checks() -> None:
    classes = backend_classes()
    for source in (
        'if metadata == "motherduck": pass',
        'if values.get("type") != "postgres": pass',
        'is_bucket = kind in ("s3", "gcs")',
        'FIELDS = {"sqlite": ["uri"], "postgres": ["host"]}',
        "if isinstance(backend, PostgresMetadata): pass",
        "if isinstance(storage, (object_storage.ObjectStorage, int)): pass",
        'match kind:\n    case "postgres":\n        pass',
        "match backend:\n    case PostgresMetadata():\n        pass",
        'host = getattr(store.metadata_backend, "host", None)',
    ):
        assert questions(source, classes), source
