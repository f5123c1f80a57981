"""A lost catalog is an error: nothing creates an empty one for a data path that has the files of a lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from local_stores import on_postgres, store_of

from lakeconf.cli.app import run
from lakeconf.errors import CatalogLostError
from lakeconf.store import for_reading

if TYPE_CHECKING:
    from pathlib import Path

    from servers import PostgresServer

    from lakeconf import Store

COMMANDS = (
    "tables",
    "snapshots",
    "tables t",
    "sql FROM(t)",
    "maintain --dry-run",
    "maintain --yes",
    "restore t --version 1",
)


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A store whose catalog is lost."""
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        catalog = on_postgres(server)
    else:
        catalog = {"type": request.param, "uri": str(tmp_path / "catalog")}
    made = store_of(tmp_path, catalog)
    with made.open() as lake:
        lake.create_table("t", {"id": "BIGINT"}).append(lake.sql("SELECT 1::BIGINT AS id"))
    if request.param == "postgres":
        server.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public", str(catalog["database"]))
    else:
        for path in tmp_path.glob("catalog*"):
            path.unlink()
    return made


def files(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


def test_nothing_opens_or_creates_it(store: Store, tmp_path: Path) -> None:
    before = files(tmp_path)
    for use in (store.open, store.connect, lambda: store.open(read_only=True), for_reading(store).open):
        with pytest.raises(CatalogLostError, match="has the files of a lake: nothing was created"):
            use()
    assert files(tmp_path) == before


def test_a_new_lake_needs_another_data_path(tmp_path: Path) -> None:
    with store_of(tmp_path, {"type": "sqlite", "uri": str(tmp_path / "one")}).open() as lake:
        lake.create_table("t", {"id": "BIGINT"})
    with pytest.raises(CatalogLostError):
        store_of(tmp_path, {"type": "sqlite", "uri": str(tmp_path / "two")}).open()


@pytest.mark.parametrize("command", [*COMMANDS, "doctor"])
def test_commands_fail_and_create_nothing(
    command: str, events_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in events_folder.glob("catalog.sqlite*"):
        path.unlink()
    before = files(events_folder)
    assert run(command.split()) == 1
    assert "has the files of a lake" in "".join(capsys.readouterr())
    assert files(events_folder) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_create_nothing_without_a_lake(command: str, project: Path) -> None:
    before = files(project)
    assert run(command.split()) == 1
    assert files(project) == before
