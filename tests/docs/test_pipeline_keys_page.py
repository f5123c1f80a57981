"""docs/pipeline-keys.md: the reference of `[pipeline]`, generated from the JSON Schema."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

from source_tree import REPOSITORY

from lakeconf.config.schema import json_schema
from lakeconf.config.toml_text import toml_value
from lakeconf.pipelines.models.column_tests import DeclaredTests
from lakeconf.pipelines.models.declaration import TABLES, Declaration, QueryDeclaration
from lakeconf.pipelines.models.kinds import KINDS
from lakeconf.pipelines.models.unit_tests import pipeline_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

PAGE = REPOSITORY / "docs" / "pipeline-keys.md"
HEAD = """# Pipeline keys

The keys of `[pipeline]` in `lakeconf.toml`; [Pipelines](pipelines.md) describes what they do. The name of a model is
its table, in quotes because it contains a dot: `[pipeline.models."raw.events"]`.

<!-- tests/docs/test_pipeline_keys_page.py generates this page; run `pytest --update-golden` to update it. -->
"""
TABLE = ["| key | type | description | example |", "|---|---|---|---|"]
NAMES = {"object": "table"}


def kind(schema: dict[str, Any]) -> str:
    """The type of a key in a few words."""
    found: list[str] = []
    for choice in schema.get("anyOf", [schema]):
        if "enum" in choice:
            found += [f'`"{value}"`' for value in choice["enum"]]
        elif "$ref" in choice:
            found.append("table")
        else:
            types = choice["type"] if isinstance(choice["type"], list) else [choice["type"]]
            found += [NAMES.get(one, str(one)) for one in types]
    return "date or time" if "pattern" in schema else " or ".join(dict.fromkeys(found))


def rows(definition: dict[str, Any], keys: Iterable[str]) -> Iterator[str]:
    for key in keys:
        schema = definition["properties"][key]
        needed = ", required" if key in definition.get("required", ()) else ""
        (example,) = schema["examples"]
        example = date.fromisoformat(example) if kind(schema) == "date or time" else example
        shown = f"`{key} = {toml_value(example)}`"
        yield f"| `{key}` | {kind(schema)}{needed} | {schema['description']} | {shown} |"


def reference() -> str:
    definitions = json_schema(pipeline_schema())["$defs"]
    pipeline = json_schema(pipeline_schema())["properties"]["pipeline"]
    shared = {
        key: definitions["model.full"]["properties"][key] for key in QueryDeclaration.model_fields if key != "kind"
    }
    names = " or ".join(f'`"{name}"`' for name in KINDS)
    lines = ["## `[pipeline]`\n", *TABLE, *rows(pipeline, ["python"]), "", "## Every model\n", *TABLE]
    field = Declaration.model_fields["kind"]
    lines += [f'| `kind` | {names} | {field.description} | `kind = "{(field.examples or [])[0]}"` |']
    lines += [*rows({"properties": shared}, shared), ""]
    lines += ["`sql` is required, except for `seed`, which lacks it, and for `append` with `files`.\n"]
    for name in KINDS:
        own = [key for key in TABLES[name].model_fields if key not in QueryDeclaration.model_fields]
        if own:
            lines += [f'## `kind = "{name}"`\n', *TABLE, *rows(definitions[f"model.{name}"], own), ""]
    tests = definitions["model.full"]["properties"]["tests"]["$ref"].rpartition("/")[2]
    lines += ["## `tests` of columns\n", "| key | description | example |", "|---|---|---|"]
    for key, one in definitions[tests]["properties"].items():
        lines += [f"| `{key}` | {one['description']} | `{key} = {toml_value(one['examples'][0])}` |"]
    unit_test = definitions["unit_test"]
    lines += ["", "## `[pipeline.tests.NAME]`\n", *TABLE, *rows(unit_test, unit_test["properties"])]
    return "\n".join(lines) + "\n"


def test_page_is_generated_from_the_schema(check_golden: Callable[[Path, str], None]) -> None:
    check_golden(PAGE, f"{HEAD}\n{reference()}")


def test_page_has_every_key() -> None:
    text = reference()
    every = {*DeclaredTests.model_fields, *(key for table in TABLES.values() for key in table.model_fields)}
    assert [key for key in every if f"| `{key}` |" not in text] == []
