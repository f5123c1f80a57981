"""Errors of narwhals become one error that names the column and lists only the user's columns."""

from __future__ import annotations

import duckdb
import narwhals as nw
import pytest

from lakeconf.catalog.pruning.where import named_columns
from lakeconf.errors import SchemaError, UnsupportedError


@pytest.mark.parametrize(
    ("expression", "message", "hint"),
    [
        (nw.col("ammount"), "the expression uses an unknown column: 'ammount'", 'did you mean "amount"?'),
        (
            nw.col("id") + nw.col("zz"),
            "the expression uses an unknown column: 'zz'",
            "use one of the columns: id, amount",
        ),
        (
            nw.col("id").str.to_uppercase(),
            "narwhals cannot convert the expression to SQL: Binder Error: No function",
            "use",
        ),
        (nw.col("id").map_batches(lambda found: found), "'map_batches' is not implemented", "use other operations"),
    ],
    ids=["similar", "second", "type", "operation"],
)
def test_error_names_the_problem_once(expression: nw.Expr, message: str, hint: str) -> None:
    with duckdb.connect() as connection:
        frame = nw.from_native(connection.sql("SELECT 1 AS id, 2 AS amount, 3 AS __lakeconf_row_id"))
        with pytest.raises(SchemaError) as refused, named_columns(["id", "amount"]):
            frame.select(expression)
    assert message in refused.value.message
    assert "__lakeconf" not in str(refused.value)
    assert "hint" not in refused.value.message.lower()
    assert len(refused.value.message.splitlines()) == 1
    assert str(refused.value.hint).startswith(hint)


def test_errors_of_lakeconf_stay() -> None:
    with pytest.raises(UnsupportedError), named_columns([]):
        raise UnsupportedError("x")
