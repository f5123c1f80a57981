"""The connection to DuckDB: errors with a class, a hint and no secret, extensions, interrupts, and no other access."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from polars.io.plugins import register_io_source
from source_tree import sources

from lakeconf.connection import connection as connection_module
from lakeconf.connection.connection import Connection, connect, load_extension
from lakeconf.connection.duckdb_errors import REFUSED_VALUE, Reported, place_of, reported, translated_errors
from lakeconf.errors import (
    CatalogError,
    CatalogLockedError,
    CatalogMissingError,
    CatalogVersionError,
    CommitConflictError,
    CommitError,
    ConnectionFailed,
    FileMissingError,
    LakeconfError,
    QueryError,
    SchemaError,
    StorageError,
    UnknownNameError,
)
from lakeconf.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def translated(error: Exception) -> LakeconfError:
    """What an error of DuckDB becomes."""
    with pytest.raises(LakeconfError) as raised, translated_errors():
        raise error
    return raised.value


def test_every_duckdb_error_becomes_a_lakeconf_error() -> None:
    kinds = [value for value in vars(duckdb).values() if isinstance(value, type) and issubclass(value, duckdb.Error)]
    assert len(kinds) > 20
    for kind in kinds:
        assert "something" in str(translated(kind("something")))
    text = "INTERNAL Error: no pointer\n\nStack Trace:\n\n/duckdb.so(+0xd7f00b) [0x7f]\n\nThis error signals a failure"
    error = translated(duckdb.InternalException(text))
    assert error.message == str(error.__cause__) == "INTERNAL Error: no pointer"


def test_error_class_follows_the_duckdb_error_class() -> None:
    expected = {
        "SELEC 1": QueryError,
        "FROM nowhere": UnknownNameError,
        "SELECT 'x'::INTEGER": SchemaError,
        "SELECT 2147483647::INTEGER + 1::INTEGER": SchemaError,
        "FROM read_parquet('/no/such/file.parquet')": StorageError,
        "ATTACH '/no/such/folder/x.db'": StorageError,
    }
    with connect() as connection:
        for sql, kind in expected.items():
            with pytest.raises(kind):
                connection.execute(sql)


# By the text of an error whose class says nothing: the class that it gets, and a part of its hint.
TEXTS: dict[str, tuple[type[LakeconfError], str]] = {
    "database is locked": (CatalogLockedError, ""),
    "Could not set lock on file": (ConnectionFailed, ""),
    "Catalog Error: Table with name HTTP 404 does not exist!": (UnknownNameError, ""),
    "HTTP Error: HTTP GET error reading 'u' (HTTP 404 Not Found)": (FileMissingError, ""),
    "and creating a new DuckLake is explicitly disabled": (CatalogMissingError, ""),
    "DuckLake catalog version is 0.4, but the extension requires version 1.0.": (CatalogVersionError, ""),
    "Transaction conflict - attempting to delete from table": (CommitConflictError, ""),
    'Unable to connect to Postgres at "": connection refused': (ConnectionFailed, ""),
    'DATA_PATH parameter "a" does not match existing data path in the catalog "b"': (CatalogError, ""),
    "FATAL: password authentication failed for user": (ConnectionFailed, "check `user` and `password`"),
    'FATAL:  database "x" does not exist': (ConnectionFailed, "create the database"),
    "connection to server at h, port 1 failed: Connection refused": (ConnectionFailed, "check `host` and `port`"),
    "(HTTP 403 Forbidden) InvalidAccessKeyId: x": (StorageError, "check key_id, secret and session_token"),
    "(HTTP code 403) SignatureDoesNotMatch: x": (StorageError, "check key_id, secret and session_token"),
    "(HTTP code 400) ExpiredToken: The provided token has expired.": (StorageError, "renew the credentials, which"),
    "main/conflicts/x.parquet: Forbidden (HTTP code 403) AccessDenied": (StorageError, "permit this on the bucket"),
    "(HTTP code 404) NoSuchBucket: x": (StorageError, "create the bucket"),
    "Request returned HTTP 503 for HTTP PUT to 'u'": (StorageError, "try again later"),
    "Could not connect to server error for HTTP PUT to 'u'": (StorageError, "check `endpoint`"),
    "SSL peer certificate or SSH remote key was not OK error for HTTP PUT to 'u'": (StorageError, "ca_cert_file"),
    "Could not write file: No space left on device": (StorageError, "free space"),
    "Unique file handle conflict: Cannot attach": (ConnectionFailed, "close the lake with this catalog first"),
    "attempt to write a readonly database": (CatalogError, "cannot be written"),
}


def test_class_and_hint_follow_the_text_if_the_duckdb_class_is_ambiguous() -> None:
    for text, (expected, hint) in TEXTS.items():
        error = translated(duckdb.Error(text))
        assert (type(error), hint in (error.hint or "")) == (expected, True), text


def test_commit_error_says_whether_a_concurrent_commit_came_first() -> None:
    for reason, overtaken in (
        ("Exceeded the maximum retry count of 0: duplicate key violates primary key constraint", True),
        ("Exceeded the maximum retry count of 0: disk is full", False),
        ("duplicate key violates primary key constraint", False),
    ):
        error = translated(duckdb.Error(f"TransactionContext Error: Failed to commit DuckLake transaction: {reason}"))
        assert isinstance(error, CommitError)
        assert error.overtaken is overtaken


def test_rejected_cast_value_raises_a_schema_error() -> None:
    with connect() as connection:
        with pytest.raises(SchemaError, match=r"\Athe column 'a' is too long") as raised:
            connection.rows(f"SELECT error('{REFUSED_VALUE} the column ''a'' is too long')")
        assert raised.value.hint == "change the values or the type of the column"
        with pytest.raises(UnknownNameError):  # a statement that quotes the marker keeps its own error
            connection.rows(f"SELECT '{REFUSED_VALUE} x' FROM nowhere")


def test_secrets_are_removed_from_an_error_and_its_causes_and_undeclared_passwords_too() -> None:
    with connect([Secret("hunter2")]) as connection, pytest.raises(QueryError) as raised:
        connection.execute("SELECT hunter2")
    assert "hunter2" not in f"{raised.value!r} {raised.value.__cause__!r} {raised.value.__context__!r}"
    for text in ("host=h password=sekret dbname=d", "host=h password='sek ret' dbname=d", "postgres://lake:sekret@h/d"):
        assert "sek" not in str(translated(duckdb.Error(f"could not connect: {text}")))


def test_extensions_are_loaded_from_their_wheels() -> None:
    with connect() as connection:
        load_extension(connection, "ducklake")
        load_extension(connection, "ducklake")
        loaded = connection.rows(
            "SELECT install_path FROM duckdb_extensions() WHERE loaded AND extension_name = 'ducklake'"
        )
    assert len(loaded) == 1


def test_missing_wheel_and_unreachable_server_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "_extension_wheel", lambda _name: None)
    with connect() as connection:
        connection.execute("SET custom_extension_repository = 'http://127.0.0.1:9'")
        connection.execute(f"SET extension_directory = '{tmp_path}'")
        with pytest.raises(ConnectionFailed, match=r"'ducklake'(.|\n)*lakeconf\[bundled\]"):
            load_extension(connection, "ducklake")


def test_query_interrupt_raises_keyboard_interrupt() -> None:
    """duckdb raises `RuntimeError`, which the caller's `except Exception` would treat as a failed write."""
    with pytest.raises(KeyboardInterrupt), translated_errors():
        raise RuntimeError("Query interrupted")
    with pytest.raises(RuntimeError, match="of another kind"), translated_errors():
        raise RuntimeError("of another kind")
    text = '{"exception_type":"Invalid","exception_message":"KeyboardInterrupt: <EMPTY MESSAGE>"}'
    with (
        connect() as connection,
        pytest.raises(KeyboardInterrupt),
        translated_errors(),
        connection.errors_with_places(),
    ):
        raise duckdb.InvalidInputException(text)


