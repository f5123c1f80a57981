"""Sort keys: columns with a direction and a place for NULL."""

from __future__ import annotations

import pytest

from lakeconf.catalog.sort_keys import SortKey, sort_keys
from lakeconf.catalog.tables import Column
from lakeconf.errors import SchemaError

COLUMNS = tuple(
    Column(number, name, kind, nullable=True, initial_default=None)
    for number, (name, kind) in enumerate(
        {"Day": "date", "price": "int64", "price desc": "int64", 'o"d, d': "varchar", "tags": "list"}.items(), start=1
    )
)


@pytest.mark.parametrize(
    ("text", "key", "sql"),
    [
        ("day", SortKey("Day"), '"Day" ASC NULLS LAST'),
        (" DAY  desc ", SortKey("Day", descending=True), '"Day" DESC NULLS LAST'),
        ("day nulls first", SortKey("Day", nulls_first=True), '"Day" ASC NULLS FIRST'),
        ("price desc", SortKey("price desc"), '"price desc" ASC NULLS LAST'),
        ("price desc nulls last", SortKey("price", descending=True), '"price" DESC NULLS LAST'),
        ('o"d, d ASC', SortKey('o"d, d'), '"o""d, d" ASC NULLS LAST'),
    ],
)
def test_text_is_a_key(text: str, key: SortKey, sql: str) -> None:
    assert sort_keys([text], COLUMNS) == (key,)
    assert key.sql == sql
    assert sort_keys([str(key)], COLUMNS) == (key,)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "there is no column to sort by"),
        (["dya"], "the sort key 'dya' names an unknown column: 'dya'"),
        (["day", "DAY desc"], "the column 'Day' is in the sort order twice"),
        (["tags"], "cannot sort by the column 'tags': its type is list"),
        (["day; DROP TABLE t"], "names an unknown column: 'day; DROP TABLE t'"),
    ],
)
def test_other_texts_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        sort_keys(texts, COLUMNS)
    assert message in caught.value.message
