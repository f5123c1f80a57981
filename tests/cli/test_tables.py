"""`lakeconf tables`: the sizes of all tables."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import lakeconf
from lakeconf.wording import byte_size

if TYPE_CHECKING:
    from pathlib import Path


def test_sizes_of_a_table_as_text_and_as_json(events_folder: Path, shown: Any) -> None:
    connection = lakeconf.init().get_store().connect()
    connection.execute("CALL dev.set_option('data_inlining_row_limit', 10)")
    connection.execute("INSERT INTO raw.events VALUES (4, 'view'), (5, 'buy')")
    connection.close()
    sizes = [path.stat().st_size for path in (events_folder / "data").rglob("*.parquet") if "-delete" not in path.name]
    (found,) = json.loads(shown("tables", "--format", "json"))
    assert found == {
        "table": "raw.events",
        "rows": 4,
        "files": 2,
        "bytes": sum(sizes),
        "delete_files": 1,
        "deleted_rows": 1,
        "inlined_rows": 2,
    }
    header, line = (re.split(r"  +", one) for one in shown("tables", "--store", "dev").splitlines())
    assert header == ["table", "rows", "files", "size", "delete files", "deleted rows", "inlined rows"]
    assert line == ["raw.events", "4", "2", byte_size(sum(sizes)), "1", "1", "2"]


def test_lake_without_tables(project: Path, called: Any) -> None:
    code, out, err = called("tables")
    assert (code, out) == (1, "")
    assert "has no lake yet" in err
    assert [path.name for path in project.iterdir()] == ["lakeconf.toml"]
    lakeconf.init().get_store().open().close()
    assert called("tables", "--format", "json") == (0, "[]\n", "")
    code, out, err = called("tables")
    assert (code, out.count("\n"), err) == (0, 1, "")


def test_unknown_store(project: Path, called: Any) -> None:
    code, out, err = called("tables", "--store", "dve")
    assert (code, out) == (1, "")
    assert 'did you mean "dev"?' in err


def test_default_store_is_used_without_an_option(events_folder: Path, called: Any) -> None:
    assert called("tables", "--store", "dev") == called("tables")
