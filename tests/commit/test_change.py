"""A change knows whether DuckLake writes files for it."""

from __future__ import annotations

import pytest

from lakeconf.commit.change import Change
from lakeconf.engines.base import Staged

FILES = Staged("FROM rows", files=("s3://bucket/part-0.parquet",))
CASES = [
    (None, False, False),
    (FILES, False, True),
    (FILES, True, False),
    (Staged("FROM rows", files=FILES.files, rest="FROM rest"), False, False),
    (Staged("FROM rows"), False, False),
    (Staged("FROM rows", files=FILES.files, keeps_files=False), False, False),
]


@pytest.mark.parametrize(("staged", "deletes", "expected"), CASES)
def test_change_is_registered_if_its_files_become_files_of_the_table(
    staged: Staged | None, deletes: bool, expected: bool
) -> None:
    """A change that also deletes rows makes DuckLake write delete files."""
    assert Change(("SELECT 1",), "main.t", staged, deletes=deletes).is_registered is expected


def test_change_defines_and_deletes_nothing_unless_it_says_so() -> None:
    change = Change((), "main.t")
    assert (change.defines, change.deletes, change.counts) == (False, False, ())
