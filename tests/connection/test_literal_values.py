"""Values as literals: DuckDB returns the same rows and types as with bound parameters."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeconf.config.config import init
from lakeconf.connection.duckdb_facts import with_literals

VALUES = st.one_of(st.text(), st.integers(-(2**127), 2**127 - 1), st.booleans(), st.none(), st.floats(), st.binary())


@given(values=st.lists(VALUES, min_size=1, max_size=3), numbered=st.booleans())
def test_duckdb_returns_what_it_returns_for_bound_values(values: list[object], *, numbered: bool) -> None:
    names = [f"${number}" for number in range(1, len(values) + 1)] if numbered else ["?"] * len(values)
    # Names and texts that contain parameters are no parameters.
    sql = "SELECT " + ", ".join(f"{name} AS \"a ? '$1' {name}\", 'b ''? \"'" for name in names)
    with duckdb.connect() as connection:
        bound = connection.execute(sql, values)
        expected = repr([bound.fetchall(), [column[0] for column in bound.description]])
        found = connection.execute(*with_literals(sql, values))
        assert repr([found.fetchall(), [column[0] for column in found.description]]) == expected


@pytest.mark.parametrize(
    ("sql", "values", "found"),
    [
        ("a = ? AND b = ?", ["x'y", -1], "a = CAST('x''y' AS VARCHAR) AND b = (-1)"),
        ("$2 < $1 OR $2", [True, None], "NULL < true OR NULL"),
        ("'?' || \"?\" || ?", ["?"], "'?' || \"?\" || CAST('?' AS VARCHAR)"),
    ],
)
def test_values_in_the_text(sql: str, values: list[object], found: str) -> None:
    assert with_literals(sql, values) == (found, None)


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("?", [1.5]), ("?", [b"x"]), ("?", [[1]]), ("?", ["a\0b"]), ("? ?", [1]), ("?", [1, 2]), ("$2", [1, 2]),
        ("? -- ?", [1]), ("? /* ? */", [1]), ("$$?$$ || ?", [1]), ("$a$?$a$ || ?", [1]), ("$a", [1]),
        ("E'\\'?' || ?", [1]),
        ("?1", [1]), ("? $1", [1]), ("a$1 || ?", [1]), ("$0", [1]), ("?", []), ("?", None),
    ],
)  # fmt: skip
def test_other_statements_are_not_changed(sql: str, values: list[object] | None) -> None:
    assert with_literals(sql, values) == (sql, values)


@pytest.mark.parametrize(
    "command",
    [
        "tables",
        "snapshots",
        "tables raw.events",
        "doctor",
        "maintain --dry-run",
        "restore raw.events --version 1 --dry-run",
    ],
)
def test_a_command_that_reads_a_catalog_imports_no_slow_library(command: str, project: Path) -> None:
    with init().get_store().open() as lake:
        lake.create_table("raw.events", {"id": "BIGINT"}).append(lake.sql("SELECT 1 AS id"))
        lake.table("raw.events").delete("id = 1")
    code = (
        "import sys; from lakeconf.cli.app import run; code = run(sys.argv[1:]);"
        "slow = {'pandas', 'numpy', 'pyarrow', 'polars', 'sqlglot'};"
        "print(); print(sorted(slow & sys.modules.keys())); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, *command.split()], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
