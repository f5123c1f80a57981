"""Words that DuckLake replaces in the SQL that it runs on the catalog, wherever they stand: in data too.

A row `{SNAPSHOT_ID}` gives a file the bound `5`, so that filters lose rows; as a comment it is stored as `5`; and
`{DATA_PATH}` breaks the commit. Nothing can be escaped, so lakeconf refuses them.
"""

from __future__ import annotations

import re

from lakeconf.errors import SchemaError

PATTERN = (
    r"\{(AUTHOR|COMMIT_EXTRA_INFO|COMMIT_MESSAGE|DATA_PATH|METADATA_[A-Z_]+|NEXT_CATALOG_ID|NEXT_FILE_ID"
    r"|SCHEMA_VERSION|SNAPSHOT_ID)\}"
)
_PLACEHOLDER = re.compile(PATTERN)
_HINT = "write it in another way, such as with a space after the brace"


def check_placeholders(text: str | None, what: str) -> None:
    """Refuses a text that DuckLake would change.

    Args:
        text: The text; None is fine.
        what: What it is, for the message.

    Raises:
        SchemaError: It has such a word.
    """
    found = _PLACEHOLDER.search(text or "")
    if found:
        raise SchemaError(f"{what} has the text {found[0]}, which DuckLake would replace", hint=_HINT)


def escaped_json(text: str) -> str:
    """JSON that means the same and has no such word."""
    # Only in strings: the brace of an object is followed by a quote or a brace.
    return _PLACEHOLDER.sub(lambda found: rf"\u007b{found[1]}}}", text)
