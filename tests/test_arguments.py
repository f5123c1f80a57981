"""Arguments of the Python API: a wrong one is refused with a named error and a hint, and none of a kind is left out."""

from __future__ import annotations

import datetime as dt
import inspect
import itertools
from typing import TYPE_CHECKING, Any, cast

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hint_words import VERBS
from local_stores import store_of

import lakeconf
from lakeconf.arguments import check_flags, native_connection, whole_number
from lakeconf.errors import LakeconfError
from lakeconf.lake.lake import Lake
from lakeconf.lake.maintenance import Maintenance
from lakeconf.lake.table import Table
from lakeconf.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Other arguments of the functions that have a flag.
OTHERS: dict[str, dict[str, object]] = {
    "append": {"frame": [{"id": 1}]},
    "overwrite": {"frame": [{"id": 1}]},
    "overwrite_partitions": {"frame": [{"id": 1}]},
    "merge": {"frame": [{"id": 1}], "on": "id"},
    "create_table": {"name": "raw.t", "like": {"id": "BIGINT"}},
    "drop_table": {"name": "raw.t"},
    "drop_view": {"name": "raw.t"},
    "stream": {"table": "raw.t"},
    "expire_snapshots": {"older_than": None},
    "cleanup": {"older_than": None},
    "plan_cleanup": {"older_than": None},
    "attach": {"connection": None},
    "plan_restore_lake": {"backup": "backups/b"},
    "restore_lake": {"backup": "backups/b"},
}
# `for_reading` and `replace` serve lakeconf itself.
FLAGS = [
    (kind, name, parameter.name)
    for kind in (Store, Lake, Table, Maintenance)
    for name, method in inspect.getmembers(kind, inspect.isfunction)
    if not name.startswith("_") and name != "for_reading"
    for parameter in inspect.signature(method).parameters.values()
    if parameter.annotation == "bool"
]


def test_flag_that_is_no_bool_is_refused(store: Store) -> None:
    assert {("preview_sql", "show_secrets"), ("cleanup", "force"), ("append", "evolve")} <= {flag[1:] for flag in FLAGS}
    check_flags(a=True, b=False)
    with store.open() as lake:
        lake.create_table("raw.t", {"id": "BIGINT"})
        before, table = lake.snapshot_id, lake.table("raw.t")
        owners: dict[Any, Any] = {Store: store, Lake: lake, Table: table, Maintenance: lake.maintenance}
        for (kind, name, flag), value in itertools.product(FLAGS, ["no", None, 1]):
            with pytest.raises(LakeconfError) as refused:
                getattr(owners[kind], name)(**{**OTHERS.get(name, {}), flag: value})
            assert refused.value.message == f"{flag} is {value!r}, and neither True nor False", (kind, name)
            assert refused.value.hint == f"write {flag}=True, or omit it"
        assert lake.refresh() == before


def test_only_whole_numbers_are_accepted() -> None:
    for value in (0, 10, np.int64(7), 2**63 - 1):
        assert whole_number(value, "n", at_least=0) == value
    for other in (-1, True, 1.0, "1", None, 2**63, np.float64(1)):
        with pytest.raises(LakeconfError, match=r"n is .*, and not a whole number of at least 0") as refused:
            whole_number(other, "n", at_least=0)
        assert refused.value.hint == "pass a number: n=10"


def test_only_connections_of_duckdb_are_attached_to(store: Store) -> None:
    for value in (None, 5, "duckdb", duckdb):
        with pytest.raises(LakeconfError, match="is not a connection to DuckDB") as refused:
            store.attach(cast("Any", value))
        assert refused.value.hint == "pass one: store.attach(duckdb.connect())"
    with duckdb.connect() as connection:
        assert native_connection(connection) is connection


ROWS = pa.table({"id": [1, 2], "kind": ["view", "buy"]})
FRAME = pd.DataFrame({"id": [1], "kind": ["sale"]})
WEEK = dt.timedelta(weeks=1)
Delete: Any = lakeconf.Delete
Insert: Any = lakeconf.Insert
Update: Any = lakeconf.Update


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with store_of(tmp_path_factory.mktemp("wrong_arguments")).open() as lake:
        lake.create_table("raw.events", ROWS).append(ROWS)
        yield lake


def events(lake: Any) -> Any:
    return lake.table("raw.events")


