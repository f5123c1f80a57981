"""Arguments of one kind are checked in one place, and no public argument of this kind is left out."""

from __future__ import annotations

import inspect
import itertools
from typing import Any, cast

import duckdb
import numpy as np
import pytest

from lakeconf.arguments import check_flags, native_connection, whole_number
from lakeconf.errors import LakeconfError
from lakeconf.lake.lake import Lake
from lakeconf.lake.maintenance import Maintenance
from lakeconf.lake.table import Table
from lakeconf.store import Store

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
