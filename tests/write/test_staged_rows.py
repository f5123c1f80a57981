"""Checks of staged rows, and of tables whose rows cannot be identified."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals as nw
import pyarrow as pa
import pytest
from lake_fixtures import lake_with

from lakeconf.catalog.tables import Column, TableInfo
from lakeconf.connection.connection import Connection, connect
from lakeconf.engines.engine import ROW_ID, Staged
from lakeconf.errors import CommitError, LakeconfError, PredicateError, SchemaError, UnsupportedError
from lakeconf.write.writes import check_condition, check_matches, check_required

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakeconf import Lake, LakeTransaction


NAMES = ("a", "b, c", 'd"e')
INFO = TableInfo(
    1,
    "raw",
    "events",
    tuple(Column(n, name, "int32", nullable=n == 1, initial_default=None) for n, name in enumerate(NAMES, 1)),
    "/data/",
)


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


@pytest.mark.parametrize(("on", "shown"), [(["a"], "a"), (["B, C"], "b, c"), (['d"e', "a"], 'd"e, a')])
def test_several_rows_for_one_row_of_the_table_are_refused(writer: Connection, on: list[str], shown: str) -> None:
    rows = ["(1, 5, NULL, 7)", "(1, 5, NULL, 7)", "(2, 6, 0, 8)"]
    with pytest.raises(CommitError) as refused:
        check_matches(writer, INFO, staged(*rows), on)
    assert refused.value.message == (f"2 rows of the frame match one row of raw.events on {shown}: nothing was written")
    assert refused.value.hint == "keep one row of the frame for each key, or match on more columns"


def test_new_rows_and_single_matches_are_accepted(writer: Connection) -> None:
    check_matches(writer, INFO, staged("(1, 5, 0, NULL)", "(1, 5, 0, NULL)", "(1, 5, 0, 7)", "(1, 5, 0, 8)"), ["b, c"])
    check_matches(writer, INFO, staged("(1, 5, 0, 7)"), ["a"])


@pytest.mark.parametrize(
    ("rows", "column"),
    [(["(1, NULL, 0, 0)"], "b, c"), (["(1, 0, 0, 0)", "(1, 0, NULL, 0)"], 'd"e'), (["(1, NULL, NULL, 0)"], "b, c")],
)
def test_null_in_a_required_column_is_refused(writer: Connection, rows: list[str], column: str) -> None:
    with pytest.raises(SchemaError) as refused:
        check_required(writer, INFO, staged(*rows), NAMES)
    assert repr(column) in refused.value.message
    assert "raw.events" in refused.value.message


def test_null_is_accepted_where_it_is_allowed(writer: Connection) -> None:
    check_required(writer, INFO, staged("(NULL, 0, 0, 0)"), NAMES)
    check_required(writer, INFO, staged("(1, NULL, NULL, 0)"), ["a"])
    check_required(writer, INFO, Staged("FROM a_table_that_does_not_exist"), ["a"])
    check_required(writer, INFO, staged("(1, NULL, 0, 0)", "(2, 0, 0, 0)"), NAMES, "a = 2")
    with pytest.raises(SchemaError):
        check_required(writer, INFO, staged("(1, NULL, 0, 0)", "(2, 0, 0, 0)"), NAMES, "a = 1")


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
