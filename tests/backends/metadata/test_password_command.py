"""Passwords that a command prints: when it runs, what it may print, and that nothing shows them."""

from __future__ import annotations

import errno
import json
import logging
import os
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from local_stores import config_of, ids, on_postgres
from password_thief import password_thief

import lakeconf
from lakeconf.backends.metadata import password_command
from lakeconf.backends.metadata.password_command import PasswordFile
from lakeconf.backends.server import ServerAddress
from lakeconf.cli.app import run
from lakeconf.config.config import read, validate
from lakeconf.errors import ConnectionFailed, LakeconfError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from servers import PostgresServer

ROWS = pa.table({"id": pa.array([1], pa.int64())})
DEADLINE_SECONDS = 30.0
EMPTY: list[object] = ["a 'b", " ", [], "", ["a", ""], [""], "''", ["a", "b\n"], 5, ["a", 5], [["a"]]]


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
def role(postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Role]:
    """Its password is renewed until the process ends: a failure would be in the logs of other tests."""
    role = Role(postgres_server, tmp_path_factory.mktemp("role"))
    yield role
    role.printed.write_text("unused")


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
    assert "`password_command` prints" in str(raised.value.hint)


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
from lakeconf.backends.server import ServerAddress
server = ServerAddress("h", 5432, "d", "u")
file = PasswordFile(("sh", "-c", "echo $PPID; ls -l /proc/self/fd >&2"), 600, server)
assert Path(file.for_connection()).read_text() == f"h:5432:d:u:{os.getpid()}\\n"
child = os.fork()
if child == 0:
    assert Path(file.for_connection()).read_text() == f"h:5432:d:u:{os.getpid()}\\n"
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
        ({"password_command": "a --password=planted"}, "password_command contains a user or a password"),
        ({"password_ttl": 5}, "password_ttl without password_command"),
        ({"password_command": "a", "password_ttl": 0}, "must be greater than or equal to 1"),
        ({"password_command": "a", "password_ttl": 86_401}, "must be less than or equal to 86400"),
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
        files = [path for path in paths if _is_ours(path)]
        assert [oct(os.stat(path).st_mode & 0o777) for path in files] == ["0o600"] * len(files) != []


def test_password_of_the_environment_is_never_sent(
    role: Role, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """PostgreSQL's client prefers PGPASSWORD to a file with passwords, also for connections that are opened later."""
    monkeypatch.setenv("PGPASSWORD", "planted")
    with role.store().open() as lake:
        lake.create_table("t", ROWS).append(ROWS)
        role.change(role.printed.read_text().strip())
        _until_renewed(partial(lake.table("t").append, ROWS))
        assert ids(lake) == [1, 1]
    (tmp_path / "thief").mkdir()
    with password_thief(tmp_path / "thief") as thief:
        for command in (["echo", "printed"], ["echo", "other"]):
            with pytest.raises(ConnectionFailed):
                role.store(host="127.0.0.1", port=thief.port, password_command=command).open()
        assert {line for line in thief.seen if line != "connection"} == {"password printed", "password other"}
    assert "planted" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("host", "lines"),
    [
        ("h", "h:5:d\\:\\\\:u:p\n"),
        ("::1", "\\:\\:1:5:d\\:\\\\:u:p\n"),
        ("a,b", "a:5:d\\:\\\\:u:p\nb:5:d\\:\\\\:u:p\n"),
        ("/run/s", "*:5:d\\:\\\\:u:p\n"),
    ],
)
def test_file_offers_the_password_to_its_server_only(host: str, lines: str) -> None:
    file = PasswordFile(("echo", "p"), 600, ServerAddress(host, 5, "d:\\", "u"))
    assert Path(file.for_connection()).read_text() == lines


def test_password_is_sent_to_no_other_server(role: Role, tmp_path: Path) -> None:
    with role.store().open(), role.store().connect() as native, password_thief(tmp_path) as thief:
        files = [path for path in (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")) if _is_ours(path)]
        assert files
        for path in files:
            address = f"host=127.0.0.1 port={thief.port} dbname={role.database} user={role.name} passfile={path}"
            with pytest.raises(duckdb.Error, match="Unable to connect"):
                native.execute(f"ATTACH '{address}' AS other (TYPE postgres)")
        assert [line for line in thief.seen if line != "connection"] == []


def test_hosts_of_a_list_get_the_password(role: Role) -> None:
    host = role.metadata["host"]
    with role.store(host=f"{host},{host}").open() as lake:
        lake.create_table("t", ROWS).append(ROWS)
        assert ids(lake) == [1]


@pytest.mark.parametrize(
    "command", ["./pw.sh --token=${TOKEN}", ["./pw.sh", "--token=${TOKEN}"], ["${NAMED:-x}"], ["${UNSET}"]]
)
def test_command_has_no_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str | list[str]) -> None:
    """A value of a variable would be shown by everything that shows a store, and by the list of processes."""
    monkeypatch.setenv("TOKEN", "planted-token")
    file = tmp_path / "lakeconf.toml"
    lines = ["[stores.dev.metadata_backend]", 'type = "postgres"', 'host = "h"', 'database = "d"', 'user = "u"']
    lines += [f"password_command = {json.dumps(command)}", "[stores.dev.storage_backend]"]
    file.write_text("\n".join([*lines, 'type = "local"', 'path = "data"']))
    for is_trusted in (True, False):
        (problem,) = validate(read(file, trusted=is_trusted))
        assert (problem.code, problem.line) == ("LC013", 6), problem
        assert str(problem.key).endswith("password_command")
        assert "must not contain variables" in problem.message
        assert "read the environment itself" in str(problem.hint)
        assert "planted" not in str(problem)


def test_secret_of_another_key_is_masked_in_a_command(tmp_path: Path) -> None:
    login = {"type": "postgres", "host": "h", "database": "d", "user": "u", "password_command": ["a", "planted-secret"]}
    storage = {"type": "s3", "bucket": "b", "region": "r", "key_id": "k", "secret": "planted-secret"}
    store = lakeconf.init({"stores": {"dev": {"metadata_backend": login, "storage_backend": storage}}}).get_store()
    assert "planted" not in repr(store)


@pytest.mark.parametrize("command", EMPTY)
def test_command_that_is_none_is_one_problem(tmp_path: Path, command: object) -> None:
    login = {"type": "postgres", "host": "h", "database": "d", "user": "u", "password_command": command}
    (problem,) = validate(config_of(tmp_path, login))
    assert str(problem.key).endswith("metadata_backend.password_command"), problem
    assert "must be a program with its arguments" in problem.message
    assert 'password_command = ["program", "argument"]' in str(problem.hint)


def test_renewal_outlives_an_error_of_the_system(
    role: Role, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def without_files(_name: str) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with role.store(password_ttl=1).open() as lake:
        lake.create_table("t", ROWS).append(ROWS)
        with monkeypatch.context() as context:
            context.setattr(os, "memfd_create", without_files)
            _until(lambda: "cannot be kept in memory: Too many open files" in caplog.text)
            with pytest.raises(ConnectionFailed, match="cannot be kept in memory"):
                role.store(password_ttl=2).open()
        context_runs = role.times_run()
        _until(lambda: role.times_run() > context_runs)


def _until(condition: Callable[[], bool]) -> None:
    deadline, never = time.monotonic() + DEADLINE_SECONDS, threading.Event()
    while not condition():
        assert time.monotonic() < deadline
        never.wait(0.05)


def _is_ours(path: str) -> bool:
    return os.path.exists(path) and "memfd:lakeconf" in os.readlink(path)
