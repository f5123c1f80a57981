"""Formats keys and values as TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from lakeconf.config.positions import Key

_BARE_KEY = r"[A-Za-z0-9_-]+"


def dotted(key: Key) -> str:
    """Formats a key as in TOML, such as `stores."my.lake".alias`; items of arrays as `[0]`."""
    parts = [
        f"[{part}]" if isinstance(part, int) else part if re.fullmatch(_BARE_KEY, part) else _string(part)
        for part in key
    ]
    return ".".join(parts).replace(".[", "[")


def toml_value(value: Any) -> str:
    """Formats a value as inline TOML.

    Args:
        value: A string, number, boolean, date or time, or a list or mapping of such values.
    """
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{dotted((key,))} = {toml_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    # Numbers, `inf` and `nan`, dates and times are written in the same way in Python.
    return str(value)


def _string(text: str) -> str:
    # A JSON string is a TOML string, except that TOML requires an escape for U+007F.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
