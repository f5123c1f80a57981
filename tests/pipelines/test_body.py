"""Bodies of models: their arguments, code, places in files and rows, and errors in their SQL."""

from __future__ import annotations

import pickle
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from local_stores import store_of

from lakeconf.errors import PipelineError, QueryError, SchemaError, SnapshotNotFoundError, UnknownNameError
from lakeconf.pipelines.models.body import Function, ModelSqlError, Query
from lakeconf.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with store_of(tmp_path_factory.mktemp("body")).open() as lake:
        yield lake


def native(frame: Any) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = frame.to_native().fetchall()
    return found


def test_function_receives_only_the_bounds_that_it_names(lake: Lake) -> None:
    seen: list[Any] = []

    def starting(events: nw.LazyFrame[Any], start: date) -> nw.LazyFrame[Any]:
        seen.append(start)
        return events

    def unbounded(events: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return events

    frames = {"events": lake.sql("SELECT 1 AS id")}
    bounds = {"start": date(2024, 1, 1), "end": date(2024, 1, 2)}
    for body in (starting, unbounded):
        assert native(Function(body).rows(lake, frames, bounds)) == [(1,)]
    assert seen == [date(2024, 1, 1)]


def test_function_may_return_a_native_frame_and_nothing_else(lake: Lake) -> None:
    found = Function(lambda: pa.table({"id": [1]})).rows(lake, {}, {})
    assert isinstance(found, nw.DataFrame)
    with pytest.raises(SchemaError) as caught:
        Function(lambda: 5).rows(lake, {}, {})
    assert caught.value.message.endswith("<lambda> returned a int")
    assert caught.value.hint == "return a narwhals frame"


def test_arguments_of_a_query_are_its_tables_in_order_and_once() -> None:
    sql = 'SELECT * FROM raw.b JOIN a USING (id) JOIN "Other".raw.c d ON true WHERE id IN (SELECT id FROM raw.b)'
    assert list(Query(sql).arguments()) == ["raw.b", "a", "Other.raw.c"]
    # A common table expression is no argument, and a table of the same name is one.
    assert list(Query("WITH events AS (FROM raw.users) FROM events").arguments()) == ["raw.users"]
    sql = "WITH events AS (FROM raw.events) SELECT * FROM events, raw.events"
    assert list(Query(sql).arguments()) == ["raw.events"]


def test_series_is_no_argument_and_two_columns_of_the_same_name_are_refused(lake: Lake, tmp_path: Path) -> None:
    frames = {"raw.t": lake.sql("SELECT 1 AS id")}
    query = Query("SELECT r.range + g AS n FROM range(2) AS r, generate_series(10, 11) AS s(g), raw.t ORDER BY ALL")
    assert query.arguments() == ["raw.t"]
    assert native(query.rows(lake, frames, {})) == [(10,), (11,), (11,), (12,)]
    assert native(Query("FROM range(2)").rows(lake, {}, {})) == [(0,), (1,)]
    for columns in ("1 AS id, 2 AS id", "1 AS id, 2 AS ID", "t.*, t.id"):
        query = Query(f"SELECT {columns} FROM raw.t", tmp_path / "twice.sql")
        with pytest.raises(PipelineError, match=r"twice\.sql: the result of the SQL has two columns 'id'"):
            query.rows(lake, frames, {})


def test_placeholders_are_typed_values(lake: Lake) -> None:
    for start, end, kind in (
        (date(2024, 1, 1), date(2024, 1, 2), "DATE"),
        (datetime(2024, 1, 1, 5), datetime(2024, 1, 1, 6), "TIMESTAMP"),
    ):
        found = Query("SELECT typeof($start), typeof($end), $start").rows(lake, {}, {"start": start, "end": end})
        assert native(found) == [(kind, kind, start)]
    with pytest.raises(PipelineError) as caught:
        Query("SELECT $begin").rows(lake, {}, {"start": date(2024, 1, 1), "end": date(2024, 1, 2)})
    assert caught.value.message == "the SQL contains an unknown placeholder $begin"
    assert caught.value.hint == "use one of: $start, $end"
    with pytest.raises(PipelineError) as caught:
        Query("SELECT $start").rows(lake, {}, {})
    assert caught.value.hint == 'set kind = "incremental", or remove it'


def test_query_keeps_the_meaning_that_duckdb_gives_it(lake: Lake) -> None:
    """A query without SELECT lost its joins: it returned other rows."""
    frame = pa.table({"day": [date(2024, 5, 17)] * 3, "flag": [True, False, True], "other": [None, None, True]})
    text = (
        "SELECT count(*), '$start' FROM raw.t -- $end\nWHERE flag = other IS NOT NULL AND day >= $start AND day < $end;"
    )
    bounds = {"start": date(2024, 5, 17), "end": date(2024, 5, 18)}
    assert native(Query(text).rows(lake, {"raw.t": frame}, bounds)) == [(1, "$start")]
    frames = {
        "one": lake.sql("FROM (VALUES (1), (2)) AS t(id)"),
        "two": lake.sql("SELECT 2 AS id, 'b' AS text"),
        'raw.a"; DROP': lake.sql("SELECT 1 AS id"),
    }
    for sql, found in (
        ("FROM one JOIN two USING (id)", (2, "b")),
        ("SELECT x.number FROM two AS x(number, letter)", (2,)),
        ('SELECT "x""; y".id FROM raw."a""; DROP" AS "x""; y"', (1,)),
        ("SELECT id FROM two; -- end", (2,)),
    ):
        assert native(Query(sql).rows(lake, frames, {})) == [found]
    with pytest.raises((QueryError, SnapshotNotFoundError)):
        native(Query("SELECT id FROM one AT (VERSION => 1)").rows(lake, frames, {}))


def test_an_error_of_a_view_has_its_place(lake: Lake, tmp_path: Path) -> None:
    lake.create_table("raw.t", {"id": "BIGINT"})
    Query("SELECT id FROM raw.t;\n").check(lake)
    with pytest.raises(QueryError) as caught:
        Query("SELECT id,\n  idd AS x\nFROM raw.t", tmp_path / "v.sql").check(lake)
    assert "v.sql:2:3: Binder Error" in caught.value.message
    assert caught.value.message.splitlines()[1:3] == ["  2 |   idd AS x", "    |   ^"]


START = "the SQL is not a single DuckDB query: "


def refused(text: str, path: Path | None = None, secrets: tuple[Secret, ...] = ()) -> ModelSqlError:
    with pytest.raises(PipelineError) as caught:
        _ = Query(text, path, secrets=secrets).parsed
    assert isinstance(caught.value, ModelSqlError)
    assert caught.value.__cause__ is None
    return caught.value


def test_syntax_error_has_the_place_that_duckdb_finds() -> None:
    for text, reason, line, column in (
        ("SELECT 1\nFROM (planted", "syntax error at end of input", 2, 14),
        ("SELECT '日本語' AS a\n\tb c", "syntax error", 2, 2),
        ("SELECT 'é'\n, 'planted", "unterminated quoted string", 2, 3),
        ('SELECT """\n\n""", "planted', "unterminated quoted identifier", 3, 6),
        ("SELECT 1 /* planted", "unterminated /* comment", 1, 10),
        ("SELEC 1", "syntax error", 1, 1),
    ):
        error = refused(text)
        assert (error.problem.line, error.problem.column) == (line, column), text
        first, source, caret = error.message.split("\n")
        assert first == f"the SQL, line {line}, column {column}: {START}{reason}", text
        assert source.startswith(f"  {line} | "), text
        assert caret.index("^") >= len(f"  {line} | ") + column - 1, text
        again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
        assert (str(again), again.problem) == (str(error), error.problem)


def test_place_is_in_the_file_relative_to_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    error = refused("SELECT (", tmp_path / "a.sql")
    assert error.message.startswith(f"a.sql:1:9: {START}syntax error at end of input\n  1 | SELECT (\n")
    assert error.problem.file == tmp_path / "a.sql"


def test_text_of_other_files_is_not_shown(tmp_path: Path) -> None:
    """A configuration of someone else may name a file with secrets as SQL."""
    (tmp_path / "key.pem").write_text("KEY=planted")
    (tmp_path / "linked.sql").symlink_to(tmp_path / "key.pem")
    for name in ("t.env", ".env", "linked.sql"):
        for text in ("KEY planted planted", "KEY 'planted", "SELECT 'planted"):
            error = refused(text, tmp_path / name)
            assert error.message.endswith(f": {START}it cannot be parsed")
            assert "planted" not in repr(error.problem)


def test_line_with_a_secret_is_not_shown() -> None:
    secret = Secret("hunter2-and-more")
    error = refused("SELECT 1,\n'hunter2-and-more' (", None, (secret,))
    assert (error.problem.line, error.problem.excerpt) == (2, None)
    assert "hunter2" not in str(error)
    several = Secret("first line\nsecond line")
    assert refused("SELECT 'first line\nsecond line' (", None, (several,)).problem.excerpt is None
    assert refused("SELECT 'hunter2-and-more',\n1 (", None, (secret,)).problem.excerpt is not None
    assert "hunter2" not in repr(Query("SELECT 1", secrets=(secret,)))


def test_statements_that_are_not_one_query_have_a_reason() -> None:
    assert refused("SELECT 1; SELECT 2").message == f"{START}there are several"
    assert refused("DELETE FROM planted").message.startswith(f"{START}it is no SELECT")
    assert refused("DESCRIBE planted").message == "the SQL describes tables, and has no rows of them"
    assert refused("").hint == "write SELECT … FROM …"


def test_function_is_no_input() -> None:
    for text, name, column in (
        ("SELECT read_csv FROM read_csv('x.csv')", "read_csv", 22),
        ("FROM glob ('*')", "glob", 6),
        ("FROM \"Read_CSV\"('x')", "read_csv", 6),
        ("SELECT * FROM repeat('a', 3)", "repeat", 15),
        ("SELECT * FROM raw.t, query_table('raw.t')", "query_table", 22),
    ):
        problem = refused(text).problem
        message = f"the function {name} is not an input of a model"
        assert (problem.message.lower(), problem.line, problem.column) == (message, 1, column)


@pytest.fixture
def on_engine(tmp_path: Path, engine: Any) -> Iterator[Lake]:
    with store_of(tmp_path).open(engine) as on_engine:
        yield on_engine


def test_error_is_at_its_place_in_the_text(on_engine: Lake) -> None:
    frames = {name: on_engine.sql("SELECT DATE '2024-01-01' AS day") for name in ("raw.prices", "od d.x")}
    for sql in (
        "SELECT ¶nope FROM raw.prices",
        "FROM raw.prices SELECT day,\n\n\t ¶nope",
        'SELECT \'日本\', "é".day, ¶nope FROM raw.prices AS "é"',
        'SELECT day FROM raw.prices JOIN "od d".x USING (day) WHERE day > $start AND\n day < $end AND ¶nope = 1',
        "SELECT '$start' AS a, p.day FROM raw.prices p, \"od d\".x WHERE ¶p.nope > $end",
        "-- $start raw.prices nope\nWITH t AS (FROM raw.prices) SELECT /* nope */ day, ¶nope(day) FROM t",
        'SELECT (SELECT max(day) FROM "od d".x WHERE ¶nope) FROM raw.prices;',
    ):
        offset, text = sql.index("¶"), sql.replace("¶", "")
        query = Query(text)
        given = {name: frames[name] for name in query.arguments()}
        with pytest.raises(QueryError) as caught:
            query.rows(on_engine, given, {"start": date(2024, 1, 1), "end": date.max})
        line = text.count("\n", 0, offset) + 1
        column = offset - (text.rfind("\n", 0, offset) + 1) + 1
        assert caught.value.message.startswith(f"the SQL, line {line}, column {column}: ")
        # Later errors are written as before.
        with pytest.raises(QueryError, match=r"^Binder Error: Ref"):
            on_engine.sql("SELECT nope FROM (SELECT 1 AS day)")
    with pytest.raises(UnknownNameError) as unknown:
        Query("SELECT\nnofun(day) FROM raw.prices").rows(on_engine, {"raw.prices": frames["raw.prices"]}, {})
    assert unknown.value.message.split("\n")[:2] == [
        "the SQL, line 2, column 1: Catalog Error: Scalar Function with name nofun does not exist!",
        "  2 | nofun(day) FROM raw.prices",
    ]
