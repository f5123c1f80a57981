"""`lakeconf history` lists the changes of a table, and `lakeconf undo` undoes the last of them."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import lakeconf

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake


@pytest.fixture
def lake(project: Path) -> Any:
    with lakeconf.init().get_store().open() as lake:
        lake.create_table("raw.t", {"id": "BIGINT"}).append([{"id": 1}, {"id": 2}])
        lake.create_table("raw.other", {"id": "BIGINT"}).append([{"id": 1}])
        with lake.transaction("late data", author="ann") as transaction:
            transaction.table("raw.t").append([{"id": 3}])
        yield lake


def ids(lake: Lake) -> list[int]:
    lake.refresh()
    return sorted(id_ for (id_,) in lake.table("raw.t").scan(["id"]).to_native().fetchall())


def test_history_lists_the_changes_of_one_table_newest_first(lake: Lake, shown: Any, called: Any) -> None:
    lines = [re.split(r"  +", line.strip()) for line in shown("history", "raw.t").splitlines()]
    assert [(line[0], line[2:]) for line in lines[1:]] == [
        ("5", ["insert raw.t +1 row", "ann", "late data"]),
        ("2", ["insert raw.t +2 rows", lines[2][3]]),
        ("1", ["create schema raw, create raw.t", lines[3][3], "create table raw.t"]),
    ]
    newest, *_ = json.loads(shown("history", "raw.t", "--limit", "1", "--format", "json"))
    assert (newest["snapshot_id"], newest["author"], newest["summary"]) == (5, "ann", "insert raw.t +1 row")
    code, _, err = called("history", "raw.nothing")
    assert (code, "raw.nothing" in err) == (1, True)


def test_undo_shows_its_plan_and_needs_consent(lake: Lake, called: Any) -> None:
    code, out, err = called("undo", "raw.t")
    assert (code, "then pass --yes" in err, ids(lake)) == (2, True, [1, 2, 3])
    first, *plan = out.splitlines()
    assert re.fullmatch(r"undo snapshot 5 of \S+ \S+ UTC: inserted_into_table", first)
    assert plan == ["replace rows: raw.t as of version 4", "rows now   3", "rows then  2"]
    assert called("undo", "raw.t", "--dry-run")[:2] == (0, out)
    assert called("undo", "raw.t", "--yes") == (0, f"{out}restored raw.t in snapshot 6\n", "")
    assert ids(lake) == [1, 2]
    assert called("undo", "raw.t", "--yes")[0] == 0  # the undo is undone
    assert ids(lake) == [1, 2, 3]


def test_a_compaction_is_no_change_to_undo(lake: Lake, called: Any) -> None:
    lake.table("raw.t").delete("id = 1")
    lake.maintenance.compact()
    code, out, _ = called("undo", "raw.t", "--yes", "--format", "json")
    assert (code, json.loads(out)["version"], ids(lake)) == (0, 5, [1, 2, 3])


def test_a_table_without_an_earlier_state_is_not_dropped(lake: Lake, called: Any) -> None:
    lake.create_table("raw.new", {"id": "BIGINT"})
    code, _, err = called("undo", "raw.new", "--yes")
    assert (code, "created the table, so there is no earlier state" in err) == (1, True)
    with lakeconf.init().get_store().open() as again:
        assert again.table("raw.new").count() == 0


def test_undo_of_an_expired_state_changes_nothing(lake: Lake, called: Any) -> None:
    lake.maintenance.expire_snapshots(older_than=timedelta(), force=True)
    code, _, err = called("undo", "raw.t", "--yes")
    assert code == 1
    assert "expired" in err or "does not exist" in err
    assert ids(lake) == [1, 2, 3]
