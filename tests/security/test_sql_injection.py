"""Arbitrary text in any field changes no statement; secrets of other stores are masked too."""

from __future__ import annotations

import os
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from strength import PROVE

from lakeconf.backends.metadata.file_catalogs import DuckDBMetadata, SQLiteMetadata
from lakeconf.backends.metadata.motherduck import MotherDuckMetadata
from lakeconf.backends.metadata.postgres import PostgresMetadata
from lakeconf.backends.storage.local import LocalStorage
from lakeconf.backends.storage.object_storage import GCSStorage, R2Storage, S3Storage
from lakeconf.config.config import init, validate
from lakeconf.connection.connection import Connection, load_extension
from lakeconf.errors import ConfigError, LakeconfError
from lakeconf.inspection.read_only_sql import query
from lakeconf.logs import escaped
from lakeconf.secret import FromVariable, Secret, Settings
from lakeconf.sql import CreateSecret, bind
from lakeconf.store import Store, for_reading

if TYPE_CHECKING:
    from lakeconf.backends.backend import Backend, MetadataBackend, StorageBackend


NASTY = [
    *("'", '"', ";", "--", "/*", "*/", "\\", "$$", "?", "*", "[", "$1", "{", "}"),
    "'); DROP TABLE t; --",
    "é",
    "🦆",
]


def texts(nasty: list[str], *without: Any) -> st.SearchStrategy[str]:
    characters = st.characters(exclude_characters="\0", exclude_categories=["Cs", *without])
    other = st.text(characters, min_size=1, max_size=4)
    return st.lists(st.sampled_from(nasty) | other, min_size=1, max_size=6).map("".join)


# Fields that are not secret accept no control characters: see `test_control_characters_are_rejected`.
TEXT = texts(NASTY, "Cc", "Cf", "Zl", "Zp").filter(lambda text: escaped(text) == text)
SECRET_TEXT = texts([*NASTY, "\n", "\r", "\t"])
SECRET_FIELDS = ("key_id", "secret", "session_token", "password")

BUCKET = {"bucket": "b", "prefix": "p", "key_id": "k", "secret": "s", "session_token": "t", "region": "r"}
METADATA: dict[type[MetadataBackend], dict[str, Any]] = {
    DuckDBMetadata: {"uri": "/lake/c", "metadata_schema": "m"},
    SQLiteMetadata: {"uri": "/lake/c"},
    PostgresMetadata: {"host": "h", "database": "d", "user": "u", "password": "p", "metadata_schema": "m"},
    MotherDuckMetadata: {"database": "d", "region": "r"},
}
STORAGE: dict[type[StorageBackend], dict[str, Any]] = {
    LocalStorage: {"path": "/lake/d"},
    S3Storage: {**BUCKET, "endpoint": "e"},
    R2Storage: {**BUCKET, "account_id": "a"},
    GCSStorage: BUCKET,
}


def backend(model: type[Backend], values: dict[str, Any], texts: st.DataObject | None, parameter: str | None) -> Any:
    """A backend with the default sample value in each field, or with arbitrary text."""
    fields: dict[str, Any] = {
        name: FromVariable(
            texts.draw(SECRET_TEXT if name in SECRET_FIELDS else TEXT, label=name) if texts else value, "X"
        )
        for name, value in values.items()
    }
    if texts and "bucket" in fields:
        fields["bucket"] = fields["bucket"].replace("/", "")
    if parameter is not None and "secret_parameters" in model.model_fields:
        fields["secret_parameters"] = {"x": parameter, "token": FromVariable(parameter, "Y"), "m": {"k": parameter}}
    try:
        return model.model_validate(fields)
    except ValidationError:
        assume(False)  # noqa: FBT003 - what a model refuses makes no SQL


def store_of(
    pair: tuple[type[MetadataBackend], type[StorageBackend]], texts: st.DataObject | None, text: str, alias: str
) -> Store:
    metadata, storage = (
        backend(model, values[model], texts, text)  # type: ignore[index]
        for model, values in zip(pair, (METADATA, STORAGE), strict=True)
    )
    options: dict[str, Any] = {"meta_x": text, "meta_token": FromVariable(text, "Z"), "snapshot_time": "1"}
    if isinstance(metadata, MotherDuckMetadata):
        return Store("prod", metadata, storage)
    return Store("prod", metadata, storage, alias=alias, attach_options=options)


