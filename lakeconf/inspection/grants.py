"""What an administrator runs to give a role access to the catalog and the files of a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lakeconf.backends.backend import Backend, Role
from lakeconf.backends.server import LONGEST_NAME
from lakeconf.errors import LakeconfError, UnsupportedError
from lakeconf.logs import escaped
from lakeconf.store import Store


class Grants(NamedTuple):
    """What an administrator runs or pastes, for each backend of a store."""

    catalog: str  # statements for the catalog's server; empty if it is a file
    storage: str  # what the console of the storage takes; empty if it is a folder
    notes: Sequence[str]  # what needs other means


def grants(store: Store, role: Role, to: str | None = None) -> Grants:
    """Returns what gives a role access to a store, without connecting.

    Args:
        store: The store of the role that owns the catalog.
        role: `"reader"`, `"writer"` or `"maintainer"`.
        to: The name of the role in the catalog's server; None for `lake_` and the role.

    Raises:
        UnsupportedError: Neither backend has roles, or it is not known which role owns the catalog.
    """
    metadata, storage = store.metadata_backend, store.storage_backend
    name = f"lake_{role}" if to is None else to
    if not 0 < len(name.encode()) <= LONGEST_NAME or escaped(name) != name:
        raise LakeconfError(
            f"the name of a role must have 1 to {LONGEST_NAME} bytes and no control characters: {escaped(name)!r}"
        )
    catalog, files = metadata.grants(role, name), storage.grants(role, name) if storage else ""
    if not catalog and not files:
        raise UnsupportedError(
            f"neither backend of the store has roles: {metadata.type}{f' and {storage.type}' if storage else ''}",
            hint="use the permissions of the operating system, or of the service",
        )
    without: list[Backend] = [] if catalog else [metadata]
    without += [storage] if storage and not files else []
    return Grants(catalog, files, [_note(backend) for backend in without])


def _note(backend: Backend) -> str:
    return f"lakeconf has no statements for {backend.type}: use the permissions of its files or its service"
