"""Sizes in bytes as human-readable text."""

from __future__ import annotations

import pytest
from source_tree import sources, strings_of

from lakeconf.byte_size import byte_size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (512 * 2**20, "512 MiB"),
        (2.5 * 2**30, "2.5 GiB"),
        (2**50, "1024 TiB"),
    ],
)
def test_byte_size_uses_binary_units(count: float, text: str) -> None:
    assert byte_size(count) == text


def test_only_one_module_formats_sizes() -> None:
    homes = {name for name, path in sources().items() if {"B", "KiB", "kB", "MB"} & set(strings_of(path.read_text()))}
    assert homes == {"lakeconf.byte_size"}
