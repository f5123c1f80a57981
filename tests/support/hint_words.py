"""What a hint begins with: it says what to do."""

from __future__ import annotations

_VERBS = """
    add adopt annotate append bring call cast change check choose close commit compact compare compute confirm
    correct create declare delete detach drop end expire export filter find fix free give install keep let list
    load look make merge move name nest omit open override pass permit pick plan put read rebuild reference
    refresh register remove rename renew replace reset restore return round run save select set split start try
    update use write
"""
VERBS = frozenset(_VERBS.split())


def is_fix(hint: str) -> bool:
    """True if a hint begins with a verb, or proposes a name."""
    return hint.startswith("did you mean ") or hint.split(" ", 1)[0].strip(":,").lower() in VERBS
