"""Checks a configuration outside the tables of its stores."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from lakeconf.config.backend import type_name, unknown_key_hint
from lakeconf.config.codes import Code
from lakeconf.config.file import Source, Table
from lakeconf.config.load_store import allowed_name
from lakeconf.errors import Problem

TOP_KEYS = ("default_store", "pipeline", "stores")
STORE_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def structure_problems(source: Source, data: Table) -> Iterator[Problem]:
    """Reports unknown keys, tables of the wrong type, and invalid store names.

    Args:
        source: The file, for the positions of problems.
        data: Its content, with overrides from the environment applied.
    """
    problem = source.problem
    for key in data:
        if key not in TOP_KEYS:
            yield problem(Code.UNKNOWN_KEY, "unknown key", hint=unknown_key_hint(key, TOP_KEYS), key=(key,))
    stores = data.get("stores")
    if stores is not None and not isinstance(stores, Mapping):
        hint = 'write [stores.dev.metadata_backend] type = "sqlite" …'
        yield problem(Code.WRONG_TYPE, f"must be a table, not {type_name(stores)}", hint=hint, key=("stores",))
    elif not stores:
        hint = 'write [stores.dev.metadata_backend] type = "sqlite" …'
        yield problem(Code.MISSING_KEY, "no stores are declared", hint=hint, key=("stores",))
    pipeline = data.get("pipeline")
    if pipeline is not None and not isinstance(pipeline, Mapping):
        hint = 'write [pipeline] python = ["models.py"]'
        yield problem(Code.WRONG_TYPE, f"must be a table, not {type_name(pipeline)}", hint=hint, key=("pipeline",))
    for name in stores if isinstance(stores, Mapping) else ():
        if not STORE_NAME.fullmatch(name):
            hint = f"rename it to {allowed_name(name)}: use lower-case letters, digits and single underscores"
            yield problem(Code.STORE_NAME, "invalid store name", hint=hint, key=("stores", name))
