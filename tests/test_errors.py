"""Hints of errors, and sizes as text."""

from __future__ import annotations

from source_tree import sources, strings_of

from lakeconf.errors import suggestion
from lakeconf.wording import byte_size, parsed_size


def test_suggestion_is_a_similar_name_or_the_list() -> None:
    for word, hint in (
        *((each, 'did you mean "Region"?') for each in ("regoin", "REGION")),
        ("nothing_like_it", "there are Region, bucket"),
    ):
        assert suggestion(word, ["Region", "bucket"], "there are Region, bucket") == hint


def test_only_one_module_suggests_names_and_one_formats_sizes() -> None:
    strings = {name: strings_of(path.read_text()) for name, path in sources().items()}
    suggesting = {name for name, texts in strings.items() if any("did you mean" in one for one in texts)}
    # It resolves a name without its schema, which is not a guess.
    assert suggesting - {"lakeconf.catalog.stored_queries"} == {"lakeconf.errors"}
    assert {name for name, texts in strings.items() if {"B", "KiB", "kB", "MB"} & set(texts)} == {"lakeconf.wording"}


def test_byte_size_uses_binary_units() -> None:
    counts = (0, 1023, 1024, 1536, 512 * 2**20, 2.5 * 2**30, 2**50)
    texts = ["0 B", "1023 B", "1 KiB", "1.5 KiB", "512 MiB", "2.5 GiB", "1024 TiB"]
    assert [byte_size(count) for count in counts] == texts


def test_size_of_an_option() -> None:
    sizes: dict[str, int | None] = {"": None, "MB": None, "0": 0, "7": 7, "7b": 7, "5 parsecs": 5}
    sizes |= {"1.5 kB": 1500, "512MB": 512 * 10**6, "2GB": 2 * 10**9, "1 tb": 10**12}
    sizes |= {"1KiB": 1024, "3 MiB": 3 * 2**20, "1GiB": 2**30}
    assert {text: parsed_size(text) for text in sizes} == sizes
