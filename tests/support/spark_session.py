"""The settings of the one Spark session that all tests share."""

from __future__ import annotations


def spark_settings() -> dict[str, str]:
    """What the session is made with, beside its master and its event log.

    The time zone is deliberately not UTC, so that a value that passes through the session's zone does not come out
    right by luck.
    """
    return {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "America/New_York",
    }
