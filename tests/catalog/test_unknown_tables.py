"""Hints for tables that SQL names, but that do not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from local_stores import store_of

import lakeconf
from lakeconf.cli.app import run
from lakeconf.errors import QueryError, SnapshotNotFoundError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lakeconf.Lake]:
    with store_of(tmp_path_factory.mktemp("unknown_tables")).open() as lake:
        lake.create_table("raw.Events", {"id": "BIGINT"})
        lake.create_view("raw.sales", "FROM raw.events")
        yield lake


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("raw.event", 'did you mean "raw.Events"?'),
        ("evnts", 'did you mean "raw.Events"?'),
        ("rw.events", 'did you mean "raw.Events"?'),
        ("raw.sale", 'did you mean "raw.sales"?'),
    ],
)
def test_misspelt_table_has_the_name_of_the_most_similar_one(opened: lakeconf.Lake, name: str, hint: str) -> None:
    frame = [{"id": 1}]
    for call in (
        lambda: opened.sql(f"FROM {name}"),
        lambda: opened.query(f"FROM frame, {name}", {"frame": frame}),
        lambda: opened.execute(f"INSERT INTO raw.events FROM {name}"),
        lambda: opened.create_view("v", f"FROM {name}"),
    ):
        with pytest.raises(UnknownNameError) as refused:
            call()
        assert refused.value.hint == hint
        assert "id you mean" not in refused.value.message
        assert str(refused.value).endswith(hint)


def test_frame_that_was_not_passed_is_no_table(opened: lakeconf.Lake) -> None:
    df = [{"id": 1}]
    with pytest.raises(UnknownNameError) as refused:
        opened.sql("FROM df")
    assert refused.value.hint == (
        'pass a frame by its name, as in lake.query(…, {"name": frame}); '
        "or use one of the tables: raw.Events, raw.sales"
    )
    found: Any = opened.query("FROM df", {"df": df}).to_native()
    assert found.fetchall() == [(1,)]


def test_variables_of_python_are_no_tables(opened: lakeconf.Lake) -> None:
    for query in ("FROM self", "FROM sql", "SELECT * FROM self AS s"):
        with pytest.raises(UnknownNameError, match=r"Table with name (self|sql) does not exist"):
            opened.sql(query)
    with pytest.raises(UnknownNameError, match="Table with name self does not exist"):
        opened.execute("INSERT INTO raw.events FROM self")


def test_empty_lake_needs_a_table(tmp_path: Path) -> None:
    with store_of(tmp_path).open() as lake, pytest.raises(UnknownNameError) as refused:
        lake.sql("FROM events")
    assert refused.value.hint == "create a table first: lake.create_table(…)"


def test_other_errors_stay_as_they_are(opened: lakeconf.Lake) -> None:
    with pytest.raises(UnknownNameError, match="Function with name nothing does not exist") as refused:
        opened.sql("SELECT nothing(1)")
    assert refused.value.hint is None
    with pytest.raises(QueryError, match="idd"):
        opened.sql("SELECT idd FROM raw.events")


def test_snapshot_that_does_not_exist_is_named(opened: lakeconf.Lake) -> None:
    for at in ("VERSION => 99", "TIMESTAMP => TIMESTAMPTZ '2001-01-01 00:00:00+00'"):
        with pytest.raises(SnapshotNotFoundError, match="No snapshot found at") as refused:
            opened.sql(f"FROM raw.events AT ({at})")
        assert refused.value.hint == "list the snapshots: lake.snapshots(), or lakeconf snapshots"


def test_command_line_names_the_most_similar_table(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with lakeconf.init(project).get_store().open() as lake:
        lake.create_table("raw.events", {"id": "BIGINT"})
    assert run(["sql", "FROM raw.event"]) == 1
    assert 'hint: did you mean "raw.events"?' in capsys.readouterr().err
