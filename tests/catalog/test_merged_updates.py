"""Updates whose rows have lost their ids in a merge of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from local_stores import store_of

from lakeconf.catalog.health import merged_update
from lakeconf.errors import PipelineError
from lakeconf.pipelines import Append, Model, Pipeline, Query, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """A lake with the table `raw.t`, whose rows 0 to 2 exist in snapshot 2."""
    with store_of(tmp_path).open() as lake:
        found = lake.sql("SELECT range AS id, 'a' AS v FROM range(3)")
        lake.create_table("raw.t", found).append(found)
        yield lake


def changed(lake: Lake, key: int) -> None:
    """Updates a row and inserts one, in one snapshot."""
    found = lake.sql(f"SELECT * FROM (VALUES ({key}, 'b'), ({key + 100}, 'new')) AS t(id, v)")
    lake.table("raw.t").merge(found, "id")


def kinds(lake: Lake) -> set[str]:
    native: Any = lake.table("raw.t").changes(3).to_native()
    return {row[2] for row in native.fetchall()}


def test_update_before_a_merge_of_files_is_found(lake: Lake) -> None:
    changed(lake, 1)
    changed(lake, 2)
    assert merged_update(lake._session.reader, "raw.t", 2, lake.snapshot_id) is None
    lake.maintenance.compact()
    assert "update_postimage" not in kinds(lake)
    assert merged_update(lake._session.reader, "raw.t", 2, lake.snapshot_id) == (3, lake.snapshot_id)
    # The second one ended the range of an earlier run.
    assert merged_update(lake._session.reader, "raw.t", 4, lake.snapshot_id) is None


def test_inserted_rows_are_no_updates(lake: Lake) -> None:
    found = lake.sql("SELECT range + 10 AS id, 'a' AS v FROM range(3)")
    lake.table("raw.t").append(found)
    lake.maintenance.compact()
    assert merged_update(lake._session.reader, "raw.t", 2, lake.snapshot_id) is None


def test_merge_of_a_sorted_table_keeps_the_ids(lake: Lake) -> None:
    lake._session.writer.execute("ALTER TABLE dev.raw.t SET SORTED BY (id DESC)")
    lake.refresh()
    changed(lake, 1)
    changed(lake, 2)
    lake.maintenance.compact()
    assert "update_postimage" in kinds(lake)
    assert merged_update(lake._session.reader, "raw.t", 2, lake.snapshot_id) is None


def test_model_of_new_rows_refuses_such_an_update(lake: Lake) -> None:
    pipeline = Pipeline([Model("marts.log", Append(new_rows_of="raw.t"), Query("SELECT id, v FROM raw.t"))])
    assert run(pipeline, lake)[0].rows == 3
    changed(lake, 1)
    changed(lake, 2)
    lake.maintenance.compact()
    (failed,) = run(pipeline, lake)
    assert isinstance(failed.error, PipelineError)
    assert failed.error.message.startswith("the new rows of raw.t cannot be told from updated ones: snapshot 4 ")
    assert "lakeconf run marts.log --rebuild" in str(failed.error.hint)
    (done,) = run(pipeline, lake, rebuild=True)
    assert (done.status, done.rows) == ("done", 5)
    changed(lake, 0)
    (done,) = run(pipeline, lake)
    assert (done.status, done.rows) == ("done", 1)
