"""Passwords that a command prints: when it runs, what it may print, and that nothing shows them."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from local_stores import config_of, ids, on_postgres

import lakeconf
from lakeconf.backends.metadata import password_command
from lakeconf.cli.app import run
from lakeconf.config.config import validate
from lakeconf.errors import ConnectionFailed, LakeconfError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from servers import PostgresServer

ROWS = pa.table({"id": pa.array([1], pa.int64())})
DEADLINE_SECONDS = 30.0
EMPTY: list[str | list[str]] = ["a 'b", " ", []]


class Role:
    """A role whose password is in a file, which the command of a store prints; it counts its runs."""

    def __init__(self, server: PostgresServer, folder: Path) -> None:
        self._server, self._folder = server, folder
        self.database = server.create_database()
        self.name, password = server.create_role(self.database)
        self._server.sql(f"GRANT CREATE ON DATABASE {self.database} TO {self.name}")
        self.runs, self.printed = folder / "runs", folder / "password"
        self.printed.write_text(f"{password}\n")

    @property
    def metadata(self) -> dict[str, Any]:
        script = f'echo >> "{self.runs}"; cat "{self.printed}"'
        login = {
            **on_postgres(self._server, self.database),
            "user": self.name,
            "password_command": ["sh", "-c", script],
        }
        return {key: value for key, value in login.items() if key != "password"}

    def store(self, **changes: Any) -> lakeconf.Store:
        return lakeconf.init(config_of(self._folder, self.metadata | changes)).get_store("dev")

    def times_run(self) -> int:
        return len(self.runs.read_text()) if self.runs.exists() else 0

    def change(self, password: str) -> None:
        """Gives the role another password, and ends its connections."""
        self.printed.write_text(password)
        self._server.sql(f"ALTER ROLE {self.name} PASSWORD '{password.replace(chr(39), chr(39) * 2)}'")
        self._server.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{self.name}'")


@pytest.fixture
def role(postgres_server: PostgresServer, tmp_path: Path) -> Role:
    return Role(postgres_server, tmp_path)


def test_command_runs_for_a_connection_and_not_for_a_preview(
    role: Role, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = role.store()
    file = tmp_path / "lakeconf.toml"
    values = {key: json.dumps(value) for key, value in role.metadata.items()}
    lines = ["[stores.dev.metadata_backend]", *(f"{key} = {value}" for key, value in values.items())]
    file.write_text("\n".join([*lines, '[stores.dev.storage_backend]\ntype = "local"\npath = "data"']))
    assert "PASSFILE '***'" in "".join(store.preview_sql())
    assert "PASSFILE 'printed by password_command'" in "".join(store.preview_sql(show_secrets=True))
    with pytest.raises(LakeconfError, match="passfile is no variable, so a portable script would contain its value"):
        store.preview_sql(portable=True)
    place = ["--config", str(file)]
    assert run(["validate", "--untrusted", *place]) == run(["validate", *place]) == run(["preview-sql", *place]) == 0
    assert role.times_run() == 0
    with store.open() as lake:
        lake.create_table("t", ROWS).append(ROWS)
        store.open().close()
    assert role.times_run() == 1
    assert role.printed.read_text().strip() not in capsys.readouterr().out


def test_job_outlives_its_password(role: Role, caplog: pytest.LogCaptureFixture) -> None:
    """Connections that are lost are opened again with a password that was printed later, of any characters."""
    caplog.set_level(logging.DEBUG)
    with role.store(password_ttl=1).open() as lake:
        lake.create_table("t", ROWS).append(ROWS)
        for number, password in enumerate(("planted-2", "planted:3 \\'\"*#ü"), start=2):
            role.change(password)
            append = partial(lake.table("t").append, pa.table({"id": pa.array([number], pa.int64())}))
            _until_renewed(append)
        assert ids(lake) == [1, 2, 3]
    assert "planted" not in caplog.text


def _until_renewed(call: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        try:
            call()
        except LakeconfError as error:
            if "planted" in f"{error} {error!r} {error.__cause__!r}" or time.monotonic() > deadline:
                raise
        else:
            return


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo planted; echo planted >&2; exit 3", "the password_command failed with the exit code 3"),
        ("kill -9 $$$$", "the password_command failed with the exit code -9"),
        *(
            (script, "did not print one line")
            for script in ("true", "echo", "printf 'planted\\nplanted'", "printf '\\377'")
        ),
        ("echo planted; sleep 300", "the password_command did not end within 0.3 seconds"),
        ("sleep 300 & echo planted", "the password_command did not end within 0.3 seconds"),
    ],
)
def test_command_that_fails_is_named_without_its_output(
    role: Role, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    if "sleep" in script:
        monkeypatch.setattr(password_command, "TIMEOUT_SECONDS", 0.3)
    with pytest.raises(ConnectionFailed, match=message) as raised:
        role.store(password_command=["sh", "-c", script]).open()
    assert (
        "planted" not in f"{raised.value} {raised.value.hint} {raised.value.__cause__!r} {raised.value.__context__!r}"
    )


def test_command_that_cannot_be_started_is_named(role: Role) -> None:
    for command, reason in (("no-such-program x", "No such file or directory"), (["/"], "Permission denied")):
        with pytest.raises(ConnectionFailed, match=f"the password_command cannot be started: {reason}"):
            role.store(password_command=command).open()


def test_wrong_password_is_an_error_without_it(role: Role) -> None:
    role.printed.write_text("planted")
    with pytest.raises(ConnectionFailed, match="password authentication failed") as raised:
        role.store().open()
    assert "planted" not in f"{raised.value} {raised.value.__cause__!r}"


def test_failed_renewal_keeps_the_password_and_is_logged(role: Role, caplog: pytest.LogCaptureFixture) -> None:
    with role.store(password_ttl=1).open() as lake:
        lake.create_table("t", ROWS).append(ROWS)
        role.printed.unlink()
        deadline = time.monotonic() + DEADLINE_SECONDS
        while "was not renewed: the password_command failed with the exit code 1" not in caplog.text:
            assert time.monotonic() < deadline
            lake.refresh()
        lake.table("t").append(ROWS)
        assert ids(lake) == [1, 1]


FORKED = """
import os, sys
from pathlib import Path
from lakeconf.backends.metadata.password_command import PasswordFile
file = PasswordFile(("sh", "-c", "echo $PPID; ls -l /proc/self/fd >&2"), 600)
assert Path(file.for_connection()).read_text() == f"*:*:*:*:{os.getpid()}\\n"
child = os.fork()
if child == 0:
    assert Path(file.for_connection()).read_text() == f"*:*:*:*:{os.getpid()}\\n"
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert "memfd" not in os.popen("ls -l /proc/self/fd").read()
"""


def test_forked_process_has_a_file_of_its_own_and_no_program_inherits_one() -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    done = subprocess.run(command, text=True, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"password_command": "a", "password": "planted"}, "password_command conflicts with password and passfile"),
        (
            {"password_command": "a", "secret_parameters": {"PASSFILE": "planted"}},
            "password_command conflicts with password and passfile",
        ),
        *(({"password_command": command}, "must be a program with its arguments") for command in EMPTY),
        ({"password_command": "a --password=planted"}, "password_command contains a user or a password"),
        ({"password_ttl": 5}, "password_ttl without password_command"),
        ({"password_command": "a", "password_ttl": 0}, "must be greater than or equal to 1"),
    ],
)
def test_fields_that_do_not_fit_are_refused(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    login = {"type": "postgres", "host": "h", "database": "d", "user": "u", **fields}
    problems = validate(config_of(tmp_path, login))
    assert any(message in problem.message for problem in problems), problems
    assert "planted" not in str(problems)


def test_only_the_process_can_read_the_file(role: Role) -> None:
    with role.store().open():
        paths = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
        files = [path for path in paths if os.path.exists(path) and "memfd:lakeconf" in os.readlink(path)]
        assert [oct(os.stat(path).st_mode & 0o777) for path in files] == ["0o600"] * len(files) != []
