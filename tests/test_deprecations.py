"""A deprecated name warns at the line that uses it, for one minor version, and says what replaces it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from source_tree import REPOSITORY, sources

import lakeconf

MESSAGE = re.compile(r"deprecated since (\d+)\.(\d+): use \S")
SECTION = (REPOSITORY / "CONTRIBUTING.md").read_text().partition("### Deprecations\n")[2].partition("\n## ")[0]
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)


def problems(source: str, version: str) -> list[str]:
    """The deprecations that do not name a version and a replacement, or that this version no longer needs."""
    minor = tuple(map(int, version.split(".")[:2]))
    wrong = []
    for call in _deprecations(ast.parse(source)):
        texts = [node.value for node in ast.walk(call) if isinstance(node, ast.Constant) and type(node.value) is str]
        since = MESSAGE.match("".join(texts))
        if since is None:
            wrong.append(f"line {call.lineno}: the message must be `deprecated since 0.1: use …`")
        elif tuple(map(int, since.groups())) < minor:
            wrong.append(f"line {call.lineno}: it has warned for one minor version; remove it")
    return wrong


def _deprecations(tree: ast.Module) -> Iterator[ast.Call]:
    """Each use of `deprecated`, and each other call that warns of a deprecation."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func).rpartition(".")[2]
            warned = {ast.unparse(argument) for argument in [*node.args, *(word.value for word in node.keywords)]}
            if called == "deprecated" or warned & {"DeprecationWarning", "PendingDeprecationWarning", "FutureWarning"}:
                yield node


def test_a_deprecated_name_warns_at_the_line_of_the_caller(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec(compile(EXAMPLE, str(tmp_path / "example.py"), "exec"), names)  # noqa: S102 - the example of the page
    with pytest.warns(DeprecationWarning, match=MESSAGE.pattern) as warned:
        assert names["Orders"]().read() == ["tea"]
    assert [warning.filename for warning in warned] == [__file__]


def test_deprecations_in_the_package_name_a_replacement_and_have_not_expired() -> None:
    wrong = {name: problems(path.read_text(), lakeconf.__version__) for name, path in sources().items()}
    assert {name: lines for name, lines in wrong.items() if lines} == {}


@pytest.mark.parametrize(("version", "fails"), [("0.2.0", False), ("0.2.9", False), ("0.3.0", True), ("1.0.0", True)])
def test_a_deprecation_lives_for_one_minor_version(version: str, fails: bool) -> None:
    assert bool(problems(EXAMPLE, version)) == fails


@pytest.mark.parametrize(
    "source",
    [
        '@deprecated("use scan")\ndef read(): ...',
        '@typing_extensions.deprecated("deprecated since 0.2")\ndef read(): ...',
        'warnings.warn("old", DeprecationWarning, stacklevel=2)',
        'warnings.warn("old", category=FutureWarning)',
    ],
)
def test_a_deprecation_without_a_version_or_a_replacement_is_found(source: str) -> None:
    assert problems(source, "0.1.0") != []
