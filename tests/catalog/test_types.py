"""Types of columns, parsed by DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

from lakeconf.catalog.types import parsed_type

if TYPE_CHECKING:
    from lakeconf import Store


def test_type_is_parsed() -> None:
    assert str(parsed_type("STRUCT(a INTEGER, b VARCHAR[])")) == "STRUCT(a INTEGER, b VARCHAR[])"
    with pytest.raises(duckdb.Error):
        parsed_type("no_such_type")


def test_failed_transaction_of_the_default_connection_does_not_matter(store: Store) -> None:
    duckdb.begin()
    try:
        with pytest.raises(duckdb.Error):
            duckdb.execute("SELECT error('fails')").fetchall()
        with pytest.raises(duckdb.TransactionException):
            duckdb.sqltype("BIGINT")
        with store.open() as lake:
            table = lake.create_table("t", {"id": "BIGINT"})
            table.append(lake.sql("SELECT 1 AS id"))
            table.merge(lake.sql("SELECT 2 AS id"), on="id")
            assert lake.sql("SELECT count(*) FROM t").collect("pyarrow").item() == 2
    finally:
        duckdb.rollback()
