"""The strategy of each write: a statement of DuckDB, or files that Spark writes and a staged commit adds; and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakeconf.catalog.pruning.scan_plan import ScanPlan, plan_scan, with_bytes_per_row
from lakeconf.catalog.pruning.where import Where
from lakeconf.catalog.tables import NO_ID, TableInfo, load_table
from lakeconf.commit.scope import Scope
from lakeconf.commit.session import Session
from lakeconf.engines.engine import DUCKDB, SparkOperations, Staged
from lakeconf.errors import LakeconfError, UnsupportedError
from lakeconf.wording import byte_size
from lakeconf.write.capabilities import (
    EngineName,
    append_obstacle,
    commit_obstacle,
    key_obstacle,
)

_BY_DUCKDB = 'omit engine="spark": then DuckDB carries it out'
# Up to these sizes, a statement is faster than another Spark job. Sizes of Parquet files: DuckDB keeps the frame of a
# merge in memory; of the files it reads the keys and the rows that change.
MOST_FRAME_BYTES = 128 * 1024**2
MOST_FILE_BYTES = 4 * 1024**3
# Of the updated rows in the files of the table; an estimate.
LEAST_BYTES = 64 * 1024**2
# DuckLake needs 30 to 60 bytes of memory for each row that a statement deletes, also if it drops whole files. DuckDB
# counts the rows in 0.02 s for 2,000,000, and a Spark job takes a second.
ROWS_PER_STATEMENT = 2_000_000
# DuckLake's DELETE needs 6 MB for so many rows. It keeps deletes of few rows in the catalog.
FEWEST_POSITIONS = 100_000
_FILES = "its files become files of the table"
_SEVERAL = "the transaction contains more than one write"


class Amount(NamedTuple):
    """Something that a write reads or changes, and the most of it for a statement."""

    what: str
    value: int
    most: int
    unit: Callable[[int], str] = byte_size

    def __str__(self) -> str:
        return f"{self.what} {self.unit(self.value)}"


class Strategy(NamedTuple):
    """Who computes and commits a write; and why."""

    by_spark: bool  # True if Spark computes it
    reason: str
    is_staged: bool = False  # True if a staged commit adds what Spark has computed; False if statements do
    # What would change the strategy, as far as it is not known before the write has begun.
    unless: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "; ".join((f"{'spark' if self.by_spark else DUCKDB}: {self.reason}", *self.unless))


@dataclass(frozen=True)
class Strategist:
    """Chooses the strategy of writes to a table."""

    session: Session
    info: TableInfo
    snapshot_id: int  # the snapshot that the write reads
    engine: EngineName | None = None  # the engine that the caller wants
    is_part: bool = False  # True if the transaction contains something besides the write
    has_key: bool = False  # True if the write has an idempotency key

    def append(self, staged: Staged | None = None) -> Strategy:
        """The strategy for new rows: their files become files of the table, or DuckDB inserts the rows.

        Without staged rows, as far as the definition of the table shows it.
        """
        if DUCKDB in (self.engine, self.session.engine.name):
            return self.by_statement(str(engine_obstacle(self.session, self.engine)))
        if staged is None:
            obstacle = append_obstacle(self.info)
        else:
            is_complete = staged.rest is None and bool(staged.files) and staged.keeps_files
            obstacle = None if is_complete or staged.row_count == 0 else "no files of Spark contain all rows"
        return Strategy(by_spark=True, reason=_FILES) if obstacle is None else self.by_statement(obstacle)

    def delete(self, plan: ScanPlan, *, has_condition: bool, adds_rows: bool = False) -> Strategy:
        """The strategy for a delete; with `unless`, the rows should be counted, for `counted_delete`.

        DuckDB counts the rows that satisfy a condition sooner than Spark finds them, unless it must read large files.
        """
        count = sum(file.record_count for file in plan.files)
        rows = Amount(f"the files that can match ({len(plan.files)}) have", count, ROWS_PER_STATEMENT, _rows)
        strategy = self._choose((rows,), adds_rows=adds_rows)
        if strategy.by_spark and has_condition and not self._by_size((_matching_files(plan),)).by_spark:
            few = f"duckdb, if at most {_rows(ROWS_PER_STATEMENT)} of them satisfy the condition"
            return strategy._replace(unless=(few,))
        return strategy

    def counted_delete(self, count: int) -> Strategy:
        """The strategy for a delete whose rows DuckDB has counted."""
        return self._by_size((Amount("those to delete are", count, ROWS_PER_STATEMENT, _rows),))

    def partial_delete(self, count: int) -> Strategy:
        """The strategy for a delete whose rows Spark has found, by those in files that keep other rows."""
        what = "in files that keep rows, those to delete are"
        return self._by_size((Amount(what, count, FEWEST_POSITIONS, _rows),))

    def update(self, count: int, what: str = "the updated rows have about") -> Strategy:
        """The strategy for an update of a number of rows."""
        # From the catalog: the footers of the updated files would need requests.
        size = int(count * (with_bytes_per_row(self.session.reader, self.info).bytes_per_row or 0))
        return self._choose((Amount(what, size, LEAST_BYTES),), adds_rows=True)

    def update_files(self, plan: ScanPlan) -> Strategy:
        """The strategy for an update, if all rows of the files that can match were updated."""
        count = sum(file.record_count for file in plan.files)
        return self.update(count, "with all rows of the files, the updated rows have")

    def merge(self, plan: ScanPlan, frame_bytes: int | None) -> Strategy:
        """The strategy for a merge of a frame of a size with the files that can match; None if the size is unknown."""
        frame = () if frame_bytes is None else (Amount("the frame has", frame_bytes, MOST_FRAME_BYTES),)
        join = self._by_size((*frame, _matching_files(plan)))
        if not isinstance(self.session.engine, SparkOperations):
            return join._replace(is_staged=False)  # Spark Connect joins, and statements commit
        if not join.by_spark and frame_bytes is not None:
            return join
        unless = () if join.by_spark else (f"spark, if the frame has more than {byte_size(MOST_FRAME_BYTES)}",)
        obstacle = engine_obstacle(self.session, self.engine) or self._obstacle(adds_rows=True)
        if obstacle is None:
            return join._replace(unless=unless)
        if self.engine == "spark":
            return self.by_statement(obstacle)
        return join._replace(is_staged=False, unless=(*unless, f"not staged: {obstacle}"))

    def by_statement(self, reason: str) -> Strategy:
        """The strategy of a statement; an error if the write has `engine="spark"`."""
        if self.engine == "spark":
            name = self.info.full_name
            raise UnsupportedError(f"Spark cannot carry out the write to {name}: {reason}", hint=_BY_DUCKDB)
        return Strategy(by_spark=False, reason=reason)

    def after_error(self, error: LakeconfError) -> Strategy:
        """The strategy of a statement after an error of Spark, which is raised if the write has `engine="spark"`."""
        if self.engine == "spark":
            # Its hint is for reads, or for writes by any engine.
            raise UnsupportedError(error.message, hint=_BY_DUCKDB) if isinstance(error, UnsupportedError) else error
        # Not the message, which may quote values: the commit records the reason.
        return Strategy(by_spark=False, reason="Spark does not compute it like DuckDB")

    def obstacle(self) -> str | None:
        """Why no write to the table can be carried out by Spark, whatever it is; None if one can."""
        return _SEVERAL if self.info.table_id == NO_ID else engine_obstacle(self.session, self.engine)

    def _choose(self, amounts: Sequence[Amount], *, adds_rows: bool) -> Strategy:
        """The strategy by the size of a write, and by what a staged commit can do."""
        strategy = self._by_size(amounts)
        obstacle = engine_obstacle(self.session, self.engine)
        if obstacle is None and strategy.by_spark:
            obstacle = self._obstacle(adds_rows=adds_rows)
        return strategy if obstacle is None else self.by_statement(obstacle)

    def _obstacle(self, *, adds_rows: bool) -> str | None:
        if self.is_part:
            return _SEVERAL
        obstacle = commit_obstacle(self.session, self.info, self.snapshot_id, self.engine, adds_rows=adds_rows)
        if obstacle is None and self.has_key:
            return key_obstacle(self.session, self.snapshot_id)
        return obstacle

    def _by_size(self, amounts: Sequence[Amount]) -> Strategy:
        """The rule: Spark computes what is too large for a statement, unless `engine=` or the store says otherwise."""
        if self.engine is not None:
            by_spark = self.engine == "spark"
            return Strategy(by_spark, f"engine={self.engine!r}", is_staged=by_spark)
        if self.session.committer == "staged":
            return Strategy(by_spark=True, reason="the store's committer is staged", is_staged=True)
        for amount in amounts:
            if amount.value > amount.most:
                reason = f"{amount}, more than {amount.unit(amount.most)}"
                return Strategy(by_spark=True, reason=reason, is_staged=True)
        return Strategy(by_spark=False, reason="; ".join(map(str, amounts)))


def explained(scope: Scope, table: str, where: Where | None) -> dict[str, str]:
    """The strategy of each write to the rows of a scan, as far as it is known before; for `Table.explain`."""
    session, snapshot_id = scope.session, scope.snapshot_id
    if not isinstance(session.engine, SparkOperations):
        return {}
    plan = plan_scan(session.reader, table, snapshot_id, None, where)
    info = load_table(session.reader, table, snapshot_id)
    strategist = Strategist(session, info, snapshot_id, is_part=scope.transaction is not None)
    strategies = {
        "append": strategist.append(),
        "delete": strategist.delete(plan, has_condition=True),
        "overwrite": strategist.delete(plan, has_condition=where is not None, adds_rows=True),
        "update": strategist.update_files(plan),
        "merge": strategist.merge(plan, None),
        "execute": strategist.by_statement("SQL runs in the commit"),
    }
    return {write: str(strategy) for write, strategy in strategies.items()}


def engine_obstacle(session: Session, engine: EngineName | None = None) -> str | None:
    """Why Spark cannot carry out any write, with the engine that the caller wants; None if it can."""
    if not isinstance(session.engine, SparkOperations):
        return f"the lake was opened with{'out Spark' if session.engine.name == DUCKDB else ' Spark Connect'}"
    if engine == DUCKDB:
        return "engine='duckdb'"
    return "the store's committer is public" if session.committer == "public" else None


def _matching_files(plan: ScanPlan) -> Amount:
    """What DuckDB would read."""
    size = sum(file.file_size_bytes for file in plan.files)
    return Amount(f"the files that can match ({len(plan.files)}) have", size, MOST_FILE_BYTES)


def _rows(count: int) -> str:
    return f"{count:,} rows"
