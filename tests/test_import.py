"""`import lakeconf` is fast: slow dependencies are imported when they are used."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"duckdb", "narwhals", "pandas", "polars", "pyarrow", "pydantic", "pyspark", "rich", "sqlglot"}
HEAVY |= {"dagster", "dbt", "dlt", "sqlmesh"}


def loaded_by(statement: str) -> set[str]:
    """The top-level modules that a new interpreter has loaded after this statement."""
    code = f"import sys; {statement}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


def test_import_lakeconf_loads_no_heavy_dependency() -> None:
    assert loaded_by("import lakeconf") & HEAVY == set()
    assert loaded_by("import lakeconf, narwhals") & HEAVY == {"narwhals"}


def test_the_data_source_loads_the_rest_only_when_it_is_used() -> None:
    """Spark imports it at the first use of any data source that it does not know."""
    loaded = loaded_by("import pyspark_lakeconf")
    assert "pyspark" in loaded
    assert loaded & {"duckdb", "lakeconf", "narwhals", "pydantic", "sqlglot"} == set()
