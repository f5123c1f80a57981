"""`lakeconf rewrite`: its plan, its consent, and its result."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import lakeconf

if TYPE_CHECKING:
    from pathlib import Path

ORDER = "kind DESC NULLS LAST, id ASC NULLS LAST"


def begins() -> list[int]:
    with lakeconf.init().get_store().open() as lake:
        return [file.begin_snapshot for file in lake.table("raw.events").files()]


def test_command_shows_its_plan_and_needs_consent(events_folder: Path, called: Any) -> None:
    before = begins()
    code, out, err = called("rewrite", "raw.events", "--sorted-by", "kind desc, id")
    assert (code, out.splitlines()[1:]) == (
        2,
        [
            "in 1 commit; rows keep their ids, and no row changes",
            "the files before stay until their snapshots expire",
        ],
    )
    assert out.startswith("raw.events: write 2 files (")
    assert out.splitlines()[0].endswith(f") with 2 rows again, sorted by {ORDER}")
    assert "needs --yes when stdin is not a terminal" in err
    assert called("rewrite", "raw.events", "--sorted-by", "kind desc, id", "--dry-run") == (0, out, "")
    assert begins() == before


def test_consent_rewrites_the_table(events_folder: Path, called: Any) -> None:
    code, out, _ = called("rewrite", "raw.events", "--sorted-by", "kind desc, id", "--yes", "--memory-limit", "1GB")
    assert (code, out.splitlines()[-1]) == (0, "done: 2 files became 1")
    assert begins() == [5]
    assert called("rewrite", "raw.events", "--sorted-by", "KIND desc,id", "--yes") == (
        0, f"raw.events: no file to sort by {ORDER}\n", "",
    )  # fmt: skip


def test_deadline_ends_the_rewrite(events_folder: Path, called: Any) -> None:
    arguments = ("rewrite", "raw.events", "--sorted-by", "id", "--yes", "--deadline-minutes", "0")
    code, out, _ = called(*arguments)
    assert (code, out.splitlines()[-1]) == (0, "the deadline ended it early: the next rewrite continues")
    code, out, _ = called(*arguments, "--format", "json")
    found = json.loads(out)
    assert (code, found["sorted_by"], found["files"]) == (0, ["id ASC NULLS LAST"], 2)
    assert found["result"] == {"files_before": 2, "files_after": 2, "commits": 0, "complete": False}


def test_names_with_commas_are_quoted(project: Path, called: Any) -> None:
    with lakeconf.init().get_store().open() as lake:
        lake.create_table("t", {"a, b": "BIGINT", "c": "BIGINT"})
    code, out, _ = called("rewrite", "t", "--sorted-by", 'c, "a, b" desc')
    assert (code, out) == (0, "main.t: no file to sort by c ASC NULLS LAST, a, b DESC NULLS LAST\n")
    code, _, err = called("rewrite", "t", "--sorted-by", "")
    assert (code, "there is no column to sort by" in err) == (1, True)
    code, _, err = called("rewrite", "t")
    assert (code, "main.t has no sort order" in err) == (1, True)
    assert 'hint: name the columns: --sorted-by "day, user DESC"' in err


def test_names_from_the_catalog_cannot_look_like_lines_of_the_plan(project: Path, called: Any) -> None:
    with lakeconf.init().get_store().open() as lake:
        lake.create_table("t", {"a\ndone: b": "BIGINT"}, sorted_by=["a\ndone: b"])
    code, out, _ = called("rewrite", "t")
    assert (code, out) == (0, "main.t: no file to sort by a\\x0adone: b ASC NULLS LAST\n")
