"""Prints the lowest allowed version of each dependency of the package and its extras, as overrides for uv"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

# The integrations and the tools of development have ranges of their own.
EXTRAS = ("spark", "connect", "arrow", "polars", "dotenv", "openlineage", "report", "delta", "iceberg")
_PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def lowest_versions() -> dict[str, str]:
    """The lower bound of each dependency by its name and extras; extensions of DuckDB have the version of DuckDB."""
    optional = _PROJECT["optional-dependencies"]
    requirements = [
        Requirement(line) for lines in (_PROJECT["dependencies"], *map(optional.get, EXTRAS)) for line in lines
    ]
    # An override replaces a requirement with its extras: without them, `pyspark[connect]` installs no grpcio.
    extras: dict[str, set[str]] = {}
    for requirement in requirements:
        extras.setdefault(requirement.name, set()).update(requirement.extras)
    lowest = {
        requirement.name: specifier.version
        for requirement in requirements
        for specifier in requirement.specifier
        if specifier.operator in (">=", "==", "~=")
    }
    extensions = [
        Requirement(line).name for line in (*optional["bundled"], *optional["dev"]) if line.startswith("duckdb-")
    ]
    with_extras = {f"{name}[{','.join(sorted(extras[name]))}]": lowest[name] for name in lowest if extras[name]}
    others = {name: version for name, version in lowest.items() if not extras[name]}
    return with_extras | others | dict.fromkeys(extensions, lowest["duckdb"])


if __name__ == "__main__":
    sys.stdout.write("\n".join(f"{name}=={version}" for name, version in lowest_versions().items()) + "\n")
