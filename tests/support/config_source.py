"""Configurations as TOML text, read as far as a test needs: the source, the draft of a store, or the store."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from lakeconf.config.file import Source
from lakeconf.config.read_store import read_store
from lakeconf.config.resolve import Draft, Inheritance, secret_texts, secrets_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakeconf.config.read_store import Reading
    from lakeconf.errors import Problem
    from lakeconf.secret import Secret

FOLDER = Path("/conf")


def source_of(text: str) -> Source:
    """The content of `/conf/lakeconf.toml`, which need not exist."""
    return Source(tomllib.loads(text), FOLDER / "lakeconf.toml", text)


def stores_of(text: str) -> Inheritance:
    """The stores of a configuration."""
    source = source_of(text)
    return Inheritance(source, source.data["stores"])


def draft_of(
    text: str, environment: Mapping[str, str] | None = None, *, untrusted: bool = False, hidden: Sequence[Secret] = ()
) -> Draft:
    """The draft of the store `dev`; without `environment`, no variable is set."""
    stores, given = stores_of(text), environment or {}
    secrets = [*hidden, *secrets_of(secret_texts(stores.stores), given)]
    return Draft(stores, "dev", None if untrusted else given, secrets)


def reading_of(text: str, environment: Mapping[str, str] | None = None, *, untrusted: bool = False) -> Reading:
    """What `read_store` finds out about the store `dev`; without `environment`, no variable is set."""
    stores, given = stores_of(text), environment or {}
    return read_store(stores, "dev", None if untrusted else given, secrets_of(secret_texts(stores.stores), given))


def summary(problem: Problem) -> tuple[str, str, str | None, str | None, int | None]:
    """The code, message, hint, key and line of a problem."""
    return problem.code, problem.message, problem.hint, problem.key, problem.line
