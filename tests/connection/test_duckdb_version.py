"""DuckDB versions: the warning about untested ones. Values as literals give the rows and types of bound ones."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_sql import run_plain

import lakeconf
from lakeconf.catalog.column_types import columns_of
from lakeconf.catalog.pruning.predicates import Comparison
from lakeconf.catalog.pruning.where import parse
from lakeconf.cli.app import run
from lakeconf.config.config import init
from lakeconf.connection import duckdb_facts
from lakeconf.connection.connection import connect, load_extension
from lakeconf.connection.duckdb_facts import check_version, create_supported_catalogs, untested
from lakeconf.errors import CatalogError, PredicateError, UnsupportedError, UntestedVersionWarning
from lakeconf.sql import with_literals

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakeconf import Store


NEXT = "2.0.0"


@pytest.fixture
def next_version(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package says that it is DuckDB 2.0, for which no extension is installed as a package."""
    check_version.cache_clear()
    monkeypatch.setattr(duckdb, "__version__", NEXT)
    yield
    check_version.cache_clear()


def test_untested_version_is_named() -> None:
    assert untested("1.5.5") is untested("v1.5.6") is None
    for version in ("1.4.1", "v2.0.0", "1.50.0", "1.6.0-dev12"):
        assert version.removeprefix("v") in (untested(version) or "")


@pytest.mark.usefixtures("next_version")
@pytest.mark.parametrize("version", ["1.5.4", "v1.4.12", "1.5.4-dev3", "0.10.3"])
def test_version_that_loses_rows_is_an_error(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb, "__version__", version)
    with pytest.raises(UnsupportedError, match="loses rows of lakes: lakeconf needs 1\\.5\\.5 or newer"):
        connect()


@pytest.mark.usefixtures("next_version")
def test_untested_version_warns_once() -> None:
    with pytest.warns(UntestedVersionWarning, match=r"DuckDB 1\.5 and DuckLake 1\.0, not with DuckDB 2\.0\.0"):
        connect().close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        connect().close()


@pytest.mark.usefixtures("next_version")
def test_cli_shows_the_warning_in_one_line(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        run(["sql", "SELECT 1"])
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "not with DuckDB" in line]
    assert line.startswith("warning: lakeconf is tested with DuckDB 1.5")
    assert str(project) not in line


def test_doctor_reports_an_untested_version(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr("lakeconf.inspection.doctor.untested", lambda _: untested(NEXT))
    assert run(["doctor"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if " extensions " in line]
    assert line.startswith("! extensions")
    assert "not with DuckDB 2.0.0" in line
    # A warning is no reason not to repair.
    lakeconf.init(project).get_store().open().close()
    assert run(["doctor", "--repair", "--yes"]) == 0


@pytest.mark.parametrize(("chosen", "then"), [(None, "1.0"), ("", "1.0"), ("1.1", "1.1")])
def test_new_catalogs_get_the_supported_version(chosen: str | None, then: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The extension that has this setting is not available: a setting of DuckDB that holds any text takes its place.
    setting = "http_proxy"
    monkeypatch.setattr(duckdb_facts, "_DEFAULT", setting)
    with connect() as connection:
        if chosen is not None:
            connection.execute(f"SET {setting} = '{chosen}'")
        create_supported_catalogs(connection.rows)
        assert connection.rows(f"SELECT current_setting('{setting}')") == [(then,)]


def test_extension_without_the_setting_is_left_alone() -> None:
    with connect() as connection:
        load_extension(connection, "ducklake")
        assert connection.rows("FROM duckdb_settings() WHERE name = 'ducklake_default_version'") == []


def test_newer_catalog_is_refused_in_one_sentence(store: Store, spark: SparkSession) -> None:
    store.open().close()
    with store.open() as lake:
        run_plain(lake, "UPDATE __ducklake_metadata_dev.ducklake_metadata SET value = '1.1' WHERE key = 'version'")
    for engine in (None, spark):
        with pytest.raises(CatalogError) as raised:
            store.open(engine)
        assert "version is 1.1" in raised.value.message or "version 1.1" in raised.value.message
        assert "\n" not in raised.value.message


@pytest.mark.usefixtures("next_version")
def test_conditions_that_need_a_plan_are_refused_on_another_version() -> None:
    columns = columns_of({"id": "INTEGER"})
    assert isinstance(parse("id = 3", columns), Comparison)
    with pytest.raises(PredicateError, match="with DuckDB 1"):
        parse("id % 2 = 0", columns)


VALUES = st.one_of(st.text(), st.integers(-(2**127), 2**127 - 1), st.booleans(), st.none(), st.floats(), st.binary())


@given(values=st.lists(VALUES, min_size=1, max_size=3), numbered=st.booleans())
def test_duckdb_returns_what_it_returns_for_bound_values(values: list[object], *, numbered: bool) -> None:
    names = [f"${number}" for number in range(1, len(values) + 1)] if numbered else ["?"] * len(values)
    # Names and strings that contain parameters are no parameters.
    sql = "SELECT " + ", ".join(f"{name} AS \"a ? '$1' {name}\", 'b ''? \"'" for name in names)
    with duckdb.connect() as connection:
        bound = connection.execute(sql, values)
        expected = repr([bound.fetchall(), [column[0] for column in bound.description]])
        found = connection.execute(*with_literals(sql, values))
        assert repr([found.fetchall(), [column[0] for column in found.description]]) == expected


def test_values_in_the_text() -> None:
    statements: list[tuple[str, list[object], str]] = [
        ("a = ? AND b = ?", ["x'y", -1], "a = CAST('x''y' AS VARCHAR) AND b = (-1)"),
        ("$2 < $1 OR $2", [True, None], "NULL < true OR NULL"),
        ("'?' || \"?\" || ?", ["?"], "'?' || \"?\" || CAST('?' AS VARCHAR)"),
    ]
    for sql, values, found in statements:
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


@pytest.mark.slow
def test_commands_that_read_a_catalog_import_no_slow_library(project: Path) -> None:
    with init().get_store().open() as lake:
        lake.create_table("raw.events", {"id": "BIGINT"}).append(lake.sql("SELECT 1 AS id"))
        lake.table("raw.events").delete("id = 1")
    code = (
        "import sys; from lakeconf.cli.app import run; codes = [run(one.split()) for one in sys.argv[1:]];"
        "slow = {'pandas', 'numpy', 'pyarrow', 'polars', 'sqlglot'};"
        "print(); print(codes, sorted(slow & sys.modules.keys()))"
    )
    commands = ["tables", "snapshots", "tables raw.events", "doctor", "maintain --dry-run"]
    commands.append("restore raw.events --version 1 --dry-run")
    done = subprocess.run([sys.executable, "-c", code, *commands], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[0, 0, 0, 0, 0, 0] []"
