"""Steps in one transaction leave what they leave in one transaction each, or an error and nothing."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from local_stores import on_catalog, store_of
from strength import PROVE
from transaction_steps import STEPS, net_changes, prepare, rows_in_duckdb, rows_in_spark, state

from lakeconf.errors import LakeconfError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from lakeconf import Lake, Store

    Steps = Mapping[str, Sequence[str]]  # by table

# Transactions with many steps are often an error, and then those of all tables are repeated without it.
AT_ONCE = 10
RANDOM_SEQUENCES = 20_000 if PROVE else 20
MOST_STEPS = 6
# The first steps of the pairs that run in CI; `make prove` runs all pairs.
IN_CI = {"add", "promote the late column", "move the default"}
# The steps between two writes that run in CI: a sequence that is an error repeats all others.
BETWEEN_IN_CI = (
    "add",
    "add a struct",
    "promote",
    "drop",
    "rename the late column",
    "append with a new column",
    "delete",
)
# After these, a change feed of the table before them is not about the same table.
_OF_OTHER_TABLES = {"rename the table", "drop the table", "create the table", "restore"}


@pytest.fixture(params=[0, 30], ids=["files", "inlined"])
def inlined(request: pytest.FixtureRequest) -> int:
    """The limit of inlined rows."""
    return int(request.param)


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path, inlined: int) -> tuple[Store, Store]:
    """Two stores alike: for one transaction, and for one each."""
    made = []
    for name in ("whole", "steps"):
        folder = tmp_path / name
        folder.mkdir()
        made.append(store_of(folder, on_catalog(request, folder), data_inlining_row_limit=inlined))
    return made[0], made[1]


def check(stores: tuple[Store, Store], sequences: Steps, writer: Any, reader: Any) -> None:
    """Takes steps in one transaction in one store, and in one each in the other, and compares the two.

    Args:
        stores: The stores.
        sequences: The steps of each table; tables do not depend on each other.
        writer: The engine of the writes.
        reader: Spark, to read the rows once more; None to leave that out.
    """
    for store in stores:
        prepare(store, [*sequences])
    with stores[0].open(writer) as whole, stores[1].open(writer) as each:
        since = whole.snapshot_id
        before = state(whole, sequences)
        alike = [name for name in compare(whole, each, before, sequences) if not name.endswith("_view")]
        for lake in (whole, each):
            with lake.transaction() as transaction:
                for table in alike:
                    transaction.execute(f"INSERT INTO {table} (id) VALUES (1000)")
            lake.maintenance.compact()
        later = rows_in_duckdb(whole, alike)
        same(later, rows_in_duckdb(each, alike), sequences)
        earlier = rows_in_duckdb(whole.at(version=since), before)
        same(earlier, {table: seen.rows for table, seen in before.items()}, sequences)
    if reader is not None:
        with stores[0].open(reader) as on_spark:
            same(rows_in_spark(on_spark, alike), later, sequences)


def compare(whole: Lake, each: Lake, before: Mapping[str, Any], sequences: Steps) -> list[str]:
    """Commits the steps to both lakes, and returns what they have then.

    If a commit is an error, nothing has changed, and the steps of the table that it names are left out.
    """
    since = whole.snapshot_id
    try:
        with whole.transaction() as transaction:
            taken = {table: take(transaction, table, steps) for table, steps in sequences.items()}
    except LakeconfError as error:
        same(state(whole, sequences), {table: before[table] for table in sequences}, sequences)
        kept = {table: steps for table, steps in sequences.items() if not re.search(rf"\b{table}\b", str(error))}
        if len(kept) == len(sequences):
            raise
        return compare(whole, each, before, kept)
    for number in range(MOST_STEPS):
        with each.transaction() as transaction:
            for table, steps in taken.items():
                for step in steps[number : number + 1]:
                    STEPS[step](transaction, table)
    after = state(whole, sequences)
    same(after, state(each, sequences), taken)
    for table, steps in taken.items():
        if table not in after or _OF_OTHER_TABLES.intersection(steps):
            continue
        try:
            changes = net_changes(whole, table, since + 1)
        except UnsupportedError:  # the transaction changed rows that it had written
            continue
        assert changes == net_changes(each, table, since + 1), f"changes of {steps}"
        if after[table].types == before[table].types and "replace the default" not in steps:
            expected = Counter(after[table].rows)
            expected.subtract(before[table].rows)
            assert changes == {row: count for row, count in expected.items() if count}, f"changes of {steps}"
    return [*after]


def take(lake: Lake, table: str, steps: Sequence[str]) -> list[str]:
    """Takes steps; returns those that are no error, because an error leaves nothing of its step."""
    taken = []
    for step in steps:
        try:
            STEPS[step](lake, table)
        except LakeconfError:
            continue
        taken.append(step)
    return taken


def same(left: Mapping[str, Any], right: Mapping[str, Any], sequences: Steps) -> None:
    """Compares what two lakes have of each table."""
    assert left.keys() == right.keys()
    for name, values in left.items():
        steps = sequences[name.removesuffix("_view").removesuffix("_new")]
        assert values == right[name], f"{name}: {steps}"


def tables_of(sequences: Collection[Sequence[str]]) -> Steps:
    return {f"t{number}": steps for number, steps in enumerate(sequences)}


@pytest.mark.slow
@pytest.mark.prove("sqlite", "postgres", "files", *(step for step in STEPS if step not in IN_CI))
@pytest.mark.parametrize("first", STEPS)
def test_two_steps_in_one_transaction_equal_two_transactions(stores: tuple[Store, Store], first: str) -> None:
    check(stores, tables_of([(first, second) for second in STEPS]), writer=None, reader=None)


@pytest.mark.slow
@pytest.mark.prove("sqlite", "postgres", "files")
@pytest.mark.parametrize("write", ["append", "execute UPDATE"])
def test_a_step_between_two_writes_equals_its_transactions(stores: tuple[Store, Store], write: str) -> None:
    steps = STEPS if PROVE else BETWEEN_IN_CI
    check(stores, tables_of([(write, step, write) for step in steps]), writer=None, reader=None)


@pytest.mark.slow
@pytest.mark.prove("postgres", "inlined", *(step for step in STEPS if step != "add"))
@pytest.mark.parametrize("stores", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("first", STEPS)
def test_spark_reads_the_rows_of_two_steps(stores: tuple[Store, Store], spark: Any, first: str) -> None:
    check(stores, tables_of([(first, second) for second in STEPS]), writer=None, reader=spark)


@pytest.mark.slow
@pytest.mark.prove
@pytest.mark.parametrize("stores", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("first", STEPS)
def test_spark_takes_two_steps(stores: tuple[Store, Store], spark: Any, first: str) -> None:
    check(stores, tables_of([(first, second) for second in STEPS]), writer=spark, reader=spark)


@pytest.mark.slow
@pytest.mark.prove("postgres", "files")
@pytest.mark.parametrize("seed", range(RANDOM_SEQUENCES // AT_ONCE))
def test_random_steps_in_one_transaction_equal_their_transactions(stores: tuple[Store, Store], seed: int) -> None:
    choices = random.Random(seed)  # noqa: S311 - the same sequence again
    sequences = [choices.choices(list(STEPS), k=choices.randint(3, MOST_STEPS)) for _ in range(AT_ONCE)]
    check(stores, tables_of(sequences), writer=None, reader=None)
