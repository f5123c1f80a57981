"""Whatever writes the rows of the catalog to files keeps their values, at every snapshot."""

from __future__ import annotations

import contextlib
import itertools
import logging
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from lake_parts import catalog_of, session_of
from local_stores import store_of
from plain_sql import run_plain
from strength import PROVE

from lakeconf import Lake, LakeconfError, Table, Update
from lakeconf.catalog.snapshot import snapshots
from lakeconf.commit.moved_values import ValuesChangedError
from lakeconf.inspection.table_copy import TableCopies
from lakeconf.lake.maintenance import Maintenance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EXAMPLES = 400 if PROVE else 10
# Values of each type that DuckLake keeps in the catalog; of some, files hold only the last.
VALUES = {
    "HUGEINT": ("170141183460469231731687303715884105727", "9007199254740993", "5"),
    "UHUGEINT": ("340282366920938463463374607431768211455", "9007199254740993", "5"),
    "INTERVAL": (
        "INTERVAL '1 hour 0.000001 second'", "INTERVAL '2000 hours'", "INTERVAL '-1 hour'", "INTERVAL '1 day'",
    ),
    "TIMETZ": ("TIMETZ '01:00:00+02'", "TIMETZ '24:00:00'", "TIMETZ '01:00:00.5+00'"),
    "TIMESTAMP_S": ("'infinity'", "'2024-01-01 00:00:01'"),
    "TIMESTAMP_NS": ("'2024-01-01 00:00:00.123456789'",),
    "TIMESTAMPTZ": ("'2024-01-01 00:00:00.123456+05'", "'infinity'"),
    "TIME": ("'24:00:00'", "'01:02:03.123456'"),
    "DATE": ("'infinity'", "'0044-03-15 (BC)'"),
    "DOUBLE": ("'nan'", "0.1"),
    "DECIMAL(38, 5)": ("123456789012345678901234567890123.12345",),
    "UBIGINT": ("18446744073709551615",),
    "VARCHAR": ("'24:00:00 ~ 1.1234567'",),
    "UUID": ("'ffffffff-ffff-ffff-ffff-fffffffffff0'",),
    "BLOB": ("'\\x00\\xFF'",),
}  # fmt: skip
NESTED = {
    "{}": "{}",
    "STRUCT(a {})": "{{'a': {}}}",
    "{}[]": "[{}]",
    "MAP(VARCHAR, {})": "MAP {{'k': {}}}",
    "MAP({}, INTEGER)": "MAP {{{}: 1}}",
    "STRUCT(a {}[])[]": "[{{'a': [{}]}}]",
}
CASES = [(one, nested) for one in VALUES for nested in NESTED]
_numbers = itertools.count()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake that keeps small writes in the catalog."""
    folder = tmp_path_factory.mktemp("lake")
    with store_of(
        folder, {"type": "duckdb", "uri": str(folder / "catalog")}, data_inlining_row_limit=20
    ).open() as lake:
        yield lake


def fill(lake: Lake, table: str, columns: str, *statements: str) -> None:
    """Creates a table as other writers do: small writes stay in the catalog."""
    limit = f"CALL dev.set_option('data_inlining_row_limit', {{}}, table_name => '{table}')"
    run_plain(lake, f"CREATE TABLE {table} ({columns})", limit.format(20), *statements, limit.format(0))
    lake.refresh()


def rows_at(lake: Lake, table: str, version: int) -> Any:
    """All rows of a table, as text; the reason if DuckDB cannot read them."""
    with contextlib.closing(session_of(lake).writer.cursor()) as connection:
        try:
            return sorted(
                connection.rows(f"SELECT CAST(t AS VARCHAR) FROM (FROM dev.{table} AT (VERSION => {version})) AS t")
            )
        except LakeconfError as error:
            return str(error)


def history(lake: Lake, table: str, first: int) -> dict[int, Any]:
    found = [one.snapshot_id for one in snapshots(catalog_of(lake))]
    return {version: rows_at(lake, table, version) for version in found if version >= first}


def create(lake: Lake, columns: list[tuple[str, str]]) -> tuple[str, int]:
    """A table with the columns `id`, `s` and those of these types, and its first snapshot; a row is deleted again."""
    table = f"t{next(_numbers)}"
    types = ", ".join(f"c{index} {type_}" for index, (type_, _) in enumerate(columns))
    values = ", ".join(f"CAST({value} AS {type_})" for type_, value in columns)
    inserted = f"INSERT INTO {table} VALUES (1, 'a', {values}), (2, 'b', {values})"
    deleted = f"DELETE FROM {table} WHERE id = 2", f"INSERT INTO {table} (id, s) VALUES (3, 'c')"
    fill(lake, table, f"id INTEGER, s VARCHAR, {types}", inserted, *deleted)
    first = lake.snapshot_id - 3  # the last of them sets the limit
    return table, first


def overwrite_partitions(lake: Lake, table: Table) -> None:
    run_plain(lake, f"ALTER TABLE {table.name} SET PARTITIONED BY (s)")
    lake.refresh()
    table.overwrite_partitions(table.scan())


# What writes existing rows again, with the lake, the table and its first snapshot with rows.
OPERATIONS: dict[str, Callable[[Lake, Table, int], object]] = {
    "Maintenance.flush": lambda lake, *_: lake.maintenance.flush(),
    "Maintenance.compact": lambda lake, *_: lake.maintenance.compact(),
    "Maintenance.rewrite": lambda lake, *_: lake.maintenance.rewrite(),
    "Table.append": lambda _, table, __: table.append(table.scan()),
    "Table.update": lambda _, table, __: table.update({"s": "new"}, where="id = 1"),
    "Table.update computed": lambda _, table, __: table.update(
        {"s": nw.concat_str(nw.col("s"), nw.col("s"))}, where="id = 1"
    ),
    "Table.update another row": lambda _, table, __: table.update({"s": "new"}, where="id = 3"),
    "Lake.execute": lambda lake, table, _: lake.execute(f"UPDATE {table.name} SET s = 'new' WHERE id = 1"),
    "Table.merge": lambda _, table, __: table.merge(
        table.scan().with_columns(s=nw.lit("new")), on="id", matched=Update()
    ),
    "Table.overwrite": lambda _, table, __: table.overwrite(table.scan()),
    "Table.overwrite_partitions": lambda lake, table, _: overwrite_partitions(lake, table),
    "Table.evolve": lambda _, table, __: table.evolve(promote={"id": "BIGINT"}),
    "Table.delete": lambda _, table, __: table.delete("id = 3"),
    "Lake.restore": lambda lake, table, first: lake.restore(table.name, version=first),
}
# These read, change definitions or write no row that exists; streams append the frames of their batches.
OTHERS = {
    Lake: "adopt at audit close columns_of create_table create_view drop_table drop_view maintenance open plan_adopt "
    "plan_restore read_parquet refresh rename_table runs snapshot_id snapshots sql stream stream_sink table tables "
    "transaction views",
    Maintenance: "cleanup expire_snapshots plan_cleanup plan_compaction",
    Table: "changes column_comments comment count explain files head history idempotency_keys scan schema "
    "set_comments to_arrow to_pandas to_polars",
}


@pytest.mark.parametrize("kind", OTHERS)
def test_each_public_method_that_moves_values_is_an_operation(kind: type) -> None:
    moving = {name.partition(" ")[0] for name in OPERATIONS}
    public = {name for name in dir(kind) if not name.startswith("_")}
    assert {name for name in public if f"{kind.__name__}.{name}" not in moving} == set(OTHERS[kind].split())


def check(lake: Lake, columns: list[tuple[str, str]], operations: list[str]) -> None:
    table, first = create(lake, columns)
    try:
        check_table(lake, table, first, operations)
    finally:
        lake.drop_table(table)


def check_table(lake: Lake, table: str, first: int, operations: list[str]) -> None:
    for name in operations:
        before = history(lake, table, first)
        with contextlib.suppress(LakeconfError):
            OPERATIONS[name](lake, lake.table(table), first)
        lake.refresh()
        after = history(lake, table, first)
        assert {version: after[version] for version in before} == before, name
        assert not [rows for rows in after.values() if isinstance(rows, str)], name
        # Whatever was written, the other columns are as they were.
        values = [row[row.index("'c0'") :] for rows in before.values() for (row,) in rows]
        assert {row[row.index("'c0'") :] for (row,) in after[max(after)]} <= set(values), name


def column(case: tuple[str, str], index: int) -> tuple[str, str]:
    type_, nested = case
    values = VALUES[type_]
    return nested.format(type_), NESTED[nested].format(f"CAST({values[index % len(values)]} AS {type_})")


@pytest.mark.slow
@given(
    columns=st.lists(st.builds(column, st.sampled_from(CASES), st.integers(0, 3)), min_size=1, max_size=3),
    operations=st.lists(st.sampled_from(list(OPERATIONS)), min_size=1, max_size=2),
)
@settings(max_examples=EXAMPLES, phases=[Phase.explicit, Phase.generate])
@example(columns=[column(("HUGEINT", "{}"), 0)], operations=["Maintenance.flush"])
@example(columns=[column(("UHUGEINT", "{}[]"), 1)], operations=["Maintenance.compact"])
@example(columns=[column(("INTERVAL", "STRUCT(a {})"), 0)], operations=["Table.update"])
@example(columns=[column(("INTERVAL", "{}"), 1)], operations=["Table.update computed"])
@example(columns=[column(("HUGEINT", "MAP({}, INTEGER)"), 1)], operations=["Lake.execute"])
@example(columns=[column(("TIMETZ", "{}[]"), 0)], operations=["Table.merge", "Maintenance.flush"])
@example(columns=[column(("TIMETZ", "{}"), 1)], operations=["Lake.restore", "Table.update"])
@example(columns=[column(("HUGEINT", "{}"), 1)], operations=["Table.overwrite_partitions"])
@example(columns=[column(("INTERVAL", "{}[]"), 0)], operations=["Table.append", "Maintenance.rewrite"])
def test_no_operation_changes_a_value(lake: Lake, columns: list[tuple[str, str]], operations: list[str]) -> None:
    check(lake, columns, operations)


@pytest.mark.slow
@given(columns=st.lists(st.builds(column, st.sampled_from(CASES), st.integers(0, 3)), min_size=1, max_size=3))
@settings(max_examples=EXAMPLES // 5, phases=[Phase.explicit, Phase.generate])
@example(columns=[column(("HUGEINT", "{}"), 0)])
@example(columns=[column(("INTERVAL", "STRUCT(a {})"), 0)])
def test_a_copy_has_the_values_of_its_source(
    lake: Lake, columns: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = store_of(tmp_path_factory.mktemp("source"), data_inlining_row_limit=20)
    with store.open() as source:
        table, _ = create(source, columns)
        expected = rows_at(source, table, source.snapshot_id)
    copies = TableCopies(lake, store)
    try:
        copies.copy(copies.plan([table]))
    except LakeconfError:
        assert table not in lake.tables()
        return
    finally:
        session_of(lake).writer.execute("DETACH lakeconf_source")
    assert rows_at(lake, table, lake.refresh()) == expected
    lake.drop_table(table)


def test_a_flush_leaves_the_rows_of_a_table_in_the_catalog(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    fill(lake, "held", "h HUGEINT", "INSERT INTO held VALUES (5)")
    fill(lake, "huge", "h HUGEINT", "INSERT INTO huge VALUES (9007199254740993), (1)")
    # TIME_NS cannot be written to a file at all, and DuckDB would close the database.
    fill(lake, "times", "t TIME_NS", "INSERT INTO times VALUES ('01:02:03.123456789')")
    with caplog.at_level(logging.WARNING, "lakeconf"):
        lake.maintenance.compact()
    assert "main.huge has values in the catalog that files cannot hold, so its rows stay there" in caplog.text
    assert "main.times has values in the catalog" in caplog.text
    assert [one.flushed_rows for one in lake.maintenance.plan_compaction()] == [2, 1]
    for name in ("held", "huge", "times"):
        lake.drop_table(name)


def test_an_update_of_the_value_itself_is_possible(lake: Lake) -> None:
    fill(lake, "huge", "id INTEGER, h HUGEINT", "INSERT INTO huge VALUES (1, 9007199254740993)")
    for change in (
        lambda: lake.table("huge").update({"id": 2}, where="id = 1"),
        lambda: lake.execute("UPDATE huge SET id = id + 1"),
    ):
        with pytest.raises(ValuesChangedError, match=r"the rows of main\.huge in the catalog have values in h"):
            change()
    lake.table("huge").update({"h": 7}, where="id = 1")
    lake.table("huge").update({"id": 2}, where="id = 1")
    assert lake.table("huge").scan().collect().rows() == [(2, 7)]
    lake.drop_table("huge")
