"""The state of a loaded file, as rows of `lakeconf.commits` keep it, so that a later run notices a changed file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lakeconf.ducklake import escaped_json


class FileState(NamedTuple):
    """What tells apart two contents of a file.

    Attributes:
        size: The size in bytes.
        modified: The time of the last change, in microseconds since 1970.
        digest: The SHA-256 of the content; None if it is unknown, as for objects of a bucket.
    """

    size: int
    modified: int
    digest: str | None = None


def loaded_files_json(files: Sequence[str], states: Mapping[str, FileState]) -> str:
    """Formats the files of a run: an object by file. Earlier versions read only its keys.

    Args:
        files: The loaded files.
        states: The states of the files; a file may lack one.
    """
    found = {file: states[file]._asdict() if file in states else None for file in files}
    return escaped_json(json.dumps(found))


def loaded_files(text: str) -> tuple[tuple[str, ...], dict[str, FileState]]:
    """Reads the files of a run, and the states of those that have one.

    Args:
        text: JSON; earlier versions wrote a list of files.
    """
    found = json.loads(text)
    if not isinstance(found, dict):
        return tuple(found), {}
    return tuple(found), {file: _state(one) for file, one in found.items() if one is not None}


def _state(one: Mapping[str, Any]) -> FileState:
    return FileState(one["size"], one["modified"], one.get("digest"))
