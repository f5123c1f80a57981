"""Pipelines: inputs by name, order, selection, models and SQL that are refused, and inputs that fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
from lakeconf.pipelines import Append, Full, Model, Pipeline, Query, Seed, View, relationships, run
from lakeconf.pipelines.models.definition_hash import digest
from lakeconf.pipelines.models.kinds import Incremental, Kind, Merge
from lakeconf.pipelines.models.model import model
from lakeconf.pipelines.pipeline import check, mermaid
from lakeconf.write.ddl import Definition, type_sql

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake


def sql(table: str, text: str = "SELECT 1 AS id", kind: Kind | None = None, **given: Any) -> Model:
    return Model(table, kind or Full(), Query(text), **given)


def order(*models: Model) -> list[str]:
    return [one.table for one in Pipeline(models).ordered]


def test_models_come_after_those_that_they_read() -> None:
    """Models without common inputs are in the order of their names."""
    models = [sql("a.z"), sql("a.c", "FROM a.z, raw.x"), sql("a.a", "FROM a.c"), sql("a.b", "FROM a.a, a.z")]
    assert order(*models) == order(*reversed(models)) == ["a.z", "a.c", "a.a", "a.b"]
    assert order(sql("b.x"), sql("a.y"), sql("a.x")) == ["a.x", "a.y", "b.x"]
    # The changes of a table of no model are read, and not those of a view.
    assert order(sql("a.t", "FROM raw.x", Append()), sql("v.x", kind=View())) == ["a.t", "v.x"]


def test_arguments_are_matched_by_schema_and_table_or_by_table() -> None:
    @model("marts.t", Full(), inputs={"other": "raw.events"})
    def totals(raw_users: Any, plans: Any, other: Any) -> Any:
        return raw_users

    pipeline = Pipeline([totals, sql("raw.users"), sql("raw.plans"), sql("raw.other"), sql("raw_plans.t")])
    assert pipeline.inputs(totals) == {"raw_users": "raw.users", "plans": "raw.plans", "other": "raw.events"}


def test_inputs_are_matched_ignoring_case() -> None:
    """DuckDB ignores the case of names: a model that is not recognised would run too early, with old rows."""
    view, table = sql("V.a", "FROM raw.Users", View()), sql("Raw.users")
    reader = sql("a.t", "FROM v.A, RAW.USERS JOIN x ON true", inputs={"x": "raw.uSERS"})
    pipeline = Pipeline([reader, view, table])
    assert pipeline.inputs(reader) == {"v.A": "V.a", "RAW.USERS": "Raw.users", "x": "Raw.users"}
    assert pipeline.stored_inputs(reader) == ["Raw.users"]
    assert [one.table for one in pipeline.ordered] == ["Raw.users", "V.a", "a.t"]


def test_name_of_a_table_alone_is_matched_if_only_one_model_has_it() -> None:
    reader = sql("marts.t", "FROM raw_users")
    assert Pipeline([reader, sql("raw.users"), sql("other.raw_users")]).inputs(reader) == {"raw_users": "raw.users"}
    reader = sql("marts.users", "FROM users")  # a model is no input of itself
    assert Pipeline([reader, sql("raw.users")]).inputs(reader) == {"users": "raw.users"}
    with pytest.raises(PipelineError, match="does not match the table of any model"):
        Pipeline([reader])
    with pytest.raises(PipelineError) as caught:
        Pipeline([sql("marts.t", "FROM users"), sql("raw.users"), sql("old.users")])
    assert caught.value.message == "the input 'users' of the model marts.t is ambiguous: raw.users or old.users"
    hint = 'write the schema of the table in SQL, or name it in Python: inputs={"users": "schema.table"}'
    assert caught.value.hint == hint


def test_definition_contains_the_views_below() -> None:
    below = sql("v.b", "FROM raw.y", View())
    view, table, reader = sql("v.a", "FROM v.b", View()), sql("raw.t"), sql("marts.t", "FROM v.a, raw.t")
    pipeline = Pipeline([reader, view, below, table])
    of_view = digest(view.definition(), digest(below.definition()))
    assert pipeline.definition(reader) == digest(reader.definition(), of_view)
    assert pipeline.definition(table) == digest(table.definition())


def test_models_are_selected_by_names_patterns_and_tags() -> None:
    """A plus adds the models above or below."""
    tagged = sql("b.z", tags=["nightly", "big"])
    models = [sql("a.a"), sql("a.b", "FROM a.a, raw.x"), sql("a.c", "FROM a.b"), sql("a.d", "FROM a.c")]
    pipeline = Pipeline([*models, sql("b.x", "FROM a.a", tags=["big"]), tagged, sql("b.t[1]", "FROM b.z"), sql("b.t1")])
    for names, expected in (
        ("a.*", "a.a a.b a.c a.d"),
        ("*.x", "b.x"),
        ("b.x a.a *.x", "a.a b.x"),
        ("", "a.a a.b a.c a.d b.t1 b.x b.z b.t[1]"),
        ("+a.c", "a.a a.b a.c"),
        ("a.c", "a.c"),
        ("b.x +a.b", "a.a a.b b.x"),
        ("+a.[bd]", "a.a a.b a.c a.d"),
        ("a.c+", "a.c a.d"),
        ("+a.c+", "a.a a.b a.c a.d"),
        ("tag:nightly", "b.z"),
        ("tag:big", "b.x b.z"),
        ("tag:nightly+", "b.z b.t[1]"),
        ("b.t[1]", "b.t[1]"),
    ):
        assert {one.table for one in pipeline.chosen(names.split())} == {*expected.split()}, names
    assert [one.table for one in pipeline.chosen(["b.x", "+a.b"])] == ["a.a", "a.b", "b.x"]
    for name, message, hint in (
        ("row.*", r"no model matches 'row\.\*'", None),
        ("a.z", r"unknown model 'a\.z'", None),
        ("+b.t2", r"unknown model 'b\.t2'", 'did you mean "b.t1"?'),
        ("tag:nightli", "no model has the tag 'nightli'", 'did you mean "tag:nightly"?'),
    ):
        with pytest.raises(LakeconfError, match=message) as caught:
            pipeline.chosen([name])
        assert hint is None or caught.value.hint == hint
    with pytest.raises(PipelineError, match="unknown model 'nothing'") as caught:
        Pipeline([sql("a.t"), sql("a.u")]).chosen(["a.t", "+nothing"])
    assert caught.value.hint == "use one of: a.t, a.u"


@pytest.mark.parametrize(
    ("models", "message", "hint"),
    [
        *(
            ([sql(name)], f"'{name}' is not a valid table of a model", "write schema.table, such as analytics.revenue")
            for name in ("t", "a.b.c", "a.", ".t")
        ),
        (
            [sql("a.t"), sql("A.T")],
            "two models write A.T: a.t is the same name",
            "remove one of the models, or change its table",
        ),
        (
            [sql("a.t", "FROM a.u"), sql("a.u", "FROM a.t")],
            "the models form a cycle: a.t → a.u → a.t",
            "remove one of these inputs",
        ),
        ([sql("a.t", "FROM a.t")], "the model a.t reads its own table", "read other tables only"),
        (
            [sql("a.t", tests=[relationships("id", "A.U", "id")]), sql("a.u", "FROM a.t")],
            "the models form a cycle: a.t → a.u → a.t",
            "remove one of these inputs; make a test of relationships an audit",
        ),
        ([sql("a.t", "SELEC 1")], "is not a single DuckDB query", "write SELECT … FROM …"),
        (
            [sql("a.t", "FROM store.raw.events")],
            "the input store.raw.events of the model a.t is not a table of its store, as schema.table",
            "run lakeconf copy first, if it is a table of another store",
        ),
        ([sql("a.t", "DELETE FROM a.u")], "it is no SELECT", "write SELECT … FROM …"),
        (
            [sql("a.t", "FROM u")],
            "the input 'u' of the model a.t does not match the table of any model",
            "write the schema of the table in SQL, or name it in Python: inputs=",
        ),
        (
            [sql("a.t", "FROM a.u, a.v", Append())],
            "does not name the input that provides new rows",
            "set Append(new_rows_of=…) to one of: a.u, a.v; or set Append(files=…)",
        ),
        ([sql("a.t", "FROM a.u", Merge("id", changes_of="x"))], "has no input 'x'", "name one of its inputs: a.u"),
        (
            [sql("a.t", "FROM a.v", Append()), sql("a.v", kind=View())],
            "the model a.t reads the changes of a.v, which is a view",
            "name a table that the view reads: a view has no change feed",
        ),
        (
            [sql("a.t", kind=Incremental("d", lookback=-1))],
            "lookback of the model a.t: Input should be greater than or equal to 0",
            "write lookback = 3 (the number of intervals before new ones to process again)",
        ),
        (
            [sql("a.t", kind=Incremental("d", batch=0))],
            "batch of the model a.t: Input should be greater than or equal to 1",
            "write batch = 30 (the maximum number of intervals in a snapshot; default: all)",
        ),
        (
            [sql("a.t", kind=Incremental("d", start="2026-01-01"))],  # type: ignore[arg-type]
            "start of the model a.t: is a string",
            "write start = 2026-01-01 (the start of the first interval)",
        ),
        ([sql("a.t", kind="full")], "the kind of the model a.t is 'full'", "pass one of: Full, Append,"),  # type: ignore[arg-type]
        ([sql("a.t", inputs={"y": "a.u", "x": "a.u"})], "the model a.t has no input 'x'", "remove the input"),
        (
            [sql("a.t", "FROM b, c.d", inputs={"x": "a.u"})],
            "the model a.t has no input 'x'",
            "use one of its inputs: b, c.d",
        ),
        ([sql("a.t", audits={"few": "SELEC"})], "the audit 'few' of the model a.t is not a single query", "SELECT"),
        (
            [sql("a.t", audits={"few": "DROP TABLE x"})],
            "the audit 'few' of the model a.t is not a single",
            "one SELECT",
        ),
    ],
)
def test_invalid_pipelines(models: list[Model], message: str, hint: str | None) -> None:
    with pytest.raises(PipelineError) as caught:
        Pipeline(models)
    assert message in caught.value.message
    assert caught.value.hint is hint is None or (hint is not None and hint in str(caught.value.hint))


def test_smallest_and_largest_valid_values() -> None:
    kind = Incremental("d", lookback=0, batch=1)
    assert order(sql("a.t", kind=kind), sql("a.u", kind=Incremental("d", lookback=1))) == ["a.t", "a.u"]
    check(sql("a.t", audits={"few": "FROM a.t -- all"}))


def test_error_names_the_file_of_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one = Model("a.t", Append(), Query("FROM a.v", tmp_path / "t.sql"))
    cases = [
        ([one, sql("a.v", kind=View())], "t.sql: the model a.t reads the changes of a.v, which is a view"),
        ([sql("A.T"), one], "t.sql: two models write a.t: A.T is the same name"),
        ([sql("a.t"), one], "t.sql: two models write a.t"),
        ([Model("a.t", Full(), Query("FROM x", tmp_path / "t.sql"))], "t.sql: the input 'x' of the model a.t does not"),
        ([Model("t", Full(), Query("SELECT 1", tmp_path / "t.sql"))], "t.sql: 't' is not a valid table of a model"),
        ([Model("t", Append(files="*.csv"))], "'t' is not a valid table"),
    ]
    for models, message in cases:
        with pytest.raises(PipelineError) as caught:
            Pipeline(models)
        assert caught.value.message.startswith(message)
        assert caught.value.hint


def test_names_are_no_syntax() -> None:
    pipeline = Pipeline([Model('raw.<b>"]\nx --> y', Full(), Query("SELECT 1 AS n"))])
    shown = mermaid(pipeline, pipeline.models)
    assert len(shown.splitlines()) == 2
    assert shown.count('"') == 2
    assert "<b>" not in shown


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.create_table("raw.events", {"id": "BIGINT"}).append(pa.table({"id": [1, 2, 3]}))
    return lake


@pytest.mark.slow
def test_models_need_what_they_read_directly_or_through_views(lake: Lake) -> None:
    models = [
        Model("m.a", Full(), Query("SELECT none FROM raw.events")),
        Model("m.view", View(), Query("FROM m.a")),
        Model("m.over", View(), Query("FROM m.view")),
        Model("m.b", Full(), Query("FROM m.over")),
        Model("m.c", Full(), Query("FROM m.b")),
        Model("m.beside", Full(), Query("FROM raw.events")),
    ]
    pipeline = Pipeline(models)
    found = {one.model: (one.status, one.reason) for one in run(pipeline, lake)}
    assert {found.pop("m.a"), found.pop("m.beside")} == {("failed", "first run"), ("done", "first run")}
    assert found == dict.fromkeys(["m.view", "m.over", "m.b", "m.c"], ("not run", "m.a failed"))
    assert lake.runs.committed("m.a") == lake.runs.committed("m.b") == []
    assert [one.status for one in run(pipeline, lake, ["m.a", "m.b"])] == ["failed", "not run"]
    # A table that does not run again is not changed by what it reads: m.c reads its rows, or misses it.
    result = run(pipeline, lake, ["m.a", "m.c"])[1]
    assert (result.status, result.reason) == ("failed", "first run")


def test_models_need_the_tables_of_their_relationships() -> None:
    shops = Model("m.shops", Full(), Query("FROM raw.events"))
    known = Model("m.known", View(), Query("FROM m.shops"))
    sales = Model("m.a_sales", Full(), Query("FROM raw.events"), tests=[relationships("id", "M.Known", "id")])
    pipeline = Pipeline([sales, shops, known])
    assert [model.table for model in pipeline.ordered] == ["m.shops", "m.known", "m.a_sales"]
    assert [model.table for model in pipeline.chosen(["+m.a_sales"])] == ["m.a_sales"]


@pytest.mark.slow
def test_relationship_is_tested_with_the_rows_of_the_same_run(lake: Lake) -> None:
    lake.create_table("raw.more", {"id": "BIGINT"}).append([{"id": 1}])
    sales = Model("m.a_sales", Full(), Query("FROM raw.more"), tests=[relationships("id", "m.shops", "id")])
    pipeline = Pipeline([sales, Model("m.shops", Full(), Query("FROM raw.more"))])
    for number in (7, 8):
        lake.table("raw.more").append([{"id": number}])
        results = run(pipeline, lake)
        assert [(one.model, one.status) for one in results] == [("m.shops", "done"), ("m.a_sales", "done")]
    broken = Pipeline([sales, Model("m.shops", Full(), Query("SELECT none FROM raw.more"))])
    lake.table("raw.more").append([{"id": 9}])
    results = run(broken, lake)
    assert [(one.status, one.reason) for one in results][1] == ("not run", "m.shops failed")


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


@pytest.mark.slow
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
    *("/* é */PRAGMA version", "CALL pragma_version()", "DELETE FROM raw.t", "SELECT 1; SELECT 2"),
    "",
]


@pytest.mark.slow
def test_audit_must_be_a_single_query(project: Path) -> None:
    with lakeconf.init().get_store().open() as lake:
        table = lake.create_table("raw.t", {"id": "BIGINT"})
        before = lake.snapshot_id
        for sql in AUDITS:
            with pytest.raises(AuditError, match="is not a single query") as refused, lake.transaction() as write:  # noqa: PT012
                write.audit("planted", sql)
                write.table("raw.t").append(pa.table({"id": [1]}))
            assert refused.value.hint == "write one SELECT that returns the rows that violate the condition"
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
