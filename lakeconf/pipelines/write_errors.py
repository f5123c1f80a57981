"""Words errors of a write for the model that wrote: it has files or a query, and no frame."""

from __future__ import annotations

import copy
import re

from lakeconf.config.toml_text import dotted, toml_value
from lakeconf.errors import DataLossError, LakeconfError, SchemaError, listed
from lakeconf.pipelines.body import Query
from lakeconf.pipelines.file_rows import Files
from lakeconf.pipelines.model import Model

_TYPE = re.compile(r"\Athe frame's column '(?P<name>.+)' is .+, but in \S+ it is (?P<wanted>.+), which cannot hold")


def reworded(error: LakeconfError, model: Model, files: Files | None) -> LakeconfError:
    """Returns an error that names the files or the query in place of a frame; other errors are returned unchanged.

    Args:
        error: The error of the write.
        model: The model.
        files: The files that it loads.
    """
    if files is not None and model.body is None:
        return _of_files(error, files)
    if isinstance(model.body, Query) and isinstance(error, SchemaError) and "the frame" in error.message:
        hint = None if error.hint is None else error.hint.replace("the frame's column", "the column in the SQL")
        return _copied(error, error.message.replace("the frame", "the query"), hint)
    return error


def _of_files(error: LakeconfError, files: Files) -> LakeconfError:
    names = listed(files.names)
    if isinstance(error, DataLossError):
        return _copied(error, f"{names}: {error.message}", f"add the column to the file; or {error.hint}")
    if not isinstance(error, SchemaError) or "the frame" not in error.message:
        return error
    found = _TYPE.match(error.message)
    hint = error.hint
    if found is not None:
        key = f"{dotted((found['name'],))} = {toml_value(found['wanted'])}"
        hint = f"set {key} in columns of the model, next to the other columns, if all values have this type"
    message = error.message.replace("the frame's column", "the column").replace("the frame", "the file")
    return _copied(error, f"{names}: {message}", hint)


def _copied(error: LakeconfError, message: str, hint: str | None) -> LakeconfError:
    found = copy.copy(error)
    found.message, found.hint, found.args = message, hint, (message,)
    return found
