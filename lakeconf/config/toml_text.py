"""Formats keys and values as TOML."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from lakeconf.config.file import dotted


def toml_value(value: Any) -> str:
    """Formats a value as inline TOML.

    Args:
        value: A string, number, boolean, date or time, or a list or mapping of such values.
    """
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{dotted((key,))} = {toml_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str | bool | int | float):
        # A JSON string is a TOML string, except that TOML requires an escape for U+007F.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)
