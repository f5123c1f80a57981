"""Opens pages in a Chromium without a window."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_QUIET = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-sync",
    "--disable-component-update",
)


def opened(address: str, profile: Path, *options: str) -> str:
    """Opens a page, runs its scripts and returns its HTML afterwards; `profile` is a folder for the browser's files."""
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        pytest.skip("there is no Chromium on this machine; CI installs one")
    command = [browser, "--headless", "--no-sandbox", *_QUIET, f"--user-data-dir={profile}", *options]
    done = subprocess.run(
        [*command, "--virtual-time-budget=9000", "--dump-dom", address],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout
