"""Hints of errors, and sizes as text."""

from __future__ import annotations

import pytest
from source_tree import sources, strings_of

from lakeconf.errors import suggestion
from lakeconf.wording import byte_size, parsed_size


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("regoin", 'did you mean "Region"?'),
        ("REGION", 'did you mean "Region"?'),
        ("nothing_like_it", "there are Region, bucket"),
    ],
)
def test_suggestion_is_a_similar_name_or_the_list(word: str, hint: str) -> None:
    assert suggestion(word, ["Region", "bucket"], "there are Region, bucket") == hint


def test_only_one_function_suggests_names() -> None:
    # It resolves a name without its schema, which is not a guess.
    others = {"lakeconf.catalog.stored_queries"}
    homes = {
        name for name, path in sources().items() if any("did you mean" in one for one in strings_of(path.read_text()))
    }
    assert homes - others == {"lakeconf.errors"}


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("MB", None),
        ("0", 0),
        ("7", 7),
        ("7b", 7),
        ("1.5 kB", 1500),
        ("512MB", 512 * 10**6),
        ("2GB", 2 * 10**9),
        ("1 tb", 10**12),
        ("1KiB", 1024),
        ("3 MiB", 3 * 2**20),
        ("1GiB", 2**30),
        ("5 parsecs", 5),
    ],
)
def test_size_of_an_option(text: str, expected: int | None) -> None:
    assert parsed_size(text) == expected


def test_only_one_module_formats_sizes() -> None:
    homes = {name for name, path in sources().items() if {"B", "KiB", "kB", "MB"} & set(strings_of(path.read_text()))}
    assert homes == {"lakeconf.wording"}
