"""The JVM of Spark as tests see it: its classes, the plans of frames, and the number of calls into it."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession


def jvm_of(spark: SparkSession) -> Any:
    """The Java classes, by their full names."""
    return spark._jvm


def execution_of(frame: DataFrame) -> Any:
    """The plans of a frame: analyzed, optimized and physical."""
    return frame._jdf.queryExecution()


def planned_files(frame: DataFrame) -> list[int]:
    """The number of files that each part of the plan reads."""
    plan = execution_of(frame).executedPlan().toString()
    return sorted(map(int, re.findall(r"PlannedFiles\((\d+) paths", plan)))


@dataclass
class Calls:
    """The number of calls of methods and constructors."""

    count: int = 0


@contextlib.contextmanager
def counted_calls(spark: SparkSession) -> Iterator[Calls]:
    """The calls during the block; complete after it."""
    assert spark.sparkContext._gateway is not None
    client: Any = spark.sparkContext._gateway._gateway_client
    send, calls = client.send_command, Calls()

    def counting(command: str, *arguments: Any, **named: Any) -> Any:
        # Other commands find classes, or release objects when Python collects garbage.
        calls.count += command.startswith(("c\n", "i\n"))
        return send(command, *arguments, **named)

    client.send_command = counting
    try:
        yield calls
    finally:
        del client.send_command
