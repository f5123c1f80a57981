"""docs/configuration.md, backends.md and postgres.md have valid examples; configuration-keys.md is generated."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from doc_pages import block, blocks
from source_tree import REPOSITORY

import lakeconf
from lakeconf.backends.registry import METADATA_BACKENDS, STORAGE_BACKENDS
from lakeconf.config.codes import Code
from lakeconf.config.config import init, validate
from lakeconf.config.schema import json_schema
from lakeconf.errors import LakeconfError
from lakeconf.inspection.grants import grants

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from servers import PostgresServer


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


GOLDEN = sorted((REPOSITORY / "tests" / "backends" / "golden").glob("motherduck-*.masked.sql"))


@pytest.mark.parametrize(
    ("page", "number"),
    [(page, number) for page in ("backends.md", "postgres.md") for number in range(len(blocks(page, "toml")))],
)
def test_configurations_of_the_pages_are_valid(
    page: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = blocks(page, "toml")[number]
    for name in re.findall(r"\$\{(\w+)", text):
        monkeypatch.setenv(name, "x")
    (tmp_path / "lakeconf.toml").write_text(text)
    assert validate(tmp_path / "lakeconf.toml") == []


def test_roles_of_the_page_about_postgres(postgres_server: PostgresServer, tmp_path: Path) -> None:
    database = postgres_server.create_database()
    set_up, timeout = blocks("postgres.md", "sql")
    own = re.sub(
        r"^(CREATE DATABASE|\\connect) .*\n", "", f"{set_up}{timeout}".replace("'…'", "'of-the-page'"), flags=re.M
    )
    postgres_server.sql([line for line in own.splitlines() if line], database)
    config = tomllib.loads(blocks("postgres.md", "toml")[0])
    prod, reports = (config["stores"][name] for name in ("prod", "reports"))
    reached = {
        "host": postgres_server.host,
        "port": postgres_server.port,
        "database": database,
        "secret_parameters": {},
    }
    prod["metadata_backend"] |= reached | {"password": "of-the-page"}
    prod["storage_backend"] = {"type": "local", "path": str(tmp_path)}
    reports["metadata_backend"] |= {"password": "of-the-page"}
    stores = lakeconf.init(config)
    with stores.get_store("prod").open() as lake:
        lake.create_table("t", {"id": "BIGINT"}).append(pa.table({"id": [1]}))
    words: list[Any] = block("postgres.md", "bash", "lakeconf grants").split()
    store, role, name = words[3], words[5], words[7]
    postgres_server.sql(f"CREATE ROLE {name} LOGIN PASSWORD 'of-the-page'")
    postgres_server.sql(grants(stores.get_store(store), role, name).catalog, database)
    with stores.get_store("reports").open() as lake:
        assert lake.table("t").head() == [{"id": 1}]
        with pytest.raises(LakeconfError, match="read-only"):
            lake.table("t").append(pa.table({"id": [2]}))


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_duckdb_parses_the_sql_for_motherduck(file: Path) -> None:
    lines = file.read_text().splitlines()
    # DuckDB parses this statement only with the motherduck extension, which does not load without its service.
    own = [line for line in lines if not line.startswith("CREATE DATABASE IF NOT EXISTS ")]
    assert len(lines) - len(own) == 1
    assert len(duckdb.connect().extract_statements("\n".join(own))) == len(own)


def test_motherduck_token_is_in_no_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("motherduck_token", "planted-token")
    config = {"stores": {"md": {"metadata_backend": {"type": "motherduck", "database": "shop_lake"}}}}
    store = lakeconf.init(config).get_store("md")
    assert "planted-token" not in "".join(store.preview_sql(show_secrets=True)) + repr(store)
