"""A job runs in its own thread; its error reaches the caller, and an interruption cancels its jobs."""

from __future__ import annotations

import logging
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from lakeconf.engines.spark.write.storage import run_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_action_runs_in_a_thread_with_the_tag_of_its_jobs(spark: SparkSession) -> None:
    seen: list[Any] = []

    def action() -> None:
        thread = threading.current_thread()
        tags = set(spark.sparkContext.getJobTags())
        seen.append((thread is threading.main_thread(), thread.name, thread.daemon, tags, spark.range(5).count()))

    run_job(spark, action, "0a1b")
    assert seen == [(False, "lakeconf-0a1b", True, {"0a1b"}, 5)]
    assert set(spark.sparkContext.getJobTags()) == set()


def test_job_inherits_the_properties_of_the_callers_thread(spark: SparkSession) -> None:
    seen: list[Any] = []
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", "planted")
    try:
        run_job(spark, lambda: seen.append(spark.sparkContext.getLocalProperty("spark.scheduler.pool")), "0a1b")
    finally:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]
    assert seen == ["planted"]


@pytest.mark.parametrize("error", [ValueError("planted"), SystemExit(3)], ids=repr)
def test_error_of_the_action_is_raised_in_the_callers_thread(spark: SparkSession, error: BaseException) -> None:
    def action() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        run_job(spark, action, "0a1b")
    assert raised.value is error


def test_interruption_cancels_the_jobs_and_waits_for_their_end(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[str] = []
    main = threading.main_thread().ident
    assert main is not None

    def action() -> None:
        signal.pthread_kill(main, signal.SIGINT)
        try:
            spark.range(10**15).where("id % 7 = 8").count()
        except Exception as error:
            ended.append(str(error))
            raise

    with caplog.at_level(logging.WARNING), pytest.raises(KeyboardInterrupt):
        run_job(spark, action, "0a1b")
    (reason,) = ended
    assert "cancel" in reason.lower()
    assert "interrupted: cancelling the Spark jobs of the write 0a1b" in caplog.text
    assert spark.range(3).count() == 3