SCHEMA = pa.schema([("id", pa.int64())])


def frames(error: BaseException) -> list[Any]:
    """Frames of Arrow and Polars whose code raises an error."""

    def batches(*_: object) -> Iterator[Any]:
        yield pa.record_batch([pa.array([1])], schema=SCHEMA)
        raise error

    def polars(*_: object) -> Iterator[pl.DataFrame]:
        yield pl.DataFrame({"id": [1]})
        raise error

    return [
        pa.RecordBatchReader.from_batches(SCHEMA, batches()), register_io_source(polars, schema={"id": pl.Int64})
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "text"),
    [(KeyboardInterrupt(), "KeyboardInterrupt: <EMPTY MESSAGE>"), (SystemExit(3), "SystemExit: 3")],
    ids=["interrupt", "exit"],
)
def test_interrupt_and_exit_in_a_frame_are_raised(error: BaseException, text: str) -> None:
    """The frame's code runs inside the query, so duckdb reports them as a query error."""
    for frame in frames(error):
        with connect() as connection:
            connection.register("frame", frame)
            with pytest.raises(type(error)) as raised:
                connection.rows("SELECT sum(id) FROM frame")
            assert getattr(raised.value, "code", None) == getattr(error, "code", None)
            with pytest.raises(LakeconfError):
                connection.rows(f"SELECT CAST('{text}' AS INTEGER)")
            assert connection.rows("SELECT 1") == [(1,)]


