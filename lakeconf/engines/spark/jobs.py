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

    The action runs in its own thread. Otherwise, an exception that a signal raises (Ctrl-C, a timeout) would interrupt
    py4j during a call, and the job would continue.

    Args:
        spark: The session whose jobs the action starts.
        action: Starts the jobs and waits for them.
        tag: A unique name for the jobs.

    Raises:
        BaseException: The error of the action, or the interruption. No job of the action is still running.
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
    """Cancels jobs until the action has ended: it may start another job between two of them."""
    while not ended.is_set():
        with contextlib.suppress(PySparkException):
            spark.sparkContext.cancelJobsWithTag(tag)
        ended.wait(_EVERY_SECONDS)
