"""Lock files next to a catalog."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from lake_parts import session_of
from local_stores import store_of
from lock_files import held

from lakeconf.commit import audits
from lakeconf.errors import CommitError, StorageError
from lakeconf.guard import locks
from lakeconf.guard import locks as file_locks
from lakeconf.guard.locks import FileLocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from lakeconf.guard.locks import Held

ROWS = pa.table({"n": pa.array([1], pa.int64())})
KINDS: dict[str, tuple[Callable[[FileLocks], AbstractContextManager[Held]], str, str]] = {
    "tables": (lambda locks: locks(["raw.t"]), "lock", "alone"),
    "shared": (lambda locks: locks.shared(), "writers", "shared"),
    "exclusive": (lambda locks: locks.exclusive(), "writers", "alone"),
}
REPAIR = "give it the owner and permissions of the catalog, or delete it while no writer is active"


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    path = tmp_path / "catalog.sqlite"
    path.touch()
    return path


@pytest.fixture(autouse=True)
def no_open_lock_files(tmp_path: Path) -> Iterator[None]:
    """No test leaves a lock file open; a forked process would close other files with the numbers of forgotten ones."""
    yield
    assert file_locks._open_descriptors == set()
    # Not of other folders: threads of other tests open and close sockets and files in memory at any time.
    assert [path for path in open_paths() if path.startswith(str(tmp_path.resolve()))] == []


def open_paths() -> Iterator[str]:
    """The paths of the open files of this process, also of deleted ones."""
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):  # the descriptor of the list itself is closed already
            if sys.platform == "darwin":
                yield fcntl.fcntl(int(name), fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0").decode()
            else:
                yield os.readlink(f"/dev/fd/{name}")


def lock_file(catalog: Path, suffix: str) -> Path:
    return catalog.with_name(f"{catalog.name}.lakeconf-{suffix}")


@pytest.mark.parametrize("kind", KINDS)
def test_lock_holds_its_file_until_it_is_released(kind: str, catalog: Path) -> None:
    take, suffix, expected = KINDS[kind]
    path = lock_file(catalog, suffix)
    with take(FileLocks(catalog)) as lock:
        assert held(path) == expected
        lock.check()
        lock.renew()
        assert held(path) == expected
        assert [file.name for file in catalog.parent.iterdir() if file != catalog] == [path.name]
    assert held(path) == "not at all"
    with pytest.raises(ZeroDivisionError), take(FileLocks(catalog)):
        raise ZeroDivisionError
    assert held(path) == "not at all"


def test_one_file_serves_all_tables(catalog: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "WAIT_SECONDS", 0.05)
    one = FileLocks(catalog)
    path = lock_file(catalog, "lock")
    holder = rf"the lock {re.escape(str(path))} was not free for 0 s: it is held by process {os.getpid()}"
    with one.shared(), FileLocks(catalog).shared():
        pass
    with one(["raw.t"]), one.exclusive(), pytest.raises(CommitError, match=holder) as caught, one(["raw.u"]):
        raise AssertionError
    assert caught.value.hint == "try again later"
    with one(["raw.u"]):
        pass


def test_symbolic_link_to_the_catalog_uses_the_same_locks(catalog: Path) -> None:
    (catalog.parent / "links").mkdir()
    link = catalog.parent / "links" / "other"
    link.symlink_to(catalog)
    with FileLocks(link).shared():
        assert held(lock_file(catalog, "writers")) == "shared"
    assert list(link.parent.iterdir()) == [link]


@pytest.mark.parametrize("umask", [0o077, 0o000])
def test_new_lock_file_is_for_those_who_may_write_to_the_catalog(umask: int, catalog: Path) -> None:
    """Without permissions to execute it."""
    old = os.umask(umask)
    try:
        for mode, expected in ((0o664, 0o660), (0o600, 0o600), (0o4751, 0o600), (0o644, 0o600)):
            catalog.chmod(mode)
            path = lock_file(catalog, "writers")
            with FileLocks(catalog).exclusive():
                assert path.stat().st_mode & 0o7777 == expected
            catalog.chmod(0o640)
            with FileLocks(catalog).exclusive():
                assert path.stat().st_mode & 0o7777 == expected, "an existing lock file is not changed"
            path.unlink()
        catalog.unlink()
        with FileLocks(catalog).exclusive():
            assert lock_file(catalog, "writers").stat().st_mode & 0o7777 == 0o666 & ~umask
    finally:
        os.umask(old)


@pytest.mark.parametrize(
    ("what", "problem"),
    [
        ("link", "is a symbolic link"),
        ("dangling link", "is a symbolic link"),
        ("folder", "is not a regular file"),
        ("pipe", "is not a regular file"),
        ("no folder", "cannot be opened: No such file or directory"),
    ],
)
def test_lock_file_that_is_not_a_regular_file_is_rejected(what: str, problem: str, catalog: Path) -> None:
    target, lock = catalog.with_name("target"), lock_file(catalog, "writers")
    if what == "no folder":
        catalog = catalog.parent / "none" / "catalog"
        lock = lock_file(catalog, "writers")
    elif what == "folder":
        lock.mkdir()
    elif what == "pipe":
        os.mkfifo(lock)
    else:
        lock.symlink_to(target)
        if what == "link":
            target.touch()
    with pytest.raises(StorageError) as caught, FileLocks(catalog).exclusive():
        raise AssertionError
    assert caught.value.message == f"the lock file {lock} {problem}: nothing was written"
    assert caught.value.hint == REPAIR
    assert target.exists() == (what == "link")


def test_lock_file_that_another_process_creates_first_is_used(catalog: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = lock_file(catalog, "writers")
    path.touch(0o600)
    catalog.chmod(0o664)
    monkeypatch.setattr(os.path, "lexists", lambda _: False)
    with FileLocks(catalog).exclusive():
        assert held(path) == "alone"
        assert path.stat().st_mode & 0o777 == 0o600


def test_lock_file_deleted_before_it_is_locked_is_created_again(catalog: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, lock = lock_file(catalog, "writers"), file_locks._try_lock
    attempts = []

    def deleted(descriptor: int, kind: int) -> bool:
        attempts.append(descriptor)
        if len(attempts) == 1:
            path.unlink()
        return lock(descriptor, kind)

    monkeypatch.setattr(file_locks, "_try_lock", deleted)
    with FileLocks(catalog).exclusive():
        assert held(path) == "alone"
    assert len(attempts) == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("replaced", [False, True])
def test_lock_is_lost_with_its_file(kind: str, replaced: bool, catalog: Path) -> None:
    take, suffix, expected = KINDS[kind]
    path = lock_file(catalog, suffix)
    with take(FileLocks(catalog)) as lock:
        path.unlink()
        if replaced:
            path.touch()
        with pytest.raises(StorageError) as caught:
            lock.check()
        assert caught.value.message == (f"the lock file {path} was deleted while it was held, so nothing was written")
        expected_hint = "try again, and exclude lock files from jobs that delete old files in this folder"
        assert caught.value.hint == expected_hint
        lock.renew()
        lock.check()
        assert held(path) == expected
    assert held(path) == "not at all"


def test_write_fails_if_its_lock_file_was_deleted(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    lock = tmp_path / "catalog.lakeconf-writers"
    with store.open() as lake, store.open() as other:
        table = lake.create_table("raw.t", ROWS)
        before = lake.refresh()
        with lake.transaction() as transaction:
            transaction.table("raw.t").append(ROWS)
            lock.unlink()
            with session_of(other).guard.removing():
                pass
        assert held(lock) == "not at all"
        assert lake.snapshot_id == before + 1

        def write() -> None:
            with lake.transaction() as transaction:
                transaction.table("raw.t").append(ROWS)
                transaction.audit("deletes the lock file", "FROM raw.t WHERE false")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(audits, "run", lambda *_: lock.unlink())
            with pytest.raises(StorageError, match="was deleted while it was held"):
                write()
        assert lake.refresh() == before + 1
        table.append(ROWS)


def test_file_system_without_locks_is_an_error(catalog: Path) -> None:
    descriptor = os.open(catalog, os.O_PATH)  # such a descriptor cannot be locked
    try:
        with pytest.raises(CommitError, match=r"the catalog's file system does not support locks: .") as caught:
            file_locks._try_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)
    assert caught.value.hint == "move the catalog to a local disk, or use PostgreSQL"


FORK = """
import os, sys, signal
from pathlib import Path
from lakeconf.guard.locks import FileLocks
with FileLocks(Path(sys.argv[1])).exclusive():
    child = os.fork()
    if child == 0:
        print(os.getpid(), flush=True)
        signal.pause()
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("ends", ["killed", "released"])
def test_forked_process_does_not_keep_the_lock(ends: str, catalog: Path) -> None:
    # The output goes to a file, because the child would keep a pipe open.
    with (
        catalog.with_name("out").open("w+") as out,
        subprocess.Popen([sys.executable, "-c", FORK, str(catalog), ends], stdout=out) as process,
    ):
        process.wait()
    try:
        with FileLocks(catalog).exclusive():
            assert held(lock_file(catalog, "writers")) == "alone"
    finally:
        for line in catalog.with_name("out").read_text().split():
            os.kill(int(line), signal.SIGKILL)


CHILD = """
import os, sys
from pathlib import Path
from lakeconf.guard.locks import FileLocks
from lakeconf.guard.locks import pauses
sys.path.append(sys.argv[2])
from lock_files import held
with FileLocks(Path(sys.argv[1])).shared() as lock:
    child = os.fork()
    if child == 0:
        with open(sys.argv[1]) as file:  # has the number of the lock file, which this process has closed
            for do in (lock.check, lock.renew):
                try:
                    do()
                except Exception as error:
                    print(type(error).__name__, error)
            lock.release()
            file.read()
        os._exit(0)
    os.waitpid(child, 0)
    print(held(Path(sys.argv[1] + ".lakeconf-writers")))
"""


def test_forked_process_neither_has_nor_releases_the_lock_of_its_parent(catalog: Path) -> None:
    support = os.path.dirname(sys.modules["lock_files"].__file__ or "")
    command = [sys.executable, "-u", "-c", CHILD, str(catalog), support]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    *errors, state = [line for line in done.stdout.splitlines() if not line.startswith("  hint")]
    lock = f"StorageError the lock {lock_file(catalog, 'writers')} belongs to the process that forked this one"
    assert errors == 2 * [f"{lock}, so nothing was written"]
    assert state == "shared"