def test_error_omits_the_statement_that_postgres_rejected_and_keeps_the_reason() -> None:
    refused = (
        "Failed to commit: Failed to execute query \"INSERT INTO ducklake_data_file VALUES ('AESKEY==', 3)\": ERROR:  "
        "permission denied for table \"ducklake_data_file\"\nLINE 1: INSERT INTO x VALUES ('AESKEY=='\n        ^\n"
        "DETAIL:  Failing row contains (AESKEY==).\n"
    )
    statement = 'Failed to execute query "INSERT INTO t VALUES (\'AESKEY==": database is locked\', 3)": '
    closed = "server closed the connection unexpectedly\n\tThis probably means"
    unique = "UNIQUE constraint failed: ducklake_snapshot.snapshot_id"
    for text, kind, shown in (
        (refused, LakeconfError, "permission denied"),
        (refused.replace("ERROR:", "FEHLER:"), LakeconfError, ""),
        (f"{statement}database is locked", CatalogLockedError, "database is locked"),
        (f"{statement}disk I/O error", CatalogError, "disk I/O error"),
        (f"{statement}{closed}", ConnectionFailed, "server closed"),
        (f"{statement}{unique}", LakeconfError, "ducklake_snapshot.snapshot_id"),
        (f"{statement}AESKEY== is odd", LakeconfError, "…"),
    ):
        error = translated(duckdb.Error(text))
        assert isinstance(error, kind)
        assert shown in error.message
        assert "AESKEY" not in f"{error} {error.__cause__}"


def test_all_duckdb_access_goes_through_the_connection() -> None:
    allowed = {"lakeconf.connection.connection"}
    around = [
        f"{name}:{node.lineno}"
        for name, path in sources().items()
        if name not in allowed
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in {"native", "_native"}
    ]
    assert around == []


def test_slow_query_prints_no_progress_bar() -> None:
    """DuckDB prints one to stdout, where it would mix with a command's JSON, if Python runs no script file."""
    script = """
import duckdb
from lakeconf.connection.connection import connect
from lakeconf.connection.connection import SharedConnection
setting = "SELECT current_setting('enable_progress_bar')"
print(duckdb.connect().execute(setting).fetchall())
with connect() as connection:
    shared = SharedConnection(connection.cursor(), "SELECT 1")
    every = (connection, connection.cursor(), shared, shared.cursor())
    print(*(one.rows(setting) for one in every))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    by_duckdb, by_lakeconf = done.stdout.splitlines()
    assert by_duckdb == "[(True,)]", "otherwise this test proves nothing"
    assert by_lakeconf == "[(False,)] [(False,)] [(False,)] [(False,)]"


def test_rows_in_batches() -> None:
    with connect() as connection:
        batches = list(connection.batches("FROM range(5000)", 2048))
        assert [batch.num_rows for batch in batches] == [2048, 2048, 904]
        with pytest.raises(QueryError):
            list(connection.batches("SELECT nothing", 1))


def test_extension_that_cannot_be_downloaded_is_named_with_a_fix(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute("SET custom_extension_repository = 'http://127.0.0.1:1'")
        connection.execute(f"SET extension_directory = '{tmp_path}'")
        for statement in ("FROM read_csv('https://127.0.0.1:1/x.csv')", "INSTALL httpfs", "LOAD httpfs"):
            with pytest.raises(ConnectionFailed, match="httpfs") as caught, translated_errors():
                connection.execute(statement)
            assert str(caught.value.hint).startswith("run INSTALL for this extension in DuckDB")


# The modules that translate the errors of another program, and that program.
TRANSLATORS = {
    "lakeconf.connection.duckdb_errors": "DuckDB",
    "lakeconf.catalog.queries.stored_queries": "DuckDB: the name of a table that does not exist",
    "lakeconf.config.file": "tomllib, which has no codes",
    "lakeconf.config.read_store": "backends, also of third parties: which key of the configuration an error names",
    "lakeconf.pipelines.models.body": "DuckDB: the place of an error in a query",
    "lakeconf.engines.spark.write.storage": "Spark",
}
OF_SQL = {"message", "args", "strerror", "__notes__"}
MATCHES = {"search", "match", "fullmatch", "findall", "finditer", "startswith", "endswith", "removeprefix", "count"}
MATCHES |= {"removesuffix", "partition", "rpartition", "find", "index"}


def errors_of(function: ast.AST) -> set[str]:
    """Names of exceptions: those of handlers, and of parameters annotated with an exception type."""
    names = {node.name for node in ast.walk(function) if isinstance(node, ast.ExceptHandler) and node.name}
    for node in ast.walk(function):
        if isinstance(node, ast.arg) and node.annotation is not None:
            type_ = ast.unparse(node.annotation)
            if type_.split(" ")[0].split(".")[-1].endswith(("Error", "Exception")):
                names.add(node.arg)
    return names


def is_text(node: ast.AST, errors: set[str], texts: set[str]) -> bool:
    """True if a part of an expression is the text of an exception."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and inner.attr in OF_SQL and ast.unparse(inner.value) in errors:
            return True
        shown = inner.args if isinstance(inner, ast.Call) and ast.unparse(inner.func) in ("str", "repr") else []
        if any(ast.unparse(argument) in errors for argument in shown):
            return True
        if isinstance(inner, ast.Name) and inner.id in texts:
            return True
    return False


