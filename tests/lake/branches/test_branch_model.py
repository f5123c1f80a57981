"""Random commands of a lake and of its branch do what they do to full copies, and none of a branch changes the lake."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from branch_commands import TABLES, Command, Commands
from branched_lakes import rows_of, state_of
from local_stores import new_store, rows
from strength import PROVE, in_prove

from lakeconf.catalog.tables import split_name
from lakeconf.errors import CommitConflictError, LakeconfError
from lakeconf.inspection.table_copy import TableCopies
from lakeconf.sql import qualified

if TYPE_CHECKING:
    from lakeconf import Lake, Store

SEEDS = range(200) if PROVE else (26,)
STEPS = 5
# What happens after the branch was made; more of it, in any order, in `make prove`.
STRETCHES = ("branch", "lake", "branch", "copy back", "drop")
Versions = tuple[int, int]


class Versus(NamedTuple):
    """A lake and its full copy."""

    real: Store
    copy: Store


def seen(lake: Lake, *, whole: bool = True) -> dict[str, Any]:
    """What users read from a lake: its rows, and what describes them."""
    read: dict[str, Any] = {"views": lake.views(), "tables": lake.tables()}
    for name in read["tables"]:
        table, of_table = lake.table(name), rows_of(lake, name)
        read[name] = (table.schema, of_table)
        if whole:
            read[name] += (table.count(), table.comment, table.column_comments)
    for name in read["views"]:
        with contextlib.suppress(LakeconfError):
            read[name] = rows(lake, f"FROM {qualified(*split_name(name))}")
    return read


def outcome(command: Command, lake: Lake) -> str:
    """What becomes of a command."""
    try:
        command.run(lake)
    except (LakeconfError, ZeroDivisionError) as error:
        return type(error).__name__
    return "done"


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """The files of a lake, apart from its catalog."""
    files = (
        (path, path.stat()) for path in (folder / "data").rglob("*") if path.is_file() and "_pin_" not in path.name
    )
    return {str(path): (state.st_size, state.st_mtime_ns) for path, state in files}


class BranchModel:
    """A lake and its branch beside their full copies; both pairs have gone through the same commands."""

    def __init__(self, request: pytest.FixtureRequest, folder: Path, catalog: str, seed: int) -> None:
        self._request, self._folder, self._catalog = request, folder, catalog
        self.random = Random(seed)  # noqa: S311
        self.script: list[str] = []
        self._numbers = itertools.count()
        self.lake = Versus(self._new("prod"), self._new("prod_copy"))
        self.branch = self.lake
        self._versions: dict[Versus, list[Versions]] = {}
        self.outcomes = Counter[str]()

    def _new(self, name: str) -> Store:
        catalog = self._catalog if name == "prod" or name.startswith("pr_") else "sqlite"
        return new_store(self._request, self._folder, name, catalog, "local")

    def begin(self) -> None:
        """Makes some tables with rows, and a view."""
        for store in self.lake:
            with store.open() as lake:
                for number in range(3):
                    Commands(Random(number), lake).create_named(TABLES[number]).run(lake)  # noqa: S311
                lake.create_view("raw.v", "SELECT id, count(*) AS n FROM raw.a GROUP BY id")

    def fork(self) -> None:
        """Makes a full copy of the lake, and a branch; between the two, the lake may go on."""
        number = next(self._numbers)
        copy = self._new(f"copy_{number}")
        self.lake.real.move_to(copy)
        with self.lake.real.open() as lake:
            version = lake.snapshot_id
        goes_on = self.random.choice([True, False])
        if goes_on:
            self.stretch(self.lake, keeps=True)
        made = self._new(f"pr_{number}").replace(branch_of=self.lake.real)
        left_out = [text.partition(": ")[0] for text in made.create_branch(at=version if goes_on else None).left_out]
        self.script.append(f"branch at {version} without {left_out}")
        with copy.open() as lake:
            for view in left_out:
                lake.drop_view(view)
        self.branch = Versus(made, copy)
        self._versions[self.branch] = []
        self.compare(self.branch)

    def drop(self) -> None:
        """Drops the branch."""
        self.branch.real.drop_branch()
        assert self.lake.real.branches() == []
        assert not list((self._folder / self.branch.real.name / "data").rglob("*.parquet")), "\n".join(self.script)
        self.script.append("drop branch")

    def compare(self, versus: Versus) -> None:
        """Compares a lake with its full copy, each opened anew."""
        with versus.real.open() as real, versus.copy.open() as copy:
            self._check(real, copy)

    def _check(self, real: Lake, copy: Lake, *, whole: bool = True) -> None:
        assert seen(real, whole=whole) == seen(copy, whole=whole), "\n".join(self.script)

    def stretch(self, versus: Versus, *, keeps: bool = False) -> None:
        """Some commands on a lake and its full copy."""
        versions = self._versions.setdefault(versus, [])
        self.script.append(f"in {versus.real.name}:")
        with versus.real.open() as real, versus.copy.open() as copy:
            for _ in range(STEPS):
                command = self._restore(versions, copy.tables()) or Commands(self.random, copy).any()
                if keeps and command.maintains:
                    continue
                self.script.append(command.words)
                ended = outcome(command, real), outcome(command, copy)
                self.script.append(f"  {ended}")
                self.outcomes[f"{command.words.split()[0]} {ended[1]}"] += 1
                assert ended[0] == ended[1], "\n".join(self.script)
                self._check(real, copy, whole=False)
                if command.maintains:
                    versions.clear()
                versions.append((real.snapshot_id, copy.snapshot_id))
            if versions:
                older = self.random.choice(versions)
                self._check(real.at(version=older[0]), copy.at(version=older[1]))

    def _restore(self, versions: list[Versions], names: list[str]) -> Command | None:
        if not versions or not names or self.random.randrange(8):
            return None
        (real, copy), name = self.random.choice(versions), self.random.choice(names)

        def run(lake: Lake) -> None:
            lake.restore(name, version=copy if is_copy(lake) else real)

        def is_copy(lake: Lake) -> bool:
            return "copy" in repr(lake)

        return Command(f"restore {name} to {real} or {copy}", run)

    def copy_back(self) -> None:
        """Copies what the branch has written to the lake, unless the lake has changed it."""
        pin = self.lake.real.branches()[0].snapshot_id
        with self.branch.real.replace(branch_of=None).open() as own:
            names = own.tables()
        with self.lake.real.open() as real, self.lake.copy.open() as copy:
            copies = TableCopies(real, self.branch.real)
            conflict = False
            then, now = seen(real.at(version=pin)), seen(real)
            changed = any(then.get(name) != now.get(name) for name in names)
            self.script.append(f"copy {names} back")
            try:
                copies.copy(copies.plan())
            except CommitConflictError:
                conflict = True
            self.script.append("  conflict" if conflict else "  copied")
            self.outcomes["copy back " + ("conflict" if conflict else "copied")] += 1
            assert conflict == changed, "\n".join(self.script)
            if not conflict and names:
                others = TableCopies(copy, self.branch.copy)
                others.copy(others.plan(names))
            self._check(real, copy)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("catalog", ["sqlite", *in_prove(["duckdb", "postgres"])])
def test_a_branch_is_what_a_full_copy_is(
    catalog: str, seed: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    model = BranchModel(request, tmp_path, catalog, seed)
    prod = tmp_path / "prod"
    model.begin()
    model.stretch(model.lake)
    model.fork()
    for kind in model.random.choices(["branch", *STRETCHES], k=8) if PROVE else STRETCHES:
        if kind == "lake":
            model.stretch(model.lake)
            model.compare(model.branch)
        elif kind == "copy back":
            model.copy_back()
            model.compare(model.branch)
        else:
            before, files = state_of(model.lake.real, prod), listing(prod)
            if kind == "drop":
                model.drop()
            else:
                model.stretch(model.branch)
            assert (state_of(model.lake.real, prod), listing(prod)) == (before, files), "\n".join(model.script)
            if kind == "drop":
                model.fork()
            model.compare(model.lake)
    assert sum(count for what, count in model.outcomes.items() if what.endswith("done")) > STEPS