def kinds(store: Store, rendering: str) -> list[Any]:
    if rendering == "bound":
        text = "\n".join(bind(statement)[0] for statement in store.statements)
    else:
        text = "\n".join(store.preview_sql(show_secrets=rendering == "revealed", portable=rendering == "portable"))
    if text.startswith("LOAD ducklake;\nLOAD motherduck") or "INSTALL motherduck" in text:
        text = text.replace("CREATE DATABASE IF NOT EXISTS ", "ATTACH 'md:' AS ")
    return [statement.type for statement in duckdb.extract_statements(text)]


@pytest.mark.slow
@pytest.mark.parametrize("metadata", METADATA)
@given(data=st.data(), storage=st.sampled_from(list(STORAGE)), text=TEXT, alias=TEXT)
def test_text_in_a_field_does_not_change_the_statements(
    metadata: Any, storage: Any, data: st.DataObject, text: str, alias: str
) -> None:
    assume((metadata, storage) != (MotherDuckMetadata, LocalStorage))
    usual = store_of((metadata, storage), None, "x", "prod")
    fuzzed = store_of((metadata, storage), data, text, alias)
    for rendering in ("bound", "masked", "revealed"):
        assert kinds(fuzzed, rendering) == kinds(usual, rendering)
    try:
        portable = kinds(fuzzed, "portable")
    except LakeconfError as error:
        # Two fields have the same text, and one of them is secret.
        assert "a portable script would contain its value" in str(error)  # noqa: PT017
    else:
        assert portable == kinds(usual, "portable")


@pytest.mark.parametrize("model", [*METADATA, *STORAGE])
def test_control_characters_are_rejected(model: type[Backend]) -> None:
    samples: dict[Any, dict[str, Any]] = {**METADATA, **STORAGE}
    fields = samples[model]
    model.model_validate(fields)
    for name in fields.keys() - set(SECRET_FIELDS):
        for character in ("\n", "\r", "\t", "\x1b", "\x7f", "\u2028"):
            with pytest.raises(ValidationError):
                model.model_validate({**fields, name: f"a{character}b"})
    with pytest.raises(LakeconfError, match="control characters"):
        Store("prod", SQLiteMetadata(uri="/c"), LocalStorage(path="/d"), attach_options={"snapshot_time": "a\nb"})


@pytest.fixture(scope="module")
def connection() -> Any:
    with duckdb.connect(config={"allow_unredacted_secrets": "true"}) as con:
        for extension in ("ducklake", "postgres_scanner", "httpfs"):
            load_extension(Connection(con), extension)
        yield con


def read_back(con: duckdb.DuckDBPyConnection, statement: CreateSecret) -> str:
    """The secret as DuckDB stores it, after lakeconf ran the statement."""
    Connection(con).run(statement)
    query = "SELECT secret_string FROM duckdb_secrets(redact => false) WHERE name = ?"
    ((text,),) = con.execute(query, [statement.name]).fetchall()
    assert isinstance(text, str)
    return text


@pytest.mark.slow
@given(data=st.data(), model=st.sampled_from([S3Storage, R2Storage, GCSStorage]))
@settings(suppress_health_check=list(HealthCheck))
def test_duckdb_stores_field_texts_unchanged(model: Any, connection: Any, data: st.DataObject) -> None:
    metadata = backend(PostgresMetadata, METADATA[PostgresMetadata], data, None)
    storage = backend(model, STORAGE[model], data, None)
    for statement in Store("prod", metadata, storage, alias="prod").statements:
        if not isinstance(statement, CreateSecret) or statement.type == "ducklake":
            continue
        found = read_back(connection, statement)
        of_backend = metadata if statement.type == "postgres" else storage
        names = {"host", "database", "user", "password", "key_id", "secret", "session_token", "region"}
        for name in names & set(type(of_backend).model_fields):
            value = getattr(of_backend, name)
            text = value.reveal() if hasattr(value, "reveal") else value
            assert f"{'dbname' if name == 'database' else name}={text}" in found


