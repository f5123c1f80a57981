"""Errors of a write name the files or the query of the model, and what to write there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.errors import LakeconfError
from lakeconf.pipelines import Append, Full, Model, Pipeline, run
from lakeconf.pipelines.body import Query

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake


def failed(lake: Lake, model: Model) -> LakeconfError:
    (result,) = run(Pipeline([model]), lake)
    assert result.error is not None
    assert "frame" not in f"{result.error.message} {result.error.hint}"
    return result.error


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "id,note\nabc,x\n",
            "2.csv: the column 'id' is VARCHAR, but in raw.t it is BIGINT, which cannot hold all its values",
            'set id = "BIGINT" in columns of the model, next to the other columns, if all values have this type',
        ),
        (
            "id\n2\n",
            "2.csv: this would drop the column note of raw.t",
            'add the column to the file; or write dropped = ["note"] in the model, or run with --allow-drop-columns '
            "(allow_drop_columns=True); for a renamed column, use `renamed`",
        ),
    ],
)
def test_file_that_does_not_fit_its_table_is_named(
    text: str, message: str, hint: str, lakes: tuple[Lake, Lake], tmp_path: Path
) -> None:
    model = Model("raw.t", Append(files="*.csv"), folder=tmp_path)
    (tmp_path / "1.csv").write_text("id,note\n1,x\n")
    assert run(Pipeline([model]), lakes[0])[0].status == "done"
    (tmp_path / "2.csv").write_text(text)
    error = failed(lakes[0], model)
    assert (error.message, error.hint) == (message, hint)


def test_query_that_does_not_fit_its_table_is_named(lakes: tuple[Lake, Lake]) -> None:
    lakes[0].create_table("marts.t", {"id": "BIGINT"})
    error = failed(lakes[0], Model("marts.t", Full(), Query("SELECT 'a' AS id")))
    assert error.message.startswith("the query's column 'id' is VARCHAR, but in marts.t it is BIGINT")
    assert error.hint == "cast the column in the SQL to BIGINT, or evolve the table"
