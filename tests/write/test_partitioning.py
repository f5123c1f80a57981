"""Partition keys of a table as expressions, and keys that recur."""

from __future__ import annotations

import pytest

from lakeconf.catalog.table import Column, PartitionField, TableInfo
from lakeconf.errors import SchemaError
from lakeconf.write.partitioning import check_recurring, partition_keys

COLUMNS = tuple(
    Column(field_id, name, "timestamp", nullable=True, initial_default=None)
    for field_id, name in ((1, "at"), (2, 'o"dd'), (3, "late"))
)


def table(*keys: tuple[int, str]) -> TableInfo:
    fields = tuple(PartitionField(index, field_id, transform) for index, (field_id, transform) in enumerate(keys))
    return TableInfo(1, "raw", "events", COLUMNS, "/data/", 1, fields)


def test_keys_are_expressions_in_their_order() -> None:
    keys = partition_keys(table((2, "identity"), (1, "year"), (1, "hour"), (2, "bucket(8)")))
    assert keys == ['"o""dd"', 'year("at")', 'hour("at")', '(murmur3_32("o""dd") & 2147483647) % 8']
    assert partition_keys(table()) == []


@pytest.mark.parametrize(
    "keys",
    [
        [],
        [(1, "year")],
        [(1, "identity")],
        [(1, "bucket(4)")],
        [(1, "year"), (1, "month")],
        [(1, "day"), (1, "month"), (1, "year")],
        [(1, "year"), (1, "month"), (1, "day"), (1, "hour")],
        [(1, "identity"), (1, "month")],
    ],
)
def test_key_with_all_larger_parts_does_not_recur(keys: list[tuple[int, str]]) -> None:
    check_recurring(table(*keys))


@pytest.mark.parametrize(
    ("keys", "key", "missing", "wanted"),
    [
        ([(1, "month")], "month(at)", "year", '"year(at)", "month(at)"'),
        ([(1, "year"), (1, "day")], "day(at)", "month", '"year(at)", "month(at)", "day(at)"'),
        ([(1, "month"), (1, "day")], "day(at)", "year", '"year(at)", "month(at)", "day(at)"'),
        (
            [(1, "year"), (1, "month"), (1, "hour")],
            "hour(at)",
            "day",
            '"year(at)", "month(at)", "day(at)", "hour(at)"',
        ),
        ([(3, "year"), (1, "month")], "month(at)", "year", '"year(at)", "month(at)"'),
        ([(3, "identity"), (1, "month")], "month(at)", "year", '"year(at)", "month(at)"'),
    ],
)
def test_key_that_recurs_is_refused(keys: list[tuple[int, str]], key: str, missing: str, wanted: str) -> None:
    with pytest.raises(SchemaError) as refused:
        check_recurring(table(*keys))
    assert refused.value.message == (
        f"{key} recurs: a partition of raw.events contains rows of every {missing}, and all of them would be replaced"
    )
    assert refused.value.hint == (
        f"use overwrite(frame, where=…), partition the table by [{wanted}], or pass recurring=True"
    )
