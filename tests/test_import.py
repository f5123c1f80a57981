"""`import lakeconf` is fast: slow dependencies are imported when they are used."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from lakeconf.deferred import deferred
from lakeconf.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


HEAVY = {"duckdb", "narwhals", "pandas", "polars", "pyarrow", "pydantic", "pyspark", "rich", "sqlglot"}
HEAVY |= {"dagster", "dbt", "dlt", "sqlmesh"}


def loaded_by(statement: str) -> set[str]:
    """The top-level modules that a new interpreter has loaded after this statement."""
    code = f"import sys; {statement}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


def test_import_lakeconf_loads_no_heavy_dependency() -> None:
    assert loaded_by("import lakeconf") & HEAVY == set()


def test_the_data_source_loads_the_rest_only_when_it_is_used() -> None:
    """Spark imports it at the first use of any data source that it does not know."""
    loaded = loaded_by("import pyspark_lakeconf")
    assert "pyspark" in loaded
    assert loaded & {"duckdb", "lakeconf", "narwhals", "pydantic", "sqlglot"} == set()


def test_loaded_by_detects_a_heavy_dependency() -> None:
    assert loaded_by("import lakeconf, narwhals") & HEAVY == {"narwhals"}


@pytest.fixture
def late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that is not imported yet."""
    name = f"late_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text("LIMIT = 3\n\ndef doubled(number, *, plus=0):\n    return 2 * number + plus\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_module_is_imported_at_the_first_attribute(late: str) -> None:
    module = deferred(late)
    assert late not in sys.modules
    assert module.LIMIT == 3
    assert module.doubled(4) == 8
    assert late in sys.modules


def test_function_is_imported_at_the_first_call(late: str) -> None:
    doubled = deferred(late, "doubled")
    assert late not in sys.modules
    assert doubled(4, plus=1) == 9


def test_attributes_of_a_deferred_class_are_those_of_the_class() -> None:
    assert deferred("datetime", "date").fromisoformat("2026-01-31").month == 1


def test_present_value_of_the_module_counts(late: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, doubled = deferred(late), deferred(late, "doubled")
    assert (module.LIMIT, doubled(1)) == (3, 2)
    monkeypatch.setattr(sys.modules[late], "LIMIT", 4)
    monkeypatch.setattr(sys.modules[late], "doubled", lambda _: "replaced")
    assert (module.LIMIT, doubled(1)) == (4, "replaced")


def test_errors_are_those_of_the_import() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        deferred("no_such_module").anything()
    with pytest.raises(AttributeError, match="no_such_name"):
        deferred("lakeconf.errors", "no_such_name")()


def test_isinstance_knows_a_deferred_class() -> None:
    found = deferred("lakeconf.errors", "LakeconfError")
    assert isinstance(SchemaError("wrong"), found)
    assert not isinstance(ValueError("wrong"), found)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copy_stands_for_the_same(copied: Callable[[object], Any], late: str) -> None:
    module, doubled = copied(deferred(late)), copied(deferred(late, "doubled"))
    assert (module.LIMIT, doubled(4)) == (3, 8)
