"""Models, audits and column types cannot run SQL other than a single query or a type name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakeconf
from lakeconf.cli.app import run as run_command
from lakeconf.commit.audits import is_query
from lakeconf.config.config import validate
from lakeconf.errors import AuditError, LakeconfError, PipelineError, SchemaError
from lakeconf.pipelines import Append, Full, Model, Pipeline, Seed, run
from lakeconf.pipelines.models.body import Query
from lakeconf.write.ddl import Definition, type_sql

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf.pipelines.models.kinds import Kind


COPY = "COPY (SELECT 1) TO 'written.csv'"
TYPES = [
    f"BIGINT) AS id FROM range(1); {COPY}; SELECT (1",
    f"BIGINT); {COPY} --",
    "BIGINT, other INTEGER",
    "BIGINT DEFAULT 5",
    "BIGINT) AS a, (SELECT max(file) FROM glob('/etc/*')",
    "BIGINT /*",
    "BIGINT -- x",
    "",
]


def test_column_type_with_other_sql_is_refused(project: Path) -> None:
    (project / "in.csv").write_text("id\n1\n")
    (project / "in.json").write_text('{"id": 1}\n')
    pq.write_table(pa.table({"id": [1]}), project / "in.parquet")
    with lakeconf.init().get_store().open() as lake:
        for text in TYPES:
            columns = {"id": text}
            kinds: list[Kind] = [
                Seed("in.csv", columns),
                *(Append(files=f"in.{end}", columns=columns) for end in ("json", "parquet")),
            ]
            for kind in kinds:
                assert run(Pipeline([Model("raw.t", kind, folder=project)]), lake)[0].status == "failed"
            with pytest.raises(SchemaError):
                Definition(columns).statements("s", "t")
    assert not (project / "written.csv").exists()


@given(st.text(st.characters(codec="ascii")) | st.sampled_from(TYPES))
def test_accepted_types_are_normalized(text: str) -> None:
    try:
        found = type_sql("c", text)
    except SchemaError:
        return
    assert type_sql("c", found) == found


AUDITS = [
    f"{COPY}",
    f"SELECT 1; {COPY}",
    f"SELECT 1 WHERE false; {COPY}",
    "COMMIT",
    "ROLLBACK",
    "PRAGMA version",
    "/* é */PRAGMA version",
    "",
]


def test_audit_must_be_a_single_query(project: Path) -> None:
    with lakeconf.init().get_store().open() as lake:
        table = lake.create_table("raw.t", {"id": "BIGINT"})
        before = lake.snapshot_id
        for sql in AUDITS:
            with pytest.raises(AuditError, match="is not a single query"), lake.transaction() as write:  # noqa: PT012
                write.audit("planted", sql)
                write.table("raw.t").append(pa.table({"id": [1]}))
            assert (lake.refresh(), table.scan().collect().shape) == (before, (0, 1))
            with pytest.raises(PipelineError, match="is not a single query"):
                Pipeline([Model("a.t", Full(), Query("SELECT 1 AS id"), audits={"planted": sql})])
    assert not (project / "written.csv").exists()


def test_model_must_be_a_single_query() -> None:
    for sql in (*AUDITS, "SET x = 1", "CALL x()"):
        with pytest.raises(LakeconfError, match="query"):
            Pipeline([Model("a.t", Full(), Query(sql))])
    assert is_query("FROM range(1) -- a comment;")
    assert is_query("WITH a AS (SELECT 1) SELECT * FROM a;")


def test_validate_checks_audits(project: Path) -> None:
    (project / "q.sql").write_text("SELECT 1 AS id")
    model = f'[pipeline.models."a.t"]\nsql = "q.sql"\naudits = {{ planted = "{COPY}" }}\n'
    (project / "lakeconf.toml").write_text((project / "lakeconf.toml").read_text() + model)
    assert validate() == []
    assert run_command(["validate"]) == 1