# The lake is of the type Any: a type checker refuses most of these calls.
CALLS: list[tuple[Callable[[Any], object], str]] = [
    (lambda lake: lake.at(timestamp="2020-01-01"), "has no time zone"),
    (lambda lake: lake.at(timestamp=dt.date(2020, 1, 1)), "has no time zone"),
    (lambda lake: lake.at(timestamp="yesterday"), "'yesterday' is not a time"),
    (lambda lake: lake.at(timestamp=1767225600), "1767225600 is not a time"),
    (lambda lake: lake.at(version="1"), "'1' is not a version"),
    (lambda lake: lake.at(version=True), "True is not a version"),
    (lambda lake: lake.at(version=[1]), r"\[1\] is not a version"),
    (lambda lake: lake.restore("raw.events", timestamp="2020-01-01"), "has no time zone"),
    (lambda lake: lake.plan_restore("raw.events", version="1"), "'1' is not a version"),
    (lambda lake: events(lake).changes("1"), "'1' is not a time"),
    (lambda lake: events(lake).changes(1.5), "1.5 is not a version"),
    (lambda lake: events(lake).changes(1, dt.date(2020, 1, 1)), "has no time zone"),
    (lambda lake: lake.create_table("t", {"a": int}), "the type of the column 'a' is not a string: <class 'int'>"),
    (lambda lake: lake.create_table("t", {"a": pa.int64()}), "the type of the column 'a' is not a string"),
    (lambda lake: lake.create_table("t", {1: "INTEGER"}), "the column name 1 is not a string"),
    (lambda lake: lake.create_table("t", {}), "a table needs at least one column"),
    (lambda lake: lake.create_table(None, {"a": "DATE"}), "None is not a valid table name"),
    (lambda lake: lake.create_table("t", {"kind": "DATE"}, partitioned_by="kind"), "and not a list of names"),
    (lambda lake: lake.create_table("t", {"a": "DATE"}, sorted_by=[1]), "sorted_by contains 1"),
    (lambda lake: lake.create_table("t", {"a": "DATE"}, comment=5), "a comment is not a string: 5"),
    (lambda lake: lake.create_table("t", {"a": "DATE"}, column_comments={"a": 5}), "a comment is not a string: 5"),
    (lambda lake: events(lake).set_comments(columns=["id"]), "are not a dictionary"),
    (lambda lake: lake.table(5).schema, "5 is not a valid table name"),
    (lambda lake: lake.execute("DELETE FROM raw.events WHERE id = ?"), "parameter"),
    (lambda lake: lake.execute(None), "the SQL is not a string: NoneType"),
    (lambda lake: lake.sql("SELECT ?"), "parameter"),
    (lambda lake: lake.sql(None), "the SQL is not a string: NoneType"),
    (lambda lake: events(lake).evolve(drop=["nothing"]), "cannot drop an unknown column: 'nothing'"),
    (lambda lake: events(lake).evolve(drop="kind"), "drop is 'kind', and not a list of names"),
    (lambda lake: events(lake).evolve(rename={"zz": "x"}), "cannot rename an unknown column: 'zz'"),
    (lambda lake: events(lake).evolve(add=["x"]), "add is not a dictionary"),
    (lambda lake: events(lake).evolve(add={"x": str}), "the type of the column 'x' is not a string"),
    (lambda lake: events(lake).scan("id"), "columns is 'id', and not a list of names"),
    (lambda lake: events(lake).scan([1]), "columns contains 1"),
    (lambda lake: events(lake).scan(where=5), "5 is not a condition"),
    (lambda lake: events(lake).delete(None), "None is not a condition"),
    (lambda lake: events(lake).delete(lambda _: True), "is not a condition"),
    (lambda lake: events(lake).delete(pl.col("id") > 1), "is not a condition"),
    (lambda lake: events(lake).update("kind = 'x'", "id = 1"), "are not a dictionary"),
    (lambda lake: events(lake).update({"kind": object()}, "id = 1"), "object is not the type of a value"),
    (lambda lake: events(lake).update({"kind": pl.col("id")}, "id = 1"), "Expr is not the type of a value"),
    (lambda lake: events(lake).update({"kind": pd.NA}, "id = 1"), "NAType is not the type of a value"),
    (lambda lake: events(lake).merge(FRAME, on=1), "on is 1, and not a list of names"),
    (lambda lake: events(lake).merge(FRAME, on="id", matched="update"), "matched of a merge is 'update'"),
    (lambda lake: events(lake).merge(FRAME, on="id", not_matched=True), "not_matched of a merge is True"),
    (lambda lake: events(lake).append(FRAME, idempotency_key=5), "the idempotency key 5 is not a string"),
    (lambda lake: events(lake).append(pd.DataFrame()), "the frame has no columns"),
    (lambda lake: events(lake).append([{}]), "the frame has no columns"),
    (lambda lake: events(lake).head("x"), "n is 'x', and not a whole number of at least 0"),
    (lambda lake: lake.maintenance.expire_snapshots(older_than=7), "neither an age nor a time"),
    (lambda lake: lake.maintenance.cleanup(older_than="7d"), "neither an age nor a time"),
    (lambda lake: lake.read_parquet("a.parquet"), "paths is 'a.parquet', and not a list of names"),
    (lambda lake: lake.read_parquet([]), "there are no files to read"),
    (lambda lake: lake.transaction(extra="x").__enter__(), "extra is 'x', and not a dictionary"),
    (lambda lake: lake.transaction(5).__enter__(), "the commit message is 5, and not a string"),
    (lambda lake: lake.transaction("a\0b").__enter__(), "the commit message .* contains NUL"),
    (lambda lake: lake.transaction("\ud800").__enter__(), "the commit message .* or half a character"),
    (lambda lake: lake.transaction(author=b"x").__enter__(), "the author is b'x', and not a string"),
    (
        lambda lake: lake.transaction(extra={"a": object()}).__enter__(),
        "extra cannot be written as JSON: .*type object",
    ),
    (lambda lake: lake.transaction(extra={"a": float("nan")}).__enter__(), "extra cannot be written as JSON: Out of"),
    (lambda lake: lake.at(timestamp=pd.NaT), "NaT is not a time"),
    (lambda lake: events(lake).changes(pd.NaT), "NaT is not a time"),
    (lambda lake: lake.sql("FROM a", a=FRAME, A=FRAME), "the query has two frames 'a'"),
    (lambda lake: lake.create_view("v", 5), "the SQL is not a string: int"),
    (lambda lake: lake.create_table("t", {"": "DATE"}), "'' is not a column name"),
    (lambda lake: lake.create_table("t", {"a\0": "DATE"}), "is not a column name"),
    (lambda lake: lake.create_table("t", {"a": "DATE", "A": "DATE"}), "the table has two columns 'a'"),
    (lambda lake: lake.create_table("t", {"a": "ENUM('a')"}), "files cannot store the column 'a' of the type ENUM"),
    (lambda lake: lake.create_table("t", {"a": "STRUCT(b BIT)"}), r"the column 'a' of the type STRUCT\(b BIT\)"),
    (lambda lake: lake.create_table("t", {"a": "INTEGER[3]"}), r"the column 'a' of the type INTEGER\[3\]"),
    (lambda lake: lake.create_table("t", {"a": "DATE"}, partitioned_by=["a", "A"]), "the table has two partition keys"),
    (lambda lake: lake.create_table("t", {"a": "DATE"}, partitioned_by=["bucket(0,a)"]), "no valid number of buckets"),
    (lambda lake: lake.create_table("t", {"a": "DATE"}, partitioned_by=["bucket(9999999999,a)"]), "number of buckets"),
    (lambda lake: events(lake).evolve(add={"x": "ENUM('a')"}), "files cannot store the column 'x'"),
    (lambda lake: events(lake).evolve(rename={"id": ""}), "'' is not a column name"),
    (lambda lake: events(lake).set_comments(columns={5: "x"}), "unknown column: 5"),
    (lambda lake: events(lake).scan([]), "no column is named"),
    (lambda lake: events(lake).explain([]), "no column is named"),
    (lambda lake: events(lake).update({}, "id = 1"), "there are no new values"),
    (lambda lake: events(lake).update({"id": nw.col("nope")}, "id = 1"), "an unknown column: 'nope'"),
    (lambda lake: events(lake).update({"kind": nw.col("id") + nw.col("x")}, "id = 1"), "column: 'x'"),
    (lambda lake: events(lake).update({"kind": nw.col("id").str.to_uppercase()}, "id = 1"), "narwhals cannot"),
    (lambda lake: events(lake).scan(where=nw.col("nope") == 1), "an unknown column: 'nope'"),
    (lambda lake: events(lake).delete("kind"), "the condition is the column 'kind' alone, which is VARCHAR"),
    (lambda lake: events(lake).delete(nw.col("id")), "the condition is the column 'id' alone, .* BIGINT"),
    (lambda lake: events(lake).head(-1), "n is -1, and not a whole number of at least 0"),
    (lambda lake: events(lake).head(n=True), "n is True, and not a whole number"),
    (lambda lake: events(lake).head(2**70), "not a whole number of at least 0"),
    (lambda lake: events(lake).merge(FRAME, on="id", matched=Update("s")), "the values of an Update are 's'"),
    (lambda lake: events(lake).merge(FRAME, "id", matched=Update({"kind": nw.col("x")})), "column: 'x'"),
    (lambda lake: events(lake).merge(FRAME, "id", matched=Delete(nw.col("x") > 1)), "unknown column: 'x'"),
    (lambda lake: events(lake).merge(FRAME, on="id", matched=Delete(when=5)), "of a Delete is 5, and not an"),
    (lambda lake: events(lake).merge(FRAME, on="id", not_matched=Insert("x")), "of an Insert are 'x'"),
    (lambda lake: events(lake).merge(FRAME, on="id", matched=Update(when=True)), "of an Update is True"),
    (lambda lake: lake.maintenance.expire_snapshots(older_than=WEEK, keep="1"), "keep is '1', and not a whole number"),
    (lambda lake: lake.maintenance.expire_snapshots(older_than=WEEK, keep=1.5), "keep is 1.5, and not a whole number"),
    (lambda lake: lake.maintenance.expire_snapshots(older_than=WEEK, keep=0), "keep is 0, and not a whole number"),
    (lambda lake: lake.maintenance.expire_snapshots(older_than=pd.NaT), "older_than is NaT"),
    (lambda lake: lake.maintenance.cleanup(older_than=pd.NaT), "older_than is NaT"),
]


