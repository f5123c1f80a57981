"""The table of a model: the keys of each kind, its identity, and what an invalid one reports."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from lakeconf.config.config import Config, init
from lakeconf.errors import ConfigError
from lakeconf.pipelines.models.declaration import parsed
from lakeconf.pipelines.models.kinds import Append, Full, Incremental, Kind, Merge, Seed, View

STORE = {"dev": {"metadata_backend": {"type": "sqlite", "uri": "x"}, "storage_backend": {"type": "local", "path": "d"}}}


def config() -> Config:
    return init({"stores": STORE})


def problems(**table: Any) -> list[tuple[str, str, str | None, str | None]]:
    """The problems of a model."""
    with pytest.raises(ConfigError) as caught:
        parsed(config(), "a.t", table)
    start = 'pipeline.models."a.t"'
    return [(one.code, str(one.key).removeprefix(start), one.message, one.hint) for one in caught.value.problems]


def test_table_becomes_a_declaration_and_a_kind() -> None:
    declared, kind = parsed(config(), "a.t", {"kind": "incremental", "time_column": "day", "sql": "t.sql", "batch": 2})
    assert (getattr(declared, "sql", None), kind) == ("t.sql", Incremental("day", batch=2))
    assert parsed(config(), "a.t", {"kind": "merge", "on": ["a", "b"], "sql": "t.sql"})[1] == Merge(["a", "b"])


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"kind": "fulll"}, ("LC013", ".kind", "unknown kind 'fulll'", 'did you mean "full"?')),
        ({"sql": "x", "tag": []}, ("LC010", ".tag", "unknown key", 'did you mean "tags"?')),
        (
            {"sql": "x", "lookback": 1},
            ("LC010", ".lookback", "unknown key", 'remove it, or set kind = "incremental", which has this key'),
        ),
        (
            {"kind": "seed", "csv": "x", "sql": "y"},
            ("LC010", ".sql", "unknown key", 'remove it, or set kind = "full", which has this key'),
        ),
        (
            {"kind": "view"},
            (
                "LC011",
                ".sql",
                "is missing",
                'write sql = "models/daily.sql" (the file with the query, relative to this file)',
            ),
        ),
        (
            {"kind": "append"},
            (
                "LC011",
                ".sql",
                "is missing",
                'write sql = "models/daily.sql" (the file with the query, relative to this file), or '
                'write files = "landing/*.parquet" '
                "(the pattern of the files to load, relative to this file, or of URIs)",
            ),
        ),
        (
            {"kind": "incremental", "sql": "x"},
            (
                "LC011",
                ".time_column",
                "is missing",
                'write time_column = "day" (the column of the result that assigns a row to an interval)',
            ),
        ),
        (
            {"kind": "merge", "sql": "x", "on": 1},
            ("LC013", ".on", "Input should be a valid string", 'write on = "id" (the key columns)'),
        ),
        (
            {"sql": "x", "tests": {"not_nul": ["a"]}},
            ("LC010", ".tests.not_nul", "unknown key", 'did you mean "not_null"?'),
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_invalid_table_is_one_problem_at_its_key(table: dict[str, Any], problem: tuple[str, str, str, str]) -> None:
    assert problems(**table) == [problem]


def test_problems_of_what_is_no_table_of_a_model() -> None:
    assert [one[1] for one in problems(sql="x", a=1, b=2)] == [".a", ".b"]
    no_table = 'write [pipeline.models."schema.table"] and its keys below it'
    files = {"kind": "append", "files": "x.csv"}
    cases: list[tuple[str, Any, str]] = [
        ("a.t", [], no_table),
        ("a.t", "x", no_table),
        ("a.t", 1, no_table),
        *(("raw", {part: files}, f'write [pipeline.models."raw.{part}"]') for part in ("events", "tests", "columns")),
        # A table of a model is no name.
        ("raw", {"kind": "fulll", "audits": {"a": "FROM t"}}, 'did you mean "full"?'),
    ]
    for name, table, hint in cases:
        with pytest.raises(ConfigError) as caught:
            parsed(config(), name, table)
        assert [one.hint for one in caught.value.problems] == [hint]


def test_identity_is_the_same_in_every_version() -> None:
    """Another identity makes every lake compute its models again."""
    kinds: dict[str, Kind] = {
        "full": Full(),
        "append None {}": Append(),
        "append events {'id': 'BIGINT'}": Append(new_rows_of="events", columns={"id": "BIGINT"}),
        "incremental day day": Incremental("day"),
        "incremental at hour": Incremental("at", "hour"),
        "merge ['id'] None None True": Merge("id"),
        "merge ['a', 'b'] events gone False": Merge(["a", "b"], "events", "gone", update=False),
        "view": View(),
        "seed {}": Seed("prices.csv"),
        "seed {'price': 'DECIMAL(8,2)'}": Seed("prices.csv", {"price": "DECIMAL(8,2)"}),
    }
    assert [kind.identity() for kind in kinds.values()] == list(kinds)


def test_options_that_only_select_what_a_run_processes_are_not_part_of_the_identity() -> None:
    chosen = Incremental("day", start=date(2024, 1, 1), lookback=2, batch=3, partial=True, late="ignore")
    assert chosen.identity() == Incremental("day").identity()
    assert Append(files="new/*.csv").identity() == Append(files="old/*.csv").identity()
    assert Seed("a.csv").identity() == Seed("b.csv").identity()
