"""Tests of the Spark engine that say nothing about classic sessions pass over Spark Connect too."""

from __future__ import annotations

import subprocess
import sys

import pytest
from source_tree import REPOSITORY
from strength import PROVE

READ = "tests/engines/spark/read"
LAKE = "tests/lake"
ALWAYS = (f"{READ}/test_deletes.py", f"{LAKE}/test_lake.py", f"{LAKE}/test_reads.py")
MORE = (*(f"{READ}/test_{name}.py" for name in ("alone", "nested_fields")), f"{LAKE}/test_bad_input.py")
TESTS = (*ALWAYS, *MORE, f"{LAKE}/test_conditions.py") if PROVE else ALWAYS
# The page about Spark Connect lists what is refused.
REFUSED = (
    *(
        "registers_views",
        "register_views",
        "in_a_condition",
        "scan_returns and price",
        "negative_zero",
        "on_a_decimal_promoted",
    ),
    *("case_of_non_ascii_letters", "none_of_the_selected_fields and drop", "none_of_the_selected_fields and add"),
)
# These look into the JVM, or at what only a classic session needs: field ids.
OF_CLASSIC = ("parametrized_delete_method", "read_by_several_tasks", "without_field_ids", "incompatible_types_are_not")


@pytest.mark.timeout(1800)  # hundreds of tests
def test_tests_of_spark_pass_over_spark_connect() -> None:
    left_out = " or ".join(f"({name})" for name in (*REFUSED, *OF_CLASSIC, "on_duckdb", "duckdb_lake"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--spark-connect"]
    result = subprocess.run(
        [*command, "-k", f"not ({left_out})", *TESTS], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    summary = result.stdout.splitlines()[-1] if result.stdout else ""
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-2000:]
    assert int(summary.split()[0]) > (190 if PROVE else 60), summary
