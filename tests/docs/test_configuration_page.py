"""docs/configuration.md has valid examples, and docs/configuration-keys.md is generated from the models."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from source_tree import REPOSITORY

from lakeconf.backends.registry import METADATA_BACKENDS, STORAGE_BACKENDS
from lakeconf.config.codes import Code
from lakeconf.config.config import init, validate
from lakeconf.config.schema import json_schema

PAGE = REPOSITORY / "docs" / "configuration.md"
KEYS = REPOSITORY / "docs" / "configuration-keys.md"
MARK = "run `pytest --update-golden` to update it. -->\n"


def kind(schema: dict[str, Any]) -> str:
    """The type of a key in a few words."""
    choices = [choice for choice in schema.get("anyOf", [schema]) if choice.get("pattern") != r"\$\{"]
    if "const" in schema:
        return f'`"{schema["const"]}"`'
    names = {"string": "string", "boolean": "boolean", "object": "table", "array": "array"}
    found = []
    for choice in choices:
        if "enum" in choice:
            found.append(" or ".join(f'`"{value}"`' for value in choice["enum"]))
        else:
            found.append("secret" if choice.get("format") == "password" else names.get(choice["type"], choice["type"]))
    return ", ".join(dict.fromkeys(found))


def rows(definition: dict[str, Any]) -> Iterator[str]:
    for key, schema in definition["properties"].items():
        needed = ", required" if key in definition.get("required", ()) else ""
        description = next((c["description"] for c in [schema, *schema.get("anyOf", ())] if "description" in c), "")
        yield f"| `{key}` | {kind(schema)}{needed} | {'' if key == 'type' else description} |"


def reference() -> str:
    """The part of the page that is generated from the models."""
    definitions = json_schema()["$defs"]
    sections = [("metadata_backend", name) for name in METADATA_BACKENDS]
    sections += [("storage_backend", name) for name in STORAGE_BACKENDS]
    lines = ["\n## Reference\n"]
    for section, name in sections:
        definition = definitions[f"{section}.{name}"]
        lines += [f"### `{name}` ({section})\n", definition["description"].split("\n\n")[0].replace("\n", " "), ""]
        found, common = [*rows(definition)], [*rows(definitions["storage_backend.s3"])][1:]
        if name != "s3" and set(common) < set(found):
            found = [row for row in found if row not in common]
            lines += ["It has the keys of `s3`, and these:", ""]
        lines += ["| key | type | description |", "|---|---|---|", *found, ""]
    for name in ("attach_options", "maintenance"):
        lines += [f"### `{name}`\n", definitions[name]["description"], ""]
        lines += ["| key | type | description |", "|---|---|---|", *rows(definitions[name]), ""]
    lines += ["## Error codes\n", "| code | problem |", "|---|---|"]
    lines += [f"| {code.code} | {code.title} |" for code in Code]
    return "\n".join(lines) + "\n"


def test_reference_matches_the_models(check_golden: Callable[[Path, str], None]) -> None:
    written = KEYS.read_text().partition(MARK)[0]
    check_golden(KEYS, written + MARK + reference())


def test_example_of_the_page_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "lakeconf.toml").write_text(block)
    assert {problem.code for problem in validate(tmp_path)} == {"LC030"}
    monkeypatch.setenv("PGHOST", "db.example.com")
    monkeypatch.setenv("LAKE_PG_PASSWORD", "hunter2")
    assert validate(tmp_path) == []
    assert init(tmp_path).get_store("staging").alias == "lake"


def test_python_of_the_page_runs(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(code.replace('"prod"', '"dev"'), {})  # noqa: S102 - that is what is tested
    assert capsys.readouterr().out.splitlines()[-1] == 'USE "dev";'


def test_codes_are_unique_and_in_order() -> None:
    codes = [code.code for code in Code]
    assert codes == sorted(set(codes))
