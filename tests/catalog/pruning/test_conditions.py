"""Conditions that DuckDB writes in another way skip files too, and find the rows that DuckDB finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from local_stores import store_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake

BOOLEANS: dict[str, list[bool | None]] = {
    "true": [True],
    "false": [False],
    "null": [None],
    "mixed": [True, False, None],
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake with a table of four files; `part` is the number of the file."""
    folder: Path = tmp_path_factory.mktemp("conditions")
    with store_of(folder).open() as lake:
        for number, flags in enumerate(BOOLEANS.values()):
            rows = pa.table(
                {
                    "part": [number] * len(flags),
                    "flag": pa.array(flags, pa.bool_()),
                    "size": pa.array([None if flag is None else float(number) for flag in flags], pa.float64()),
                    "text": ["x AND y"] * len(flags),
                }
            )
            if not number:
                lake.create_table("raw.t", rows)
            lake.table("raw.t").append(rows)
        yield lake


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("flag IS TRUE", 2),
        ("flag IS NOT TRUE", 3),
        ("flag IS FALSE", 2),
        ("flag IS NOT FALSE", 3),
        ("NOT flag IS FALSE", 3),
        ("part = 0 AND flag IS TRUE", 1),
        ("(flag AND part > 0) IS TRUE", 1),
        ("(flag OR part = 1) IS FALSE", 1),
        ("(flag AND part > 0) IS NOT FALSE", 2),
        ("(part BETWEEN 1 AND 2) IS TRUE", 2),
        ("(NOT flag) IS TRUE IS TRUE", 2),
        ("flag IS TRUE AND length(text) > 1", 2),
        ("part >= 2 AND text = 'x AND y' AND length(text) > 1 AND flag IS NOT TRUE", 2),
        ("size > 1 AND size < 1e999", 2),
        ("size BETWEEN -1e999 AND 0 AND length(text) > 1", 1),
        ("size < 0.5 AND length(text) < 1e999", 1),
        ("part = 3 IS TRUE", 1),
        ("part IS TRUE", 4),
    ],
)
def test_condition_skips_files(where: str, files: int, lake: Lake) -> None:
    table = lake.table("raw.t")
    assert table.explain(where=where).files == files
    names = ("part", "flag", "size")
    listed = ", ".join(names)
    native: Any = lake.sql(f"SELECT {listed} FROM raw.t WHERE {where} ORDER BY ALL").to_native()
    key = [(name, "ascending") for name in names]
    found = table.to_arrow(columns=names, where=where).sort_by(key).to_pylist()
    wanted = [dict(zip(names, row, strict=True)) for row in native.fetchall()]
    assert sorted(map(str, found)) == sorted(map(str, wanted))