FILE_NAME = TEXT.map(lambda text: text.translate({ord("/"): None, ord("\\"): None})).filter(
    lambda name: name not in ("", ".", "..") and len(name.encode()) < 100
)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "magic"), [(SQLiteMetadata, b"SQLite"), (DuckDBMetadata, b"DUCK")])
@given(name=FILE_NAME, data_name=FILE_NAME, alias=TEXT)
@settings(max_examples=15 if PROVE else 5)
@example(name="a'b; --\".db", data_name="it's", alias='x"; DROP TABLE t; --')
@example(name="a\\b.db", data_name="*", alias="x")
@example(name="a?mode=memory#x%20.db", data_name="%41", alias="select")
def test_lake_is_created_at_its_configured_paths(
    model: Any, magic: bytes, name: str, data_name: str, alias: str
) -> None:
    assume(alias.lower() not in ("main", "memory", "system", "temp"))
    with tempfile.TemporaryDirectory() as folder:
        catalog, data_path = os.path.join(folder, "c", name), os.path.join(folder, "d", data_name)
        store = Store("prod", model(uri=catalog), LocalStorage(path=data_path), alias=alias)
        with store.connect() as con:
            con.execute("CREATE TABLE t AS SELECT 42 AS answer")
            assert con.execute("SELECT current_database(), answer FROM t").fetchall() == [(alias, 42)]
        assert [path.name for path in Path(folder, "c").iterdir()] == [name]
        assert magic in Path(catalog).read_bytes()[:16]
        assert list(Path(data_path).rglob("*.parquet"))


def test_option_names_cannot_inject_sql() -> None:
    for key in ("meta_x) --", "meta_x', READ_ONLY", "Meta_X", "meta_é"):
        with pytest.raises(LakeconfError, match="letters, digits and underscores"):
            Store("dev", SQLiteMetadata(uri="/c"), LocalStorage(path="/d"), attach_options={key: "x"})


PLANTED = "hunter2-planted"
FAILING = f"SELECT error('{PLANTED}') AS name"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    metadata, storage = SQLiteMetadata(uri=str(tmp_path / "c.sqlite")), LocalStorage(path=str(tmp_path / "data"))
    made = Store("dev", metadata, storage, hidden=[Secret(PLANTED)])
    with made.open() as lake:
        lake.create_table("t", {"id": "BIGINT"})
    return made


def test_errors_mask_the_secrets_of_other_stores(store: Store) -> None:
    assert for_reading(store).secrets == store.secrets
    with store.open() as lake:

        def audited() -> None:
            with lake.transaction() as transaction:
                transaction.table("t").append(pa.table({"id": [1]}))
                transaction.audit("one", FAILING)

        for use in (audited, lambda: query(store, FAILING), lambda: lake.sql(f'SELECT "{PLANTED}" FROM t')):
            with pytest.raises(LakeconfError) as raised:
                use()
            assert (PLANTED in str(raised.value), "***" in str(raised.value)) == (False, True)


def test_names_and_values_of_settings_mask_secrets() -> None:
    settings = Settings(
        {f"fs.s3a.bucket.{PLANTED}.secret.key": Secret(PLANTED), "path": f"s3a://{PLANTED}/", "r": "eu"}
    )
    assert PLANTED not in f"{settings} {settings!r}"
    assert repr(settings) == "{'fs.s3a.bucket.***.secret.key': '***', 'path': 's3a://***/', 'r': 'eu'}"
    assert settings["path"] == f"s3a://{PLANTED}/"


def test_invalid_toml_error_shows_no_text_of_the_file(tmp_path: Path) -> None:
    for line in (
        f'password = "{PLANTED}',
        f"password = {PLANTED}",
        f'password = "{PLANTED}" "again"',
        f'password = "{PLANTED}\\q"',
        f'{PLANTED} "x"',
        f"password = ['{PLANTED}'",
        f'password = "{PLANTED}"\npassword = "{PLANTED}"',
        f'"{PLANTED}" = 1\n"{PLANTED}" = 2',
        f"[{PLANTED}",
        f"[a.{PLANTED}]\n[a.{PLANTED}]",
    ):
        (tmp_path / "lakeconf.toml").write_text(f"[stores.dev.metadata_backend]\n{line}\n")
        (problem,) = validate(tmp_path)
        assert problem.line is not None
        assert PLANTED not in str(problem)


@pytest.mark.parametrize("end", [b"", b"\xff"])
def test_local_variables_of_an_invalid_toml_traceback_contain_no_text(end: bytes, tmp_path: Path) -> None:
    text = f'[stores.dev.metadata_backend]\npassword = "{PLANTED}'
    (tmp_path / "lakeconf.toml").write_bytes(text.encode() + end)
    with pytest.raises(ConfigError) as raised:
        init(tmp_path)
    error: BaseException | None = raised.value
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if "lakeconf" in frame.f_code.co_filename.split("/"):
                assert PLANTED not in repr([*frame.f_locals.values()]) or frame.f_code.co_name.startswith("test_")
        error = error.__context__
