"""Values are stored exactly, or rejected with the name of the column; none is rounded, replaced or lost."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from local_stores import rows
from merge_cases import commit_info
from strength import in_prove

from lakeconf.errors import SchemaError, UnsupportedError

if TYPE_CHECKING:
    from lakeconf import Lake

PLACEHOLDERS = [
    *("AUTHOR", "COMMIT_EXTRA_INFO", "COMMIT_MESSAGE", "DATA_PATH", "METADATA_CATALOG", "METADATA_PATH"),
    *("METADATA_CATALOG_NAME_IDENTIFIER", "METADATA_CATALOG_NAME_LITERAL", "METADATA_SCHEMA_ESCAPED"),
    *("METADATA_SCHEMA_NAME_LITERAL", "NEXT_CATALOG_ID", "NEXT_FILE_ID", "SCHEMA_VERSION", "SNAPSHOT_ID"),
]


# (type of the column, values that fit, values that would be rounded)
ROUNDED: dict[str, tuple[str, pa.Array, pa.Array]] = {
    "decimal": (
        "HUGEINT",
        pa.array([Decimal("2.00")], pa.decimal128(9, 2)),
        pa.array([Decimal("1.50")], pa.decimal128(9, 2)),
    ),
    "seconds": ("TIMESTAMP_S", pa.array([2_000_000], pa.timestamp("us")), pa.array([2_600_000], pa.timestamp("us"))),
    "milliseconds": ("TIMESTAMP_MS", pa.array([2_000], pa.timestamp("us")), pa.array([2_600], pa.timestamp("us"))),
    "time as text": ("TIME", pa.array(["12:00:00.123456"]), pa.array(["12:00:00.1234567"])),
    "interval as text": ("INTERVAL", pa.array(["00:00:01.5"]), pa.array(["00:00:01.0000005"])),
}


@pytest.mark.slow("on_spark")
def test_value_that_would_be_rounded_is_rejected(lake: Lake) -> None:
    lake.create_table("t", {"id": "BIGINT", **{name: kind for name, (kind, *_) in ROUNDED.items()}})
    fits = {"id": pa.array([1], pa.int64()), **{name: good for name, (_, good, _) in ROUNDED.items()}}
    lake.table("t").append(pa.table(fits))
    stored = rows(lake, "FROM t")
    assert stored[0][1:4] == (2, dt.datetime(1970, 1, 1, 0, 0, 2), dt.datetime(1970, 1, 1, 0, 0, 0, 2000))
    before = lake.snapshot_id
    for name, (_, _, bad) in ROUNDED.items():
        frame = pa.table(fits | {name: bad})
        for write in (
            lambda table, frame=frame: table.append(frame),
            lambda table, frame=frame: table.merge(frame, on="id"),
        ):
            with pytest.raises(SchemaError, match=f"'{name}' has values that its type .* would round"):
                write(lake.table("t"))
    assert (lake.refresh(), rows(lake, "FROM t")) == (before, stored)


def test_nanosecond_timestamps_with_time_zone_are_not_truncated(lake: Lake) -> None:
    lake.create_table("t", {"at": "TIMESTAMPTZ"})
    lake.table("t").append(pa.table({"at": pa.array([1_000], pa.timestamp("ns", "UTC"))}))
    with pytest.raises(SchemaError, match="would lose data"):
        lake.table("t").append(pa.table({"at": pa.array([1_001], pa.timestamp("ns", "UTC"))}))
    assert rows(lake, 'SELECT epoch_us("at") FROM t') == [(1,)]


@pytest.mark.slow("on_spark")
def test_columns_with_only_nulls(lake: Lake) -> None:
    types = {"id": "BIGINT", "s": "VARCHAR", "d": "DATE", "l": "VARCHAR[]", "st": "STRUCT(a DATE)", "u": "UUID"}
    lake.create_table("t", types)
    nothing = {name: pa.nulls(1) for name in types if name != "id"}
    frame = pa.table({"id": pa.array([1], pa.int64()), **nothing})
    lake.table("t").append(frame)
    lake.table("t").merge(frame, on="id")
    lake.table("t").overwrite(frame)
    assert rows(lake, "FROM t") == [(1, None, None, None, None, None)]
    lake.table("t").overwrite(pa.table({**nothing, "id": pa.array([1], pa.int64()), "l": [[None]]}))
    assert rows(lake, "SELECT id, l FROM t") == [(1, [None])]
    with pytest.raises(SchemaError, match=r"more.* contains only NULLs"):
        lake.table("t").append(frame.append_column("more", pa.nulls(1)), evolve=True)
    with pytest.raises(SchemaError, match="'s' contains only NULLs"):
        lake.create_table("n", frame)


@pytest.mark.slow("on_spark")
def test_value_with_a_ducklake_placeholder_is_rejected(lake: Lake) -> None:
    """In the file statistics, a replaced value would prune rows that match, such as `b` here."""
    lake.create_table("t", {"s": "VARCHAR", "l": "VARCHAR[]", "st": "STRUCT(a BLOB)", "m": "MAP(VARCHAR, VARCHAR)"})

    def frame(**bad: Any) -> pa.Table:
        good: dict[str, Any] = {"s": "{b}", "l": ["{", "SNAPSHOT_ID}"], "st": {"a": b"{x}"}, "m": {"AUTHOR": "1"}}
        values = {name: [value, bad.get(name, value)] for name, value in good.items()}
        values["m"] = [list(value.items()) for value in values["m"]]
        kinds = {"st": pa.struct({"a": pa.binary()}), "m": pa.map_(pa.string(), pa.string())}
        return pa.table({name: pa.array(column, kinds.get(name)) for name, column in values.items()})

    lake.table("t").append(frame())
    before = lake.snapshot_id
    poison = "a{SNAPSHOT_ID}"
    for bad in (
        {"s": poison},
        {"l": [None, poison]},
        {"st": {"a": poison.encode()}},
        {"m": {poison: ""}},
        {"m": {"k": poison}},
    ):
        (name,) = bad
        with pytest.raises(SchemaError, match=f"'{name}' has a value with a placeholder"):
            lake.table("t").append(frame(**bad))
    with pytest.raises(SchemaError, match="'s' has a value with a placeholder"):
        lake.table("t").merge(frame(s=poison), on="s", matched=None)
    with pytest.raises(SchemaError, match="'s' has a value with a placeholder"):
        lake.table("t").update({"s": nw.lit(poison)}, "s IS NOT NULL")
    with pytest.raises(SchemaError, match=r"the value contains \{SNAPSHOT_ID\}"):
        lake.table("t").update({"s": poison}, "s IS NOT NULL")
    assert lake.refresh() == before
    assert len(rows(lake, "FROM t WHERE s = '{b}'")) == 2


def test_placeholder_in_commit_metadata_or_a_definition_is_rejected(two_tables: Lake) -> None:
    lake, before = two_tables, two_tables.snapshot_id
    for word in PLACEHOLDERS:
        text = f"a{{{word}}}"
        for refused in (
            lambda text: lake.create_table("v", {"id": "BIGINT"}, comment=text),
            lambda text: lake.create_table("v", {"id": "BIGINT"}, column_comments={"id": text}),
            lambda text: lake.create_table("v", {text: "BIGINT"}),
            lambda text: lake.create_table(f'"{text}"', {"id": "BIGINT"}),
            lambda text: lake.table("t").evolve(add={"s": "VARCHAR"}, defaults={"s": text}),
            lambda text: lake.table("t").append(pa.table({"id": [1]}), idempotency_key=text),
            lambda text: lake.create_view("v", f"SELECT '{text}'"),
            lambda text: lake.transaction(text).__enter__(),
            lambda text: lake.transaction(author=text).__enter__(),
        ):
            with pytest.raises(SchemaError, match=rf"\{{{word}\}}, which DuckLake would replace"):
                refused(text)
    assert lake.refresh() == before
    extra = {text: {"a": text}}
    with lake.transaction(extra=extra) as tx:
        tx.table("t").append(pa.table({"id": [1]}))
    assert commit_info(lake, lake.snapshot_id)["extra"] == extra


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.b", "a b", "'", *in_prove(["*", 'a"', "a`b", "Ä", "a;b", "target_id"])])
def test_column_names_with_special_characters(lake: Lake, name: str) -> None:
    """Operations that need a narwhals expression reject names that narwhals cannot express."""
    frame = pa.table({"id": pa.array([1, 2], pa.int64()), name: pa.array([1, 2], pa.int64())})
    lake.create_table("t", frame)
    lake.table("t").append(frame)
    lake.table("t").update({name: 5}, "id = 1")
    lake.table("t").update({"id": nw.col("id") * 1}, "id = 1")
    assert rows(lake, "FROM t") == [(1, 5), (2, 2)]
    if set(name) & set('."`*'):
        for refused in (
            lambda: lake.table("t").merge(frame, on="id"),
            lambda: lake.table("t").merge(frame, on=name),
            lambda: lake.table("t").update({name: nw.col("id") + 1}, "id = 1"),
        ):
            with pytest.raises(UnsupportedError, match="cannot use the column name"):
                refused()
    else:
        lake.table("t").merge(frame, on="id")
        assert rows(lake, "FROM t") == [(1, 1), (2, 2)]
    lake.table("t").overwrite(frame)
    assert rows(lake, "FROM t") == [(1, 1), (2, 2)]


def test_column_names_with_the_lakeconf_prefix_are_rejected(two_tables: Lake) -> None:
    with pytest.raises(SchemaError, match="lakeconf uses names that start with '__lakeconf_'"):
        two_tables.create_table("v", {"__LAKECONF_x": "BIGINT"})
    two_tables.table("t").evolve(add={"s": "STRUCT(a DATE)"})
    for change in (
        {"add": {"__lakeconf_action": "BIGINT"}},
        {"add": {"s.__lakeconf_x": "DATE"}},
        {"rename": {"id": "__lakeconf_row_id"}},
    ):
        with pytest.raises(SchemaError, match="lakeconf uses names"):
            two_tables.table("t").evolve(**change)  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="lakeconf uses names"):
        two_tables.table("u").append(pa.table({"id": [1], "__lakeconf_row_id": [1]}), evolve=True)
