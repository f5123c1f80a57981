"""docs/errors.md lists every exception, with the built-in exception that it also is."""

from __future__ import annotations

import inspect
import re

from source_tree import REPOSITORY

from lakeconf import errors

ROW = re.compile(r"^\| `(\w+)` \| (?:`(\w+)`)? ?\|", re.MULTILINE)


def test_the_page_lists_every_exception() -> None:
    listed = {name: built_in or None for name, built_in in ROW.findall((REPOSITORY / "docs" / "errors.md").read_text())}
    found = {
        name: next((base.__name__ for base in kind.__bases__ if not issubclass(base, errors.LakeconfError)), None)
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.LakeconfError) and kind is not errors.LakeconfError
    }
    assert listed == found
