"""Completion of names of stores and tables in a shell."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import click

from lakeconf.config.model import init
from lakeconf.errors import LakeconfError
from lakeconf.logs import escaped


def complete_stores(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The stores of the configuration that the command line names."""
    return _names(lambda: init(context.params.get("source")).names, incomplete)


def complete_tables(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The tables of the store that the command line names, or of the default store. Reads the catalog."""

    def tables() -> Sequence[str]:
        given = context.params
        store = next((given[key] for key in ("store", "store_name", "one") if given.get(key)), None)
        with init(given.get("source")).get_store(store).open(read_only=True) as lake:
            return lake.tables()

    return _names(tables, incomplete)


def _names(find: Callable[[], Sequence[str]], incomplete: str) -> list[str]:
    """The names that begin with what was typed. Without them, if they cannot be found: a shell shows no errors."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = find()
    except (LakeconfError, OSError):
        return []
    # A shell splits words at spaces, and must not be given control characters.
    return [name for name in found if name.startswith(incomplete) and name == escaped(name) and name.split() == [name]]
