"""docs/errors.md lists every exception with its base class."""

from __future__ import annotations

import inspect
import re

from source_tree import REPOSITORY

from lakeconf import errors

ROW = re.compile(r"^\| `(\w+)` \| (?:`(\w+)`)? ?\|", re.MULTILINE)


def test_page_lists_every_exception() -> None:
    listed = {name: base or None for name, base in ROW.findall((REPOSITORY / "docs" / "errors.md").read_text())}
    found = {
        name: next((base.__name__ for base in kind.__bases__ if base is not errors.LakeconfError), None)
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.LakeconfError) and kind is not errors.LakeconfError
    }
    assert listed == found