def matched_texts(source: str) -> Iterator[int]:
    """Line numbers of code that matches the text of an exception."""
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        errors, texts = errors_of(function), set[str]()
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and is_text(node.value, errors, texts):
                texts |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        for node in ast.walk(function):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn | ast.Eq | ast.NotEq):
                parts = [node.left, *node.comparators]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MATCHES:
                parts = [node.func.value, *node.args]
            else:
                continue
            if any(is_text(part, errors, texts) for part in parts):
                yield node.lineno


def test_errors_are_distinguished_by_type() -> None:
    found = {name: list(matched_texts(path.read_text())) for name, path in sources().items() if name not in TRANSLATORS}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_the_check_finds_text_matching_and_permits_showing_a_text() -> None:
    tried = "try:\n        work()\n    except {} as error:\n        {}"
    for body in (
        tried.format("ValueError", "if 'locked' in str(error): pass"),
        tried.format("LakeconfError", "if error.message.endswith('x'): pass"),
        tried.format("LakeconfError", "text = error.message\n        PATTERN.search(text)"),
        "return bool(re.search('404', str(found)))",
        "return found.args[0] == '404'",
    ):
        assert list(matched_texts(f"def run(found: LakeconfError) -> bool:\n    {body}\n")), body
    shown = "return f'failed: {error.message}' + str(error).splitlines()[0]"
    assert list(matched_texts(f"def run(error: LakeconfError) -> str:\n    {shown}\n")) == []


def failing(connection: Connection, sql: str) -> LakeconfError:
    relation = connection.relation(sql)
    with pytest.raises(LakeconfError) as caught, connection.errors(), connection.errors_with_places():
        relation.query("lakeconf_rows", "CREATE TABLE memory.main.lakeconf_t AS SELECT a FROM lakeconf_rows")
    return caught.value


def test_place_is_that_in_the_relation_and_the_message_has_no_statement() -> None:
    with connect() as connection:
        error = failing(connection, "SELECT 'é', CAST('x' || range AS INT) AS a FROM range(3)")
        assert error.message.startswith("Conversion Error: Could not convert string 'x")
        assert "lakeconf_t" not in str(error)
        assert "\n" not in error.message
        assert place_of(error) == len("SELECT 'é', ".encode())
        # Other errors are as before.
        with pytest.raises(duckdb.Error, match="LINE 1: SELECT nope"):
            connection.native.execute("SELECT nope")
        error = failing(connection, "SELECT 9223372036854775807 + range AS a FROM range(3)")
    assert place_of(error) is place_of(ValueError()) is None
    assert error.message.startswith("Out of Range Error: Overflow")


def test_errors_in_json() -> None:
    placed = 'Parser Error: {"exception_message":"at {a}: b","position":"12"}'
    assert reported(placed) == Reported("Parser Error", "at {a}: b", 12)
    for text in ('Error: {"exception_message":"no"}', 'Error: {"exception_message":"no","position":"x"}'):
        assert reported(text) == Reported("Error", "no", None)
    for text in ("Binder Error: x", 'Error: {"position": "1"}', "Error: {}", "Error: {[", "{1}"):
        assert reported(text) is None


_FATAL = """
import pathlib, sys, duckdb
from local_stores import store_of
from lake_parts import session_of
with store_of(pathlib.Path(sys.argv[1]), data_inlining_row_limit=10).open() as lake:
    lake.create_table("t", {"id": "INTEGER"})
    writer = session_of(lake).writer.native
    try:
        for sql in (
            "BEGIN",
            "INSERT INTO dev.t VALUES (1)",
            "ALTER TABLE dev.t ADD COLUMN q INTEGER[]",
            "INSERT INTO dev.t VALUES (2, [1])",
            "COMMIT",
        ):
            writer.execute(sql)
    except duckdb.Error as error:
        print(str(error).splitlines()[0])
print("closed")
"""


def test_a_lake_is_closed_after_a_fatal_error(tmp_path: Path) -> None:
    """DuckDB would end the process. If the statements are no error any more, a new version has mended this one."""
    run = subprocess.run(
        [sys.executable, "-c", _FATAL, tmp_path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout.splitlines()) == (
        0,
        ["INTERNAL Error: Missing stats when merging inlined data", "closed"],
    ), run.stderr
