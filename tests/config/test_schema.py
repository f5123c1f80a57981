"""The JSON Schema of a configuration, and the positions of keys."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_shapes import ALLOWED, configuration, has_credentials

from lakeconf.backends.registry import METADATA_BACKENDS, STORAGE_BACKENDS
from lakeconf.backends.store_options import OPTIONS
from lakeconf.config.schema import json_schema
from lakeconf.config.toml_text import Key, TomlText

REPOSITORY = Path(__file__).parent.parent.parent
BROKEN = REPOSITORY / "tests" / "config" / "broken"
# A schema cannot check values of variables, relations between keys or TOML syntax: those files are left out.
SEEN_BY_SCHEMA = [
    path.stem
    for path in sorted(BROKEN.glob("*.txt"))
    if any(f"[{code}]" in path.read_text() for code in ("LC010", "LC011", "LC012", "LC020", "LC050"))
    and not path.stem.startswith(("variable", "extends_a", "pyproject"))
]
SHAPES = [(*pair, inline) for pair in ALLOWED for inline in (False, True) if has_credentials(*pair) or not inline]


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_configuration_of_the_repository_is_valid(validator: Any) -> None:
    validator.validate(tomllib.loads((REPOSITORY / "lakeconf.toml").read_text()))


@pytest.mark.parametrize(("metadata", "storage", "inline"), SHAPES)
def test_every_combination_of_backends_is_valid(metadata: str, storage: str, inline: bool, validator: Any) -> None:
    validator.validate(configuration(metadata, storage, inline=inline))


def test_stores_with_extends_and_variables_are_valid(validator: Any) -> None:
    for store in (
        {"extends": "prod"},
        {"extends": "prod", "storage_backend": {"prefix": "x"}},
        {"extends": "prod", "metadata_backend": {"type": "sqlite", "uri": "x"}},
        {"metadata_backend": {"type": "postgres", "secret_name": "x", "port": "${PORT}"}},
        {
            "metadata_backend": {"type": "sqlite", "uri": "x"},
            "attach_options": {"read_only": "${RO:-true}", "meta_x": 1},
        },
        {"metadata_backend": {"type": "sqlite", "uri": "x"}, "alias": "${ALIAS}"},
        {"extends": "prod", "maintenance": {"deadline": "${LIMIT}", "memory_limit": "4GB"}},
    ):
        validator.validate({"stores": {"dev": store}})


@pytest.mark.parametrize("name", SEEN_BY_SCHEMA)
def test_broken_configurations_are_refused(name: str, validator: Any) -> None:
    text = (BROKEN / f"{name}.toml").read_bytes().decode("utf-8-sig")
    assert not validator.is_valid(tomllib.loads(text))


def test_a_wrong_key_is_one_precise_problem(validator: Any) -> None:
    for store, path, message in (
        (
            {"metadata_backend": {"type": "sqlite", "url": "x", "uri": "x"}},
            ["metadata_backend"],
            "Additional properties are not allowed ('url' was unexpected)",
        ),
        ({"metadata_backend": {"type": "sqlite"}}, ["metadata_backend"], "'uri' is a required property"),
        ({"metadata_backend": {"uri": "x"}}, ["metadata_backend"], "'type' is a required property"),
        ({"metadata_backend": {"type": "sqlit", "uri": "x"}}, ["metadata_backend", "type"], "'sqlit' is not one of "),
        (
            {"extends": "a", "storage_backend": {"type": "s3", "regoin": "x"}},
            ["storage_backend"],
            "Additional properties are not allowed ('regoin' was unexpected)",
        ),
        ({"extends": "a", "storage_backend": {"regoin": "x"}}, ["storage_backend"], "'regoin' is not one of "),
        ({"extends": "a", "storage_backend": {"type": "s3", "bucket": 1}}, ["storage_backend", "bucket"], "1 is not "),
        ({"extends": "a", "storage_backend": "s3"}, ["storage_backend"], "'s3' is not of type 'object'"),
    ):
        (found,) = validator.iter_errors({"stores": {"dev": store}})
        assert list(found.absolute_path) == ["stores", "dev", *path], store
        assert found.message.startswith(message), store


def test_everything_has_a_description() -> None:
    definitions = json_schema()["$defs"]
    backends = [f"metadata_backend.{name}" for name in METADATA_BACKENDS]
    backends += [f"storage_backend.{name}" for name in STORAGE_BACKENDS]
    for name in (*backends, "attach_options", "maintenance", "store"):
        assert definitions[name]["description"]
        for key, value in definitions[name]["properties"].items():
            assert value.get("description") or "$ref" in value, f"{name}.{key}"
    assert set(definitions["attach_options"]["properties"]) == set(OPTIONS["attach_options"])


def test_every_field_has_a_valid_example(validator: Any) -> None:
    definitions = validator.schema["$defs"]
    for name in [
        *map("metadata_backend.{}".format, METADATA_BACKENDS),
        *map("storage_backend.{}".format, STORAGE_BACKENDS),
    ]:
        for key, schema in definitions[name]["properties"].items():
            if key == "type":
                continue
            assert schema.get("examples"), f"{name}.{key}"
            for example in schema["examples"]:
                jsonschema.Draft202012Validator({**schema, "$defs": definitions}).validate(example)


NAMES = st.sampled_from(
    ["a", "b-c", "d_1", "7", "true", "a.b", "é", "it's", 'say "x"', "[t]", "x = 1", "#no", "", "tab\t"]
)
TEXTS = st.sampled_from(["", "plain", "a # b", "[x]", "y = 1", "it's", '"q"', "two\nlines", "}", "]", ",", "\\", "'''"])
SCALARS = TEXTS | st.integers() | st.booleans() | st.just(1.5) | st.just("2024-01-01T00:00:00Z")
SPACES = st.sampled_from(["", " ", "\t ", "  "])
BREAKS = st.sampled_from(["\n", "\r\n", "\n\n", " # [no] = { \n", "\n  # x\n"])


def values(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(children, max_size=3) | st.dictionaries(NAMES, children, max_size=3)


DOCUMENTS = st.dictionaries(NAMES, st.recursive(SCALARS, values, max_leaves=12), max_size=4)


class Writer:
    """Writes data as TOML in randomly drawn notations."""

    def __init__(self, data: st.DataObject) -> None:
        self.draw = data.draw

    def key(self, name: str) -> str:
        bare = bool(name) and all(c.isascii() and (c.isalnum() or c in "-_") for c in name)
        forms = [json.dumps(name)]
        if "'" not in name and "\t" not in name:
            forms.append(f"'{name}'")
        return self.draw(st.sampled_from([name, *forms] if bare else forms))

    def scalar(self, value: Any) -> str:
        if not isinstance(value, str):
            return json.dumps(value)
        forms = [json.dumps(value)]
        if "'" not in value and "\n" not in value:
            forms.append(f"'{value}'")
        if "'''" not in value and not value.endswith("'"):
            forms.append(f"'''\n{value}'''")
        if "\\" not in value:
            forms.append('"""' + value.replace('"', '\\"') + '"""')
        return self.draw(st.sampled_from(forms))

    def value(self, value: Any) -> str:
        if isinstance(value, dict):
            pairs = (self.pair([name], item) for name, item in value.items())
            return "{" + self.draw(SPACES) + ", ".join(pairs) + self.draw(SPACES) + "}"
        if isinstance(value, list):
            between = self.draw(st.sampled_from([",", ", ", ",\n  ", " , # x, ]\n"]))
            return "[" + self.draw(SPACES) + between.join(map(self.value, value)) + self.draw(SPACES) + "]"
        return self.scalar(value)

    def dotted(self, names: list[str]) -> str:
        return f"{self.draw(SPACES)}.{self.draw(SPACES)}".join(map(self.key, names))

    def pair(self, names: list[str], value: Any) -> str:
        if isinstance(value, dict) and value and self.draw(st.booleans()):
            name, item = next(iter(value.items()))
            if len(value) == 1:
                return self.pair([*names, name], item)
        return f"{self.dotted(names)}{self.draw(SPACES)}={self.draw(SPACES)}{self.value(value)}"

    def table(self, table: dict[str, Any], above: list[str]) -> str:
        lines, below = [], []
        for name, value in table.items():
            is_array = isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
            if isinstance(value, dict) and self.draw(st.booleans()):
                below.append(self.header([*above, name], value))
            elif is_array and self.draw(st.booleans()):
                below += [self.header([*above, name], item, brackets=2) for item in value]
            else:
                lines.append(self.draw(SPACES) + self.pair([name], value) + self.draw(BREAKS))
        return "".join(lines + below)

    def header(self, names: list[str], table: dict[str, Any], brackets: int = 1) -> str:
        head = "[" * brackets + self.draw(SPACES) + self.dotted(names) + self.draw(SPACES) + "]" * brackets
        return head + self.draw(BREAKS) + self.table(table, names)


def keys_in(value: Any, above: Key = ()) -> list[Key]:
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found: list[Key] = []
    for name, item in items:
        found += [(*above, name), *keys_in(item, (*above, name))]
    return found


@pytest.mark.slow
@given(document=DOCUMENTS, data=st.data())
def test_every_key_is_found_at_its_position(document: dict[str, Any], data: st.DataObject) -> None:
    text = Writer(data).table(document, [])
    parsed = tomllib.loads(text)
    positions = TomlText(text).positions
    lines = text.split("\n")
    assert set(keys_in(parsed)) == set(positions)
    for key in keys_in(parsed):
        line, column = positions[key]
        rest = lines[line - 1][column - 1 :]
        names = [part for part in key if isinstance(part, str)]
        if isinstance(key[-1], str):
            assert rest.startswith((names[-1], f"'{names[-1]}'", json.dumps(names[-1])))


def test_position_of_a_key() -> None:
    for text, key, place in (
        ("a = 1\n", ("a",), (1, 1)),
        ("[x]\n  y = 1\n", ("x", "y"), (2, 3)),
        ("[x.y]\n[x]\n", ("x",), (2, 2)),
        ("[x.y]\nz = 1\n", ("x",), (1, 2)),
        ("t = [1,\n  {u = 2}]\n", ("t", 1, "u"), (2, 4)),
        ("[[p]]\n[[p]]\nn = 1\n", ("p", 1, "n"), (3, 1)),
        ("[[p]]\n[p.q]\nn = 1\n", ("p", 0, "q", "n"), (3, 1)),
        ('s = """\nk = 1\n"""\nk = 2\n', ("k",), (4, 1)),
        ('s = """a""""\nk = 2\n', ("k",), (2, 1)),
        ("s = ''''a'''''\nk = 2\n", ("k",), (2, 1)),
        ('"a b" . c = 1\n', ("a b", "c"), (1, 9)),
        ("d = 1979-05-27 07:32:00 # x\nk = 1", ("k",), (2, 1)),
        ("a = 1\r\nb = 2\r\n", ("b",), (2, 1)),
    ):
        assert key in keys_in(tomllib.loads(text)), text
        assert TomlText(text).positions[key] == place, text
