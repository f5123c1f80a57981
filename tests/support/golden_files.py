"""Golden files: expected output, checked in review. `pytest --update-golden` rewrites them. A pytest plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the expected files of tests/ anew")


@pytest.fixture
def check_golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compares a text with the file that contains the expected text."""

    def check(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.write_text(text)
        assert path.exists(), f"{path.name} is missing: run pytest --update-golden, and read what it writes"
        assert text == path.read_text()

    return check
