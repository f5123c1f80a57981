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
        # Each sort and aggregation clears a page, by default 16 MB: these filled the heap, and collecting them took a
        # tenth of the CPU time.
        "spark.buffer.pageSize": "256k",
        "spark.sql.session.timeZone": "America/New_York",
    }
