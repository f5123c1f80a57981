"""Hints of errors."""

from __future__ import annotations

import pytest
from source_tree import sources, strings_of

from lakeconf.errors import suggestion


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
