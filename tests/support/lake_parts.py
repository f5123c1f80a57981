"""The parts of an open lake that tests of internal functions need; other modules use no private members of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakeconf import Lake, Table, Transaction
    from lakeconf.catalog.reader import CatalogReader
    from lakeconf.commit.scope import Scope
    from lakeconf.commit.session import Session


def session_of(lake: Lake) -> Session:
    """The session: connections, engine and locks, to disturb them."""
    return lake._session


def catalog_of(lake: Lake) -> CatalogReader:
    """The reader of its catalog, an argument of the functions below `lakeconf.catalog`."""
    return session_of(lake).reader


def data_path_of(lake: Lake) -> str:
    """The folder or the bucket of its data files, with a slash at its end."""
    return catalog_of(lake).data_path


def scope_of(owner: Lake | Table | Transaction) -> Scope:
    """The scope of what a lake, a table or a transaction does."""
    return owner._scope
