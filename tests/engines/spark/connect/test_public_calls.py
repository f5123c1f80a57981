"""The engine for Spark Connect makes public calls only."""

from __future__ import annotations

import ast

import pytest
from source_tree import all_imports, sources

PACKAGE = "lakeconf.engines.spark.connect"
CONNECT = {name: path for name, path in sources().items() if name.startswith(PACKAGE)}
# Modules that make private calls of pyspark, or calls through py4j.
CLASSIC = ("py4j", "lakeconf.engines.spark.internals", "lakeconf.engines.spark.sessions", "pyspark.sql.connect")


def private_attributes(source: str) -> list[str]:
    """Private attributes of anything but `self`."""
    return [
        node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.endswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    ]


@pytest.mark.parametrize("module", CONNECT)
def test_no_private_attribute(module: str) -> None:
    assert private_attributes(CONNECT[module].read_text()) == []


def test_private_attribute_is_found() -> None:
    assert private_attributes("spark._client.config(self._spark)") == ["_client"]


def test_no_module_with_private_calls_is_imported() -> None:
    assert len(CONNECT) > 2
    found = [each for each in all_imports() if each.importer in CONNECT and each.imported.startswith(CLASSIC)]
    assert found == []
