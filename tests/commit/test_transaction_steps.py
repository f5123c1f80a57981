"""Steps in one transaction leave what they leave in one transaction each, or an error and nothing."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from local_stores import on_catalog, store_of
from strength import PROVE
from transaction_steps import STEPS, net_changes, prepare, rows, state

from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lakeconf import Lake

RANDOM_SEQUENCES = 20_000 // 30 if PROVE else 1
MOST_STEPS = 6
# The first steps of the pairs that run in CI. `make prove` runs all pairs.
OF_COLUMNS = {
    *("add", "rename the late column", "promote the late column"),
}
# After these, a change feed of the table before them is not about the same table.
_OF_OTHER_TABLES = {"rename the table", "drop the table", "create the table"}


@pytest.fixture(params=[0, 30], ids=["files", "inlined"])
def inlined(request: pytest.FixtureRequest) -> int:
    """The limit of inlined rows."""
    return int(request.param)


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def lakes(request: pytest.FixtureRequest, tmp_path: Path, inlined: int) -> Iterator[tuple[Lake, Lake]]:
    """Two lakes alike: for one transaction, and for one each."""
    stores = []
    for name in ("whole", "steps"):
        folder = tmp_path / name
        folder.mkdir()
        stores.append(store_of(folder, on_catalog(request, folder), data_inlining_row_limit=inlined))
    for store in stores:
        prepare(store, [f"t{number}" for number in range(len(STEPS))])
    with stores[0].open() as whole, stores[1].open() as each:
        yield whole, each


def check(lakes: tuple[Lake, Lake], table: str, steps: Sequence[str]) -> list[str]:
    """Takes steps in one transaction on one lake, and in one each on the other, and compares the two.

    Returns the tables that are alike now; none if the transaction was an error.
    """
    whole, each = lakes
    before, since = state(whole, table), whole.snapshot_id
    if error := error_of(whole, table, steps):
        assert state(whole, table) == before, f"{steps}: {error}"
        return []
    take(each, table, steps)
    after = state(whole, table)
    assert after == state(each, table), steps
    assert rows(whole.at(version=since), table) == before[table].rows, steps
    if table in after and not _OF_OTHER_TABLES.intersection(steps) and after[table].types == before[table].types:
        changed = Counter(after[table].rows)
        changed.subtract(before[table].rows)
        assert net_changes(whole, table, since + 1) == {row: count for row, count in changed.items() if count}, steps
    return [name for name in after if name != "view"]


def error_of(lake: Lake, table: str, steps: Sequence[str]) -> LakeconfError | None:
    """Takes steps in one transaction; returns its error."""
    try:
        with lake.transaction() as transaction:
            take(transaction, table, steps)
    except LakeconfError as error:
        return error
    return None


def check_later(lakes: tuple[Lake, Lake], tables: Sequence[str], steps: str) -> None:
    """Compares the defaults of new rows in tables, and their rows after a compaction."""
    whole, each = lakes
    for lake in lakes:
        with lake.transaction() as transaction:
            for table in tables:
                transaction.execute(f"INSERT INTO {table} (id) VALUES (1000)")
        lake.maintenance.compact()
    for table in tables:
        assert rows(whole, table) == rows(each, table), f"{steps}, later: {table}"


def take(lake: Lake, table: str, steps: Sequence[str]) -> None:
    for step in steps:
        STEPS[step](lake, table)


@pytest.mark.slow
@pytest.mark.prove("sqlite", "postgres", "files", *(step for step in STEPS if step not in OF_COLUMNS))
@pytest.mark.parametrize("first", STEPS)
def test_two_steps_in_one_transaction_equal_two_transactions(lakes: tuple[Lake, Lake], first: str) -> None:
    alike = [table for number, second in enumerate(STEPS) for table in check(lakes, f"t{number}", [first, second])]
    check_later(lakes, alike, first)


@pytest.mark.prove("postgres", "files")
@pytest.mark.parametrize("seed", range(RANDOM_SEQUENCES))
def test_random_steps_in_one_transaction_equal_their_transactions(lakes: tuple[Lake, Lake], seed: int) -> None:
    choices = random.Random(seed)  # noqa: S311 - the same sequence again
    alike = []
    for number in range(len(STEPS) if PROVE else 10):
        steps = choices.choices(list(STEPS), k=choices.randint(3, MOST_STEPS))
        alike += check(lakes, f"t{number}", steps)
    check_later(lakes, alike, str(seed))
