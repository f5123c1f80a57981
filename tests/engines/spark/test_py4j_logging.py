"""While secrets are sent to the JVM, py4j logs no messages at DEBUG; then the levels are those of before."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from lakeconf.engines.spark.hadoop import unlogged

if TYPE_CHECKING:
    from collections.abc import Iterator

# The modules of py4j that log what they send.
LOGGERS = [logging.getLogger("py4j.clientserver"), logging.getLogger("py4j.java_gateway")]


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    before = [(logger, logger.level) for logger in (*LOGGERS, logging.getLogger("py4j"))]
    yield
    for logger, level in before:
        logger.setLevel(level)


@pytest.mark.parametrize(("given", "within"), [(logging.DEBUG, logging.INFO), (logging.ERROR, logging.ERROR)])
def test_messages_below_info_are_suppressed(given: int, within: int) -> None:
    for logger in LOGGERS:
        logger.setLevel(given)
    with unlogged():
        assert [logger.level for logger in LOGGERS] == [within] * 2
    assert [logger.level for logger in LOGGERS] == [given] * 2


def test_level_of_a_parent_is_not_lowered() -> None:
    logging.getLogger("py4j").setLevel(logging.WARNING)
    for logger in LOGGERS:
        logger.setLevel(logging.NOTSET)
    with unlogged():
        assert [logger.level for logger in LOGGERS] == [logging.WARNING] * 2
    assert [logger.level for logger in LOGGERS] == [logging.NOTSET] * 2


def test_levels_are_restored_after_an_error() -> None:
    for level, logger in zip((logging.DEBUG, logging.ERROR), LOGGERS, strict=True):
        logger.setLevel(level)
    with pytest.raises(ValueError, match="inside"), unlogged():
        raise ValueError("inside")
    assert [logger.level for logger in LOGGERS] == [logging.DEBUG, logging.ERROR]
