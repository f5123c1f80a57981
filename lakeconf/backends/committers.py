"""The committers of a store: who commits merges of Spark."""

from __future__ import annotations

from lakeconf.errors import LakeconfError

# The default, today that of `public`; DuckDB's statements; DuckLake's staged commit, if it can.
COMMITTERS = ("auto", "public", "staged")


def checked_committer(store: str, committer: str) -> str:
    """A committer, if it exists.

    Args:
        store: The name of the store, for the error.
        committer: The committer.

    Raises:
        LakeconfError: There is no such committer.
    """
    if committer not in COMMITTERS:
        raise LakeconfError(
            f"stores.{store}.committer: must be one of {', '.join(COMMITTERS)}",
            hint='write committer = "auto", or omit it',
        )
    return committer
