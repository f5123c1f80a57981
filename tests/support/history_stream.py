"""A reader of a history that follows a table of rows with a streaming query of Spark, from one checkpoint."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from history import Read, Transaction, now
from history_plan import ROWS

from lakeconf.config.toml_text import toml_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from history_plan import Task
    from pyspark.sql import DataFrame, SparkSession

_PROCESS = -3


class StreamReader:
    """Collects the rows of a table to which transactions only append.

    Each query ends when it has caught up with the table, and the next one continues from its checkpoint, as after a
    restart. What all of them have read is then a version of the table: each row once, and none missing.
    """

    def __init__(self, task: Task, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder, self._table = spark, folder, f"{ROWS}_0"
        self._batches: dict[int, list[tuple[int, int]]] = {}
        self._queries: list[tuple[int, int, list[tuple[int, int]]]] = []  # its times, and all rows until its end
        (folder / "lakeconf.toml").write_text(f"stores = {toml_value(task.config['stores'])}\n")

    def drain(self) -> None:
        """Reads until there is nothing more to read."""
        began = now()
        stream = self._spark.readStream.format("lakeconf").option("config", str(self._folder / "lakeconf.toml"))
        stream = stream.option("store", "dev").option("table", self._table).option("snapshots_per_batch", 5)
        query: Any = stream.load().writeStream.foreachBatch(self._collect)
        query = query.option("checkpointLocation", str(self._folder / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()
        self._queries.append((began, now(), [row for _, rows in sorted(self._batches.items()) for row in rows]))

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """Reads in a thread while the block runs, and to the end after it."""
        ended, errors = threading.Event(), list[BaseException]()

        def run() -> None:
            try:
                while not ended.is_set():
                    self.drain()
                self.drain()
            except BaseException as error:  # noqa: BLE001 - raised by the thread of the test
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        if errors:
            raise errors[0]

    def history(self, final: Sequence[Read]) -> list[Transaction]:
        """A transaction of each query, which has read all lists of the table until its end.

        A batch has the rows of several snapshots in no order: their values are in the order of the final reads.
        """
        lists = {read.key: read.values for read in final if read.key.startswith(f"{self._table}/")}
        places = {(key, value): place for key, values in lists.items() for place, value in enumerate(values)}
        done = []
        for number, (began, ended, rows) in enumerate(self._queries):
            values: dict[str, list[int]] = {key: [] for key in lists}
            for k, v in rows:
                values.setdefault(f"{self._table}/{k}", []).append(v)
            placed = {key: sorted((places.get((key, v), len(places)), v) for v in each) for key, each in values.items()}
            reads = tuple(Read(key, tuple(v for _, v in each)) for key, each in placed.items())
            done.append(Transaction(_PROCESS - number, _PROCESS, reads, "ok", began, ended, "stream"))
        return done

    def _collect(self, batch: DataFrame, number: int) -> None:
        # A batch that is repeated replaces itself.
        self._batches[number] = [(row.k, row.v) for row in batch.collect()]
