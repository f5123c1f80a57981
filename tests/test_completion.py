"""Completion proposes public names only, and notebooks still find how to show an object."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lakeconf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake


@pytest.fixture
def lake(project: Path) -> Iterator[Lake]:
    with lakeconf.init(project).get_store("dev").open() as lake:
        lake.create_table("raw.t", like={"id": "BIGINT"})
        yield lake


def test_objects_list_public_names_only(lake: Lake) -> None:
    objects = {
        "config": (lakeconf.init(), {"default_store", "get_store", "names", "path", "problems", "stores"}),
        "store": (lakeconf.init().get_store("dev"), {"open", "connect", "preview_sql", "name", "alias"}),
        "lake": (lake, {"table", "tables", "sql", "create_table", "restore", "maintenance", "snapshot_id"}),
        "table": (lake.table("raw.t"), {"scan", "append", "merge", "name", "schema", "to_polars"}),
        "maintenance": (lake.maintenance, {"compact", "cleanup"}),
    }
    for name, (one, expected) in objects.items():
        listed = set(dir(one))
        assert expected <= listed, name
        assert [each for each in listed if each.startswith("_") and not each.endswith("__")] == [], name
        assert {"__class__", "__repr__"} <= listed, name
        assert not {"runs", "reading", "statements"} & listed, name
        assert all(hasattr(one, each) for each in listed if each != "__abstractmethods__"), name


def test_notebooks_show_objects_whose_methods_are_not_listed(lake: Lake) -> None:
    assert "_repr_html_" not in dir(lake)
    assert lake._repr_html_().startswith("<table>")
