"""Versions of DuckDB: the warning about untested ones."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import lakeconf
from lakeconf.catalog.column_types import columns_of
from lakeconf.catalog.pruning.predicates import Comparison
from lakeconf.catalog.pruning.where import parse
from lakeconf.cli.app import run
from lakeconf.connection import duckdb_facts
from lakeconf.connection.connection import connect, load_extension
from lakeconf.connection.duckdb_facts import create_supported_catalogs, untested, warn_if_untested
from lakeconf.errors import CatalogError, PredicateError, UntestedVersionWarning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from lakeconf import Store

NEXT = "2.0.0"


@pytest.fixture
def next_version(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package says that it is DuckDB 2.0, for which no extension is installed as a package."""
    warn_if_untested.cache_clear()
    monkeypatch.setattr(duckdb, "__version__", NEXT)
    yield
    warn_if_untested.cache_clear()


def test_untested_version_is_named() -> None:
    assert untested("1.5.5") is untested("v1.5.6") is None
    for version in ("1.4.1", "v2.0.0", "1.50.0", "1.6.0-dev12"):
        assert version.removeprefix("v") in (untested(version) or "")


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
        lake._session.writer.execute(
            "UPDATE __ducklake_metadata_dev.ducklake_metadata SET value = '1.1' WHERE key = 'version'"
        )
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
