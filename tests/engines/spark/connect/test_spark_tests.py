"""Tests of the Spark engine that say nothing about classic sessions pass over Spark Connect too."""

from __future__ import annotations

import subprocess
import sys

import pytest
from source_tree import REPOSITORY
from strength import PROVE

READ = "tests/engines/spark/read"
LAKE = "tests/lake"
ALWAYS = (f"{LAKE}/test_lake.py", f"{LAKE}/test_reads.py")
MORE = (f"{LAKE}/test_bad_input.py", f"{LAKE}/test_conditions.py")
TESTS = (*ALWAYS, *MORE, *(f"{READ}/test_{name}.py" for name in ("deletes", "alone")))
# The page about Spark Connect lists what is refused.
REFUSED = (
    *("in_a_condition", "scan_returns and price", "negative_zero", "on_a_decimal_promoted"),
    *("case_of_non_ascii_letters", "none_of_the_selected_fields and drop", "none_of_the_selected_fields and add"),
)
# These look into the JVM, or at what only a classic session needs: field ids.
OF_CLASSIC = ("parametrized_delete_method", "read_by_several_tasks", "without_field_ids", "incompatible_types_are_not")
# Without `make prove`, those in which a session of Connect could differ most and that the tests beside this one lack.
DISTINCT = (
    *("filter_on_changes", "changes_exclude_rewritten", "past_version_after_files", "rows_in_memory_are"),
    *("count_is_that", "appended_to_another_table", "pinned_snapshot"),
    *("frames_of_other_libraries", "unknown_to_spark", "partitioned_table", "field_ids"),
    *("on_two_tables", "same_narwhals_code"),
    *("hostile_spark_settings", "condition_can_be_a_narwhals"),
)


@pytest.mark.slow
@pytest.mark.timeout(1800)  # hundreds of tests
def test_tests_of_spark_pass_over_spark_connect() -> None:
    left_out = " or ".join(f"({name})" for name in (*REFUSED, *OF_CLASSIC, "on_duckdb", "duckdb_lake"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--spark-connect"]
    chosen = f"not ({left_out})" + ("" if PROVE else f" and ({' or '.join(DISTINCT)})")
    result = subprocess.run(
        [*command, "-k", chosen, *(TESTS if PROVE else ALWAYS)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    summary = result.stdout.splitlines()[-1] if result.stdout else ""
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-2000:]
    assert int(summary.split()[0]) > (190 if PROVE else 10), summary
