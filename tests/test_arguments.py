"""Arguments of one kind are checked in one place, and no public argument of this kind is left out."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, cast

import duckdb
import numpy as np
import pytest
from local_stores import store_of

from lakeconf.arguments import check_flags, native_connection, whole_number
from lakeconf.errors import LakeconfError
from lakeconf.lake.lake import Lake
from lakeconf.lake.maintenance import Maintenance
from lakeconf.lake.table import Table
from lakeconf.store import Store

if TYPE_CHECKING:
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


def test_flags_are_found() -> None:
    assert {("preview_sql", "show_secrets"), ("cleanup", "force"), ("append", "evolve")} <= {flag[1:] for flag in FLAGS}


@pytest.mark.parametrize(("kind", "name", "flag"), FLAGS, ids=[f"{name}-{flag}" for _, name, flag in FLAGS])
@pytest.mark.parametrize("value", ["no", None, 1])
def test_flag_that_is_no_bool_is_refused(kind: type[Any], name: str, flag: str, value: object, tmp_path: Path) -> None:
    store = store_of(tmp_path)
    with store.open() as lake:
        lake.create_table("raw.t", {"id": "BIGINT"})
        before = lake.snapshot_id
        owners: dict[Any, Any] = {
            Store: store, Lake: lake, Table: lake.table("raw.t"), Maintenance: lake.maintenance
        }  # fmt: skip
        with pytest.raises(LakeconfError, match=f"{flag} is {value!r}, and neither True nor False") as refused:
            getattr(owners[kind], name)(**{**OTHERS.get(name, {}), flag: value})
        assert refused.value.hint == f"write {flag}=True, or omit it"
        assert lake.refresh() == before


def test_bools_are_flags() -> None:
    check_flags(a=True, b=False)
    check_flags()


@pytest.mark.parametrize("value", [0, 10, np.int64(7), 2**63 - 1])
def test_whole_numbers_are_accepted(value: int) -> None:
    assert whole_number(value, "n", at_least=0) == value


@pytest.mark.parametrize("value", [-1, True, 1.0, "1", None, 2**63, np.float64(1)])
def test_other_numbers_are_refused(value: object) -> None:
    with pytest.raises(LakeconfError, match=r"n is .*, and not a whole number of at least 0") as refused:
        whole_number(value, "n", at_least=0)
    assert refused.value.hint == "pass a number: n=10"


@pytest.mark.parametrize("value", [None, 5, "duckdb", duckdb])
def test_only_connections_of_duckdb_are_attached_to(value: object, tmp_path: Path) -> None:
    with pytest.raises(LakeconfError, match="is not a connection to DuckDB") as refused:
        store_of(tmp_path).attach(cast("Any", value))
    assert refused.value.hint == "pass one: store.attach(duckdb.connect())"
    with duckdb.connect() as connection:
        assert native_connection(connection) is connection
