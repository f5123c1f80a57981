"""Queries whose text lakeconf rewrites, and those that DuckDB runs as they are."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from lakeconf import init
from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

QUERY = """
import sys, lakeconf
with lakeconf.init().get_store().open() as lake:
    print(lake.sql(sys.argv[1]).collect("pyarrow")["n"].to_list())
print("sqlglot" in sys.modules)
"""


@pytest.fixture(autouse=True)
def numbers(project: Path) -> None:
    with init().get_store().open() as lake:
        lake.create_table("s.t", {"n": "INTEGER"}).append(lake.sql("SELECT 7::INTEGER AS n"))


def test_a_query_that_is_not_rewritten_loads_no_parser() -> None:
    done = subprocess.run([sys.executable, "-c", QUERY, "FROM s.t"], capture_output=True, text=True, check=True)
    assert done.stdout == "[7]\nFalse\n"


def test_a_query_on_spark_needs_spark() -> None:
    with init().get_store().open() as lake:
        for options in ({"engine": "spark"}, {"dialect": "spark"}):
            with pytest.raises(UnsupportedError, match="Spark"):
                lake.sql("SELECT n FROM s.t", **options)  # type: ignore[arg-type]
