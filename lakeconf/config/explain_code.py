"""Loads the pages that explain problem codes."""

from __future__ import annotations

from importlib import resources

from lakeconf.config.codes import Code
from lakeconf.errors import LakeconfError, suggestion


def explanation(code: str) -> str:
    """Returns the Markdown page of a code.

    Args:
        code: The code, such as `LC012`.

    Raises:
        LakeconfError: The code does not exist.
    """
    known = {one.code: one for one in Code}
    found = known.get(code.upper())
    if found is None:
        raise LakeconfError(
            f"unknown code {code!r}", hint=suggestion(code, known, f"use a code from {min(known)} to {max(known)}")
        )
    return resources.files("lakeconf.config").joinpath("explanations", f"{found.code}.md").read_text("utf-8")
