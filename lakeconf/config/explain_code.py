"""The pages that explain the codes of problems."""

from __future__ import annotations

from importlib import resources

from lakeconf.config.codes import Code
from lakeconf.errors import LakeconfError, suggestion


def explanation(code: str) -> str:
    """The page of a code, in Markdown.

    Args:
        code: The code, such as `LC012`.

    Raises:
        LakeconfError: There is no such code.
    """
    known = {one.code: one for one in Code}
    found = known.get(code.upper())
    if found is None:
        raise LakeconfError(f"there is no code {code!r}", hint=suggestion(code, known, "they are LC001 to LC064"))
    return resources.files("lakeconf.config").joinpath("explanations", f"{found.code}.md").read_text("utf-8")
