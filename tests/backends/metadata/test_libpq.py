"""Credentials that libpq takes from the environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from lakeconf.backends.metadata.postgres import default_password, hidden_credentials

if TYPE_CHECKING:
    from pathlib import Path

VARIABLES = ("PGPASSWORD", "PGSERVICE", "PGSYSCONFDIR", "PGSSLPASSWORD", "PGPASSFILE", "PGSERVICEFILE")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory without a password file, and no variables."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def password_file(path: Path, *lines: str, mode: int = 0o600) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))
    path.chmod(mode)


def found(host: str = "h", port: int = 5432, database: str = "d", user: str = "u") -> str | None:
    return default_password(host, port, database, user)


@pytest.mark.parametrize("name", VARIABLES)
def test_variable_is_hidden_and_restored(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "planted")
    with hidden_credentials():
        assert "planted" not in os.environ.get(name, "")
    assert os.environ[name] == "planted"


def test_variable_that_was_not_set_is_not_set_afterwards() -> None:
    """Without the variables, libpq would read the files of the user; nobody can create the file in their place."""
    before = dict(os.environ)
    with hidden_credentials():
        assert not any(name in os.environ for name in ("PGPASSWORD", "PGSERVICE", "PGSYSCONFDIR", "PGSSLPASSWORD"))
        (file,) = {os.environ["PGPASSFILE"], os.environ["PGSERVICEFILE"]}
    assert dict(os.environ) == before
    with pytest.raises(NotADirectoryError):
        os.makedirs(file)


def test_credentials_are_restored_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "planted")
    with pytest.raises(KeyError), hidden_credentials():
        os.environ.pop("PGSERVICE")
    assert os.environ["PGPASSWORD"] == "planted"
    assert not {"PGSERVICE", "PGPASSFILE", "PGSERVICEFILE"} & os.environ.keys()


def test_variables_come_before_the_file_at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    password_file(home / ".pgpass", "*:*:*:*:from-file")
    assert found() == "from-file"
    monkeypatch.setenv("PGPASSWORD", "")
    assert found() == "from-file"
    monkeypatch.setenv("PGPASSWORD", "from-variable")
    assert found() == "from-variable"
    monkeypatch.delenv("PGPASSWORD")
    password_file(home / "other", "*:*:*:*:elsewhere")
    monkeypatch.setenv("PGPASSFILE", str(home / "other"))
    assert found() == "elsewhere"
    monkeypatch.setenv("PGPASSFILE", "")
    assert found() == "from-file"


def test_missing_file_has_no_password() -> None:
    assert found() is None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o610, 0o601])
def test_file_that_others_can_use_is_ignored(mode: int, home: Path) -> None:
    password_file(home / ".pgpass", "*:*:*:*:x", mode=mode)
    assert found() is None


def test_file_that_is_no_text_file_is_ignored(home: Path) -> None:
    (home / ".pgpass").mkdir(mode=0o700)
    assert found() is None
    (home / ".pgpass").rmdir()
    (home / ".pgpass").write_bytes(b"*:*:*:*:\xff\n")
    (home / ".pgpass").chmod(0o600)
    assert found() is None


@pytest.mark.parametrize(
    ("line", "password"),
    [
        ("h:5432:d:u:secret", "secret"),
        ("h:*:d:*:secret", "secret"),
        ("H:5432:d:u:x", None),
        ("h:543:d:u:x", None),
        ("h:5432:D:u:x", None),
        ("h:5432:d:v:x", None),
        ("h:5432:d:u", None),
        ("h:5432:d:u:x:y", None),
        ("", None),
        ("# a comment", None),
        (r"h:5432:d:u:a\:b\\c", "a:b\\c"),
        ("h:5432:d:u:", ""),
    ],
)
def test_line_of_the_password_file(line: str, password: str | None, home: Path) -> None:
    password_file(home / ".pgpass", line)
    assert found() == password


def test_first_matching_line_counts_and_colons_and_backslashes_match(home: Path) -> None:
    password_file(home / ".pgpass", "other:*:*:*:no", "h:*:*:*:first", r"\:\:1:5432:a\\b:u:secret", "*:*:*:*:second")
    assert (found(), found(host="x")) == ("first", "second")
    assert found(host="::1", database="a\\b") == "secret"
