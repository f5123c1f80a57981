"""Formats problems as annotations for code hosts: GitHub workflow commands and SARIF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from lakeconf import __version__
from lakeconf.config.codes import Code, explanation
from lakeconf.errors import Problem
from lakeconf.logs import escaped

Level = Literal["error", "warning"]
_PAGES = "https://github.com/lakeconf/lakeconf/blob/main/lakeconf/config/explanations"


def github(problems: Sequence[Problem], level: Level) -> list[str]:
    """Formats problems as workflow commands of GitHub Actions.

    Source: https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    """
    return [_command(problem, level) for problem in problems]


def sarif(errors: Sequence[Problem], warnings: Sequence[Problem]) -> Mapping[str, Any]:
    """Formats problems as a SARIF log for code scanning.

    Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
    """
    rules = [
        {
            "id": code.code,
            "name": "".join(word.capitalize() for word in code.name.split("_")),
            "shortDescription": {"text": code.title},
            "help": {"text": explanation(code.code), "markdown": explanation(code.code)},
            "helpUri": f"{_PAGES}/{code.code}.md",
        }
        for code in Code
    ]
    results = [_result(problem, "error") for problem in errors] + [_result(problem, "warning") for problem in warnings]
    driver = {"name": "lakeconf", "version": __version__, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _command(problem: Problem, level: Level) -> str:
    place = {"file": _path(problem), "line": problem.line, "col": problem.column, "title": problem.code}
    properties = ",".join(f"{name}={_property(str(value))}" for name, value in place.items() if value is not None)
    return f"::{level} {properties}::{_data(_text(problem))}"


def _result(problem: Problem, level: Level) -> Mapping[str, Any]:
    result: dict[str, Any] = {"ruleId": problem.code, "level": level, "message": {"text": _text(problem)}}
    path = _path(problem)
    if path is not None:
        region = {"startLine": problem.line or 1, "startColumn": problem.column or 1}
        result["locations"] = [{"physicalLocation": {"artifactLocation": {"uri": _uri(problem)}, "region": region}}]
    return result


def _text(problem: Problem) -> str:
    text = f"{problem.key}: {problem.message}" if problem.key else problem.message
    return f"{text}\nhint: {problem.hint}" if problem.hint else text


def _path(problem: Problem) -> str | None:
    if problem.file is None:
        return None
    root = _root()
    return (problem.file.relative_to(root) if problem.file.is_relative_to(root) else problem.file).as_posix()


def _root() -> Path:
    """Returns the base folder of paths on code hosts: the root of the repository, else the working directory."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)


def _uri(problem: Problem) -> str:
    path = Path(_path(problem) or "")
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


def _data(text: str) -> str:
    # Line ends have their own escapes below; other control characters would reach the log unescaped.
    text = "".join(character if character in "\r\n" else escaped(character) for character in text)
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
