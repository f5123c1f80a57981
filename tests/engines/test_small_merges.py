"""DuckDB computes a merge for Spark only if it is small and all its types are compared and returned alike."""

from __future__ import annotations

import pytest

from lakeconf.catalog.table import Column
from lakeconf.catalog.types import columns_of
from lakeconf.engines import scan_summary
from lakeconf.engines.scan_summary import (
    MOST_FILE_BYTES,
    MOST_FRAME_BYTES,
    is_matched_alike,
    size_refusal,
    type_refusal,
)


def column(type_name: str) -> Column:
    (found,) = columns_of({"c": type_name})
    return found


@pytest.mark.parametrize(
    "type_name", ["BIGINT", "VARCHAR", "DECIMAL(30, 3)", "DATE", "TIMESTAMP", "TIMESTAMPTZ", "BLOB", "BOOLEAN"]
)
def test_keys_that_both_engines_compare_alike_are_accepted(type_name: str) -> None:
    key = column(type_name)
    assert is_matched_alike(key.type)
    assert type_refusal([key], [key]) is None


@pytest.mark.parametrize("type_name", ["DOUBLE", "FLOAT", "UUID", "JSON", "UBIGINT", "INTEGER[]", "STRUCT(x INTEGER)"])
def test_other_keys_are_refused_but_their_values_are_accepted(type_name: str) -> None:
    found, key = column(type_name), column("BIGINT")
    assert not is_matched_alike(found.type)
    assert type_refusal([found], [found]) == f"the key 'c' has the type {found.type}"
    assert type_refusal([key, found], [key]) is None


@pytest.mark.parametrize("type_name", ["HUGEINT", "TIME", "TIMESTAMP_NS", "INTERVAL", "STRUCT(x MAP(INTEGER, TIME))"])
def test_types_that_spark_lacks_are_refused_at_any_depth(type_name: str) -> None:
    refused = type_refusal([column("BIGINT"), column(type_name)], [column("BIGINT")])
    assert refused is not None
    assert refused.startswith("the column 'c' contains the type ")


def test_key_whose_type_has_changed_is_refused() -> None:
    key = Column(1, "c", "int64", nullable=True, initial_default=None, former_types=("int32",))
    assert type_refusal([key], [key]) == "the type of the key 'c' has changed"
    later = Column(1, "c", "int32", nullable=True, initial_default=None, later_types=("int64",))
    assert type_refusal([later], [later]) == "the type of the key 'c' has changed"


def test_sizes_up_to_the_limits_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert size_refusal(MOST_FRAME_BYTES, MOST_FILE_BYTES) is None
    assert size_refusal(MOST_FRAME_BYTES + 1, 0) == "the frame has 128 MiB, more than 128 MiB"
    assert size_refusal(0, MOST_FILE_BYTES + 1) == "the files have 4 GiB, more than 4 GiB"
    monkeypatch.setattr(scan_summary, "MOST_FRAME_BYTES", 0)
    assert size_refusal(1, 0) == "the frame has 1 B, more than 0 B"
