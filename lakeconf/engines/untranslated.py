"""The error for a part of a query that an engine does not translate."""

from __future__ import annotations

from lakeconf.errors import UnsupportedError


class UntranslatedError(UnsupportedError):
    """A part of a query that an engine may compute in another way than DuckDB.

    Attributes:
        offset: Where the part begins in the text of the query; None if it is unknown.
    """

    def __init__(self, message: str, *, hint: str | None = None, offset: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.offset = offset
