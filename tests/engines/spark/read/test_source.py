"""Both ways to read files offer what a scan needs."""

from __future__ import annotations

import inspect

import pytest

from lakeconf.engines.spark.connect.source import ConnectSource
from lakeconf.engines.spark.read.scan_source import ClassicSource, Source

METHODS = [name for name, found in vars(Source).items() if inspect.isfunction(found) and not name.startswith("_")]


@pytest.mark.parametrize("source", [ClassicSource, ConnectSource])
def test_methods_have_the_parameters_of_the_protocol(source: type) -> None:
    assert "relation" in METHODS
    for name in METHODS:
        expected, found = (inspect.signature(getattr(each, name)).parameters for each in (Source, source))
        assert [(each.name, each.kind, each.default) for each in found.values()] == [
            (each.name, each.kind, each.default) for each in expected.values()
        ]
