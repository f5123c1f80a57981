"""The place in a model's text at which DuckDB finds an error."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from local_stores import store_of

from lakeconf.errors import QueryError
from lakeconf.pipelines.models.body import Query

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake


@pytest.fixture
def lake(tmp_path: Path, engine: Any) -> Iterator[Lake]:
    with store_of(tmp_path).open(engine) as lake:
        yield lake


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ¶nope FROM raw.prices",
        "FROM raw.prices SELECT day,\n\n\t ¶nope",
        'SELECT \'日本\', "é".day, ¶nope FROM raw.prices AS "é"',
        'SELECT day FROM raw.prices JOIN "od d".x USING (day) WHERE day > $start AND\n day < $end AND ¶nope = 1',
        "SELECT '$start' AS a, p.day FROM raw.prices p, \"od d\".x WHERE ¶p.nope > $end",
        "-- $start raw.prices nope\nWITH t AS (FROM raw.prices) SELECT /* nope */ day, ¶nope(day) FROM t",
        'SELECT (SELECT max(day) FROM "od d".x WHERE ¶nope) FROM raw.prices;',
    ],
)
def test_error_is_at_its_place_in_the_text(sql: str, lake: Lake) -> None:
    offset = sql.index("¶")
    text = sql.replace("¶", "")
    frames = {name: lake.sql("SELECT DATE '2024-01-01' AS day") for name in ("raw.prices", "od d.x")}
    query = Query(text)
    with pytest.raises(QueryError) as caught:
        query.rows(
            lake, {name: frames[name] for name in query.arguments()}, {"start": date(2024, 1, 1), "end": date.max}
        )
    line = text.count("\n", 0, offset) + 1
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    assert caught.value.message.startswith(f"the SQL, line {line}, column {column}: ")
    # Later errors are written as before.
    with pytest.raises(QueryError, match=r"^Binder Error: Ref"):
        lake.sql("SELECT nope FROM (SELECT 1 AS day)")
