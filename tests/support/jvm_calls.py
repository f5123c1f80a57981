"""Counts the calls from Python into Spark's JVM."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@contextlib.contextmanager
def counted_calls(spark: SparkSession) -> Iterator[list[str]]:
    """The calls of methods and constructors during the block; complete after it."""
    assert spark.sparkContext._gateway is not None
    client: Any = spark.sparkContext._gateway._gateway_client
    send = client.send_command
    calls: list[str] = []

    def counting(command: str, *arguments: Any, **named: Any) -> Any:
        # Other commands find classes, or release objects when Python collects garbage.
        calls.extend([command] * command.startswith(("c\n", "i\n")))
        return send(command, *arguments, **named)

    client.send_command = counting
    try:
        yield calls
    finally:
        del client.send_command