@pytest.mark.parametrize(("call", "message"), CALLS, ids=[message for _, message in CALLS])
def test_wrong_argument_is_refused_by_name(lake: Any, call: Callable[[Any], object], message: str) -> None:
    before = lake.snapshot_id
    with pytest.raises(LakeconfError, match=message) as refused:
        call(lake)
    assert str(refused.value.hint).split()[0].rstrip(":") in VERBS
    assert lake.refresh() == before


def test_hint_for_a_time_without_a_time_zone_works(lake: Any) -> None:
    with pytest.raises(LakeconfError, match="the time 2999-01-01 has no time zone") as refused:
        lake.at(timestamp="2999-01-01")
    assert refused.value.hint == "add one, such as UTC: '2999-01-01T00:00:00+00:00'"
    for time in ("2999-01-01T00:00:00+00:00", "2999-01-01 00:00:00Z"):
        assert lake.at(timestamp=time).snapshot_id == lake.snapshot_id
    # A version of another library is accepted.
    assert lake.at(version=np.int64(1)).snapshot_id == 1
    assert len(lake.table("raw.events").changes(np.int64(1)).collect("pyarrow")) == 2


def test_store_opened_with_something_else_than_a_session_is_refused(tmp_path: Path) -> None:
    store: Any = store_of(tmp_path)
    with pytest.raises(LakeconfError, match="'duckdb' is not a Spark session") as refused:
        store.open("duckdb")
    assert str(refused.value.hint).startswith("omit it to read with DuckDB: store.open()")


