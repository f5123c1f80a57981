"""Checks of staged rows, and of tables whose rows cannot be identified."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals as nw
import pyarrow as pa
import pytest
from lake_fixtures import lake_with

from lakeconf.connection.connection import Connection, connect
from lakeconf.engines.engine import ROW_ID, Staged
from lakeconf.errors import LakeconfError, PredicateError, UnsupportedError
from lakeconf.write.writes import check_condition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakeconf import Lake, LakeTransaction


@pytest.fixture(scope="module")
def writer() -> Iterator[Connection]:
    with connect() as opened:
        yield opened


def staged(*rows: str) -> Staged:
    """Staged rows with the columns of the table and a row id."""
    return Staged(f"""FROM (VALUES {", ".join(rows)}) AS t(a, "b, c", "d""e", {ROW_ID})""")


def test_every_row_must_satisfy_the_condition(writer: Connection) -> None:
    check_condition(writer, staged("(1, 0, 0, 0)", "(2, 0, 0, 0)"), "a < 3")
    with pytest.raises(PredicateError) as refused:
        check_condition(writer, staged("(1, 0, 0, 0)", "(3, 0, 0, 0)", "(NULL, 0, 0, 0)"), "a < 3")
    assert refused.value.message == "2 rows of the frame do not satisfy the `where` of the overwrite (a < 3)"
    assert refused.value.hint == "filter the frame, or widen the condition"
    with pytest.raises(PredicateError, match=r"^1 rows"):
        check_condition(writer, staged("(1, 0, 0, 0)"), "a = 2 OR a = 3")


ROWS = pa.table({"id": [1, 2], "name": ["a", "b"]})


lake = lake_with("stock", ROWS)


def refused(on: Lake | LakeTransaction, table: str, frame: pa.Table, error: type[LakeconfError], match: str) -> None:
    with pytest.raises(error, match=match):
        on.table(table).merge(frame, on="id")
    with pytest.raises(error, match=match):
        on.table(table).update({"id": nw.col("id") + 1}, "id = 1")


def test_column_that_hides_the_row_ids(lake: Lake) -> None:
    lake.create_table("odd", {"rowid": "BIGINT", "id": "BIGINT"})
    refused(lake, "odd", pa.table({"rowid": [1], "id": [1]}), UnsupportedError, "named rowid")


def test_column_that_an_expression_cannot_name(lake: Lake) -> None:
    lake.create_table("odd", {"a.b": "BIGINT", "id": "BIGINT"})
    frame = pa.table({"a.b": [1], "id": [1]})
    lake.table("odd").append(frame)
    for refused_call in (
        lambda: lake.table("odd").merge(frame, on="id"),
        lambda: lake.table("odd").update({"a.b": nw.col("id") + 1}, "id = 1"),
    ):
        with pytest.raises(UnsupportedError, match=r"cannot use the column name 'a\.b'"):
            refused_call()
    lake.table("odd").update({"id": nw.col("id") + 1, "a.b": 7}, 'id = 1 AND "a.b" = 1')
    assert sorted(lake.table("odd").scan().collect("pyarrow").rows()) == [(7, 2)]


def test_rows_of_the_same_transaction(lake: Lake) -> None:
    with lake.transaction() as transaction:
        transaction.table("stock").append(ROWS)
        refused(transaction, "stock", ROWS, UnsupportedError, "already contains a write")


def test_table_of_the_same_transaction(lake: Lake) -> None:
    with lake.transaction() as transaction:
        transaction.create_table("new", {"id": "BIGINT", "name": "VARCHAR"})
        refused(transaction, "new", ROWS, LakeconfError, "created in this transaction")


def test_columns_that_the_transaction_renamed(lake: Lake) -> None:
    with lake.transaction() as transaction:
        transaction.table("stock").evolve(rename={"name": "title"})
        frame = ROWS.rename_columns(["id", "title"])
        refused(transaction, "stock", frame, LakeconfError, "renamed or dropped in this transaction")
