"""Runs Spark jobs so that an interrupted write does not leave a job behind."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakeconf.logs import EventLogger

_log = EventLogger("stage")
_EVERY_SECONDS = 0.1


def run_job(spark: SparkSession, action: Callable[[], object], tag: str) -> None:
    """Runs an action of Spark and waits for it. If the wait is interrupted, cancels its jobs before it raises.

    The action runs in a thread of its own. An exception that a signal raises (Ctrl-C, a timeout) would otherwise
    interrupt py4j in the middle of a call, and the job would run on.

    Args:
        spark: The session whose jobs the action starts.
        action: What starts the jobs and waits for them.
        tag: A name for the jobs that no other job has.

    Raises:
        BaseException: What the action raised, or what interrupted the wait; then no job of the action runs any more.
    """
    context = spark.sparkContext
    failures: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            context.addJobTag(tag)
            action()
        except BaseException as error:  # noqa: BLE001 - raised by the caller's thread
            failures.append(error)
        finally:
            ended.set()

    InheritableThread(target=run, name=f"lakeconf-{tag}", daemon=True).start()
    try:
        ended.wait()
    except BaseException:
        _log.warning("interrupted: cancelling the Spark jobs of the write %s", tag)
        _cancel(spark, tag, ended)
        raise
    if failures:
        raise failures[0]


def _cancel(spark: SparkSession, tag: str, ended: threading.Event) -> None:
    """Cancels jobs until the action has ended: it may start one more between two of them."""
    while not ended.is_set():
        with contextlib.suppress(PySparkException):
            spark.sparkContext.cancelJobsWithTag(tag)
        ended.wait(_EVERY_SECONDS)
