"""Runs models at the same time, each after the models that it reads."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from lakeconf.commit.scope import Scope
from lakeconf.connection.shared import SharedConnection
from lakeconf.engines.duckdb import DuckDBEngine
from lakeconf.errors import UnsupportedError
from lakeconf.lake.lake import Lake
from lakeconf.pipelines.kinds import View
from lakeconf.pipelines.model import Model
from lakeconf.pipelines.pipeline import Pipeline

_INTERRUPT_SECONDS = 1.0
Result = TypeVar("Result")


def in_parallel(
    names: Sequence[str],
    needs: Mapping[str, frozenset[str]],
    jobs: int,
    work: Callable[[str], Result],
    ended: Callable[[str, Result], None],
    interrupt: Callable[[], None],
    counts: Callable[[Result], bool] = lambda _: False,
) -> None:
    """Does work in threads; each item after those that it needs.

    Args:
        names: The items, in the order in which they start if they can.
        needs: The items that each needs.
        jobs: The largest number of items at the same time.
        work: Does the work of an item, in a thread.
        ended: Called with the result of each item when it ends, in the calling thread.
        interrupt: Stops what the threads do; called after Ctrl-C, and after any other exception.
        counts: True for the results that `ended` is called with if they come after that, such as those of a commit.
    """
    waiting, done, running = list(names), set[str](), dict[Future[Result], str]()
    # Ctrl-C cannot break this queue, unlike the locks of `concurrent.futures.wait`.
    finished = queue.SimpleQueue[Future[Result]]()
    with ThreadPoolExecutor(jobs, thread_name_prefix="lakeconf-model") as pool:
        try:
            while waiting or running:
                for name in [one for one in waiting if needs[one] <= done][: jobs - len(running)]:
                    waiting.remove(name)
                    future = pool.submit(work, name)
                    running[future] = name
                    future.add_done_callback(finished.put)
                future = finished.get()
                name = running.pop(future)
                ended(name, future.result())
                done.add(name)
        except BaseException:
            _stop(list(running), finished, interrupt)
            for future, name in running.items():
                if future.exception() is None and counts(future.result()):
                    ended(name, future.result())
            raise


def check_engine(lake: Lake) -> None:
    """Refuses an engine on which models cannot run at the same time.

    Raises:
        UnsupportedError: The lake was opened with Spark.
    """
    if not isinstance(lake._session.engine, DuckDBEngine):  # noqa: SLF001 - not for users
        raise UnsupportedError("models run at the same time on DuckDB only", hint="run one at a time: jobs=1")


def needed(pipeline: Pipeline, models: Sequence[Model]) -> dict[str, frozenset[str]]:
    """Returns the models among these that each must wait for: those that it needs, directly or through views.

    Args:
        pipeline: The pipeline.
        models: The models of a run.
    """
    chosen = {model.table for model in models}
    every: dict[str, frozenset[str]] = {}
    for model in pipeline.ordered:
        read = pipeline.needed(model)
        passed = [table for table in read if table in chosen or isinstance(pipeline.by_table[table].kind, View)]
        every[model.table] = frozenset(read & chosen).union(*(every[table] for table in passed))
    return {table: every[table] for table in chosen}


def forked(lakes: Mapping[str, Lake]) -> dict[str, Lake]:
    """Returns the same lakes for a thread: each at a snapshot that other threads do not move.

    Args:
        lakes: The open lakes, by any key.
    """
    return {key: Lake(Scope(lake._session.fork())) for key, lake in lakes.items()}  # noqa: SLF001 - not for users


def on_duckdb(lakes: Mapping[str, Lake]) -> dict[str, Lake]:
    """Returns the same lakes on DuckDB, for a model whose SQL DuckDB runs.

    Args:
        lakes: The open lakes, by any key.
    """
    sessions = {key: lake._session for key, lake in lakes.items()}  # noqa: SLF001 - not for users
    return {
        key: Lake(Scope(replace(one.fork(), engine=DuckDBEngine(one.reader, one.writer))))
        for key, one in sessions.items()
    }


def interrupt_queries(lakes: Mapping[str, Lake]) -> None:
    """Stops the queries of all threads on these lakes."""
    for lake in lakes.values():
        session = lake._session  # noqa: SLF001 - not for users
        for connection in (session.reader.connection, session.writer):
            if isinstance(connection, SharedConnection):
                connection.interrupt()


def _stop(
    running: Sequence[Future[Result]], finished: queue.SimpleQueue[Future[Result]], interrupt: Callable[[], None]
) -> None:
    """Waits until the threads have ended. A thread that begins a query later is interrupted again."""
    while not all(future.done() for future in running):
        with contextlib.suppress(KeyboardInterrupt, queue.Empty):
            interrupt()
            finished.get(timeout=_INTERRUPT_SECONDS)