@pytest.mark.slow
def test_hints_for_conditions_parameters_and_frames_work(tmp_path: Path) -> None:
    with store_of(tmp_path).open() as opened:
        lake: Any = opened
        events = lake.create_table("raw.events", ROWS)
        events.append(ROWS)
        lake.execute("DELETE FROM raw.events WHERE id IN (FROM given)", given=[{"id": 1}])
        joined = lake.sql("SELECT e.id FROM raw.events AS e JOIN frame USING (id)", frame=[{"id": 2}])
        assert joined.to_native().fetchall() == [(2,)]
        for where in ("true", "1 = 1", True):
            with pytest.raises(LakeconfError, match="uses no column") as refused:
                events.delete(where)
        assert 'lake.execute("DELETE FROM …")' in str(refused.value.hint)
        lake.execute("DELETE FROM raw.events")
        assert events.count() == 0
        # Values of Python and of NumPy can be set.
        table = lake.create_table("t", {"id": "BIGINT", "at": "TIMESTAMP", "name": "VARCHAR"})
        table.append([{"id": 1, "at": dt.datetime(2026, 1, 1), "name": "a"}])
        table.update({"id": np.int64(7), "at": pd.Timestamp("2026-01-02"), "name": np.str_("b")}, "id = 1")
        assert table.head() == [{"id": 7, "at": dt.datetime(2026, 1, 2), "name": "b"}]
