"""What the file system answers is not taken for something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.errors import MissingDependencyError, exists

if TYPE_CHECKING:
    from pathlib import Path


def test_a_path_that_cannot_be_examined_is_not_taken_for_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    answers = {name: exists(tmp_path / name) for name in ("file", "link", "loop", "missing", "file/below")}
    assert answers == {"file": True, "link": True, "loop": True, "missing": False, "file/below": False}
    for name in ("x" * 300, "loop/below"):
        with pytest.raises(OSError, match=r"too long|Too many"):
            exists(tmp_path / name)


def test_a_missing_module_is_not_called_a_package() -> None:
    """The package of `dotenv` is python-dotenv; PyPI has another one that is called dotenv."""
    error = MissingDependencyError("dotenv", extra="dotenv", needed_for="--env-file")
    assert str(error).splitlines() == [
        "--env-file needs the module 'dotenv', which is not installed",
        "  hint: run: pip install 'lakeconf[dotenv]'",
    ]
