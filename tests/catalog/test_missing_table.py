"""The error for a name that no table has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.catalog.tables import refuse_missing
from lakeconf.errors import TableNotFoundError, UnsupportedError

if TYPE_CHECKING:
    from catalog_lake import Lake


def test_error_says_what_has_the_name(local: Lake) -> None:
    local.run("CREATE VIEW lake.v AS SELECT 1 AS a", "CREATE MACRO lake.m(x) AS TABLE SELECT x AS a")
    with local.reader.transaction() as transaction:
        with pytest.raises(UnsupportedError, match=r"main\.v is a view"):
            refuse_missing(transaction, ("main", "V"), local.newest, [])
        with pytest.raises(UnsupportedError, match=r"main\.m is a macro"):
            refuse_missing(transaction, ("main", "m"), local.newest, [])
        with pytest.raises(TableNotFoundError, match=r"no table 'main.events'(.|\n)*main.event\""):
            refuse_missing(transaction, ("main", "events"), local.newest, ["main.event", "main.other"])
        with pytest.raises(TableNotFoundError, match=r"no table 'main.v' at version 0"):
            refuse_missing(transaction, ("main", "v"), 0, [])
