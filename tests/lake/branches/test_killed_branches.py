"""Making, dropping and first writing a branch are repeated after a kill at any step, and the lake stays as it is."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import dying_move
import pytest
from branched_lakes import expire_all, rows_of, state_of
from local_stores import on_catalog
from strength import PROVE, in_prove
from whole_lakes import fill

import lakeconf
from lakeconf.config.toml_text import toml_value
from lakeconf.ducklake import MARKER
from lakeconf.errors import BranchError, CatalogMissingError
from lakeconf.inspection.doctor import repair_marker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakeconf import Store

STATEMENTS = (
    "CREATE TABLE t AS SELECT range AS id FROM range(100)",
    "CREATE TABLE u AS SELECT range AS id FROM range(10)",
    "DELETE FROM t WHERE id < 40",
    "CREATE VIEW v AS SELECT count(*) AS n FROM t",
)
CATALOGS = ["sqlite", *in_prove(["duckdb", "postgres"])]


def configured(request: pytest.FixtureRequest, folder: Path, catalog: str) -> tuple[Store, Store]:
    """A configuration with a lake and its branch, which does not exist yet."""
    stores: dict[str, dict[str, object]] = {}
    for name in ("prod", "pr"):
        (folder / name).mkdir(parents=True)
        stores[name] = {
            "metadata_backend": on_catalog(request, folder / name, catalog),
            "storage_backend": {"type": "local", "path": str(folder / name / "data")},
        }
    stores["pr"]["branch_of"] = "prod"
    (folder / "lakeconf.toml").write_text(f"stores = {toml_value(stores)}\n")
    config = lakeconf.init(folder)
    fill(config.get_store("prod"), STATEMENTS)
    repair_marker(config.get_store("prod"), lambda *_: None)
    return config.get_store("prod"), config.get_store("pr")


def folder_of(store: Store) -> Path:
    return Path(str(store.storage_backend and store.storage_backend.location))


def ran(folder: Path, number: int, when: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, dying_move.__file__, str(number), when, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def killed(
    request: pytest.FixtureRequest, folder: Path, catalog: str, prepare: Callable[[Store], object], *arguments: str
) -> Iterator[tuple[Store, Store]]:
    """A lake and its branch after each kill of a command; the lake is as it was before."""

    def prepared(number: int | str) -> tuple[Store, Store]:
        stores = configured(request, folder / str(number), catalog)
        prepare(stores[1])
        return stores

    prepared(0)
    finished = ran(folder / "0", 0, "", *arguments)
    assert finished.returncode == 0, finished.stderr
    steps = int(finished.stdout.split()[-1])
    assert steps > 3
    kills = [(number, when) for number in range(1, steps + 1) for when in ("before", "after")]
    for number, when in kills if PROVE else kills[:: max(2, len(kills) // 3)]:
        place = f"{number} {when}"
        prod, branch = prepared(place)
        before = state_of(prod, folder / place / "prod")
        process = ran(folder / place, number, when, *arguments)
        assert process.returncode == -signal.SIGKILL, (place, process.stderr)
        assert state_of(prod, folder / place / "prod") == before, place
        yield prod, branch
        assert state_of(prod, folder / place / "prod") == before, place
        with prod.open() as lake:
            expire_all(lake)
            assert lake.table("t").count() == 60
        left = [path.name for path in (folder / place / "prod" / "data").glob("_*") if path.name != MARKER]
        assert left == [pin.path.rpartition("/")[2] for pin in prod.branches()], place


@pytest.mark.slow
@pytest.mark.parametrize("catalog", CATALOGS)
def test_branch_whose_making_is_killed_is_made_again_or_dropped(
    catalog: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    after_kills = killed(request, tmp_path, catalog, lambda _: None, "branch", "prod", "pr", "--yes")
    for number, (prod, branch) in enumerate(after_kills):
        with contextlib.suppress(BranchError, CatalogMissingError), branch.open() as lake:
            assert lake.table("t").count() == 60
        if number % 2:
            with contextlib.suppress(BranchError, CatalogMissingError):  # there is nothing yet
                branch.drop_branch()
            assert prod.branches() == []
        branch.create_branch()
        assert [pin.store for pin in prod.branches()] == ["pr"]
        with branch.open() as lake:
            assert (lake.tables(), lake.views(), lake.table("t").count()) == (["main.t", "main.u"], ["main.v"], 60)


@pytest.mark.slow
@pytest.mark.parametrize("catalog", CATALOGS)
def test_branch_whose_dropping_is_killed_is_dropped_again(
    catalog: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    def prepare(branch: Store) -> None:
        branch.create_branch()
        with branch.open() as lake:
            lake.table("t").append([{"id": number} for number in range(50)])

    for prod, branch in killed(request, tmp_path, catalog, prepare, "branch", "--drop", "pr", "--yes"):
        if prod.branches():
            branch.drop_branch()
        assert prod.branches() == []
        with branch.replace(branch_of=None).open() as lake:
            assert (lake.tables(), lake.views(), len(lake.snapshots())) == ([], [], 1)
        assert not list(folder_of(branch).rglob("*.parquet"))
        branch.create_branch()
        with branch.open() as lake:
            assert lake.table("t").count() == 60


@pytest.mark.slow
@pytest.mark.parametrize("catalog", CATALOGS)
def test_killed_first_write_is_repeated(catalog: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    def prepare(branch: Store) -> None:
        branch.create_branch()

    for _, branch in killed(request, tmp_path, catalog, prepare, "append", "pr", "t"):
        with branch.open() as lake:
            rows = rows_of(lake, "t")
            assert len(rows) == 60 + ((7000,) in rows)
            lake.table("t").append([{"id": 7000}], idempotency_key="once")
            assert len(rows_of(lake, "t")) == 61
