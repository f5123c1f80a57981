"""`import lakeconf` is light: what is heavy is loaded by what needs it."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"duckdb", "narwhals", "pandas", "polars", "pyarrow", "pydantic", "pyspark", "rich", "sqlglot"}
HEAVY |= {"dagster", "dbt", "dlt", "sqlmesh"}


def loaded_by(statement: str) -> set[str]:
    """The top-level names of the modules that a fresh interpreter has after this statement."""
    code = f"import sys; {statement}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


def test_import_lakeconf_loads_nothing_heavy() -> None:
    assert loaded_by("import lakeconf") & HEAVY == set()


def test_the_check_sees_what_is_loaded() -> None:
    assert loaded_by("import lakeconf, narwhals") & HEAVY == {"narwhals"}
