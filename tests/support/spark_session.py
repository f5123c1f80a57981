"""The settings of the one Spark session that all tests share."""

from __future__ import annotations


def spark_settings() -> dict[str, str]:
    """The settings of the session, in addition to its master and its event log.

    The time zone is deliberately not UTC: a value that is converted through the session's zone must not be correct by
    chance.
    """
    return {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "America/New_York",
    }
