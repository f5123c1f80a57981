"""`key_positions` finds the line and column of every key that tomllib parses."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeconf.config.toml_text import Key, key_positions

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


@given(document=DOCUMENTS, data=st.data())
def test_every_key_is_found_at_its_position(document: dict[str, Any], data: st.DataObject) -> None:
    text = Writer(data).table(document, [])
    parsed = tomllib.loads(text)
    positions = key_positions(text)
    lines = text.split("\n")
    assert set(keys_in(parsed)) == set(positions)
    for key in keys_in(parsed):
        line, column = positions[key]
        rest = lines[line - 1][column - 1 :]
        names = [part for part in key if isinstance(part, str)]
        if isinstance(key[-1], str):
            assert rest.startswith((names[-1], f"'{names[-1]}'", json.dumps(names[-1])))


@pytest.mark.parametrize(
    ("text", "key", "place"),
    [
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
    ],
)
def test_position_of_a_key(text: str, key: Key, place: tuple[int, int]) -> None:
    assert key in keys_in(tomllib.loads(text))
    assert key_positions(text)[key] == place
