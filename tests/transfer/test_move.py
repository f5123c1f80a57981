"""A moved lake is equal as a whole, on all kinds of catalogs and storage, and what a move refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from local_stores import new_store, place_of
from strength import in_prove
from whole_lakes import everything, fill

from lakeconf.ducklake import MARKER, MOVING
from lakeconf.errors import (
    CatalogChangedError,
    CatalogError,
    CatalogLostError,
    CommitError,
    LakeconfError,
    StorageError,
    UnsupportedError,
)
from lakeconf.guard import locks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakeconf import Store

# Each pair of catalogs and each pair of storages once.
PAIRS = [
    (("sqlite", "local"), ("postgres", "s3")),
    (("postgres", "s3"), ("duckdb", "local")),
    (("duckdb", "local"), ("sqlite", "local")),
    *in_prove(
        [
            (("sqlite", "s3"), ("sqlite", "azure")),
            (("sqlite", "local"), ("duckdb", "azure")),
            (("duckdb", "azure"), ("duckdb", "s3")),
            (("duckdb", "azure"), ("postgres", "local")),
            (("postgres", "azure"), ("sqlite", "azure")),
            (("postgres", "s3"), ("postgres", "s3")),
        ]
    ),
]


def made(request: pytest.FixtureRequest, folder: Path, name: str, end: tuple[str, str]) -> Store:
    """A store without a lake."""
    return new_store(request, folder, name, *end)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_moved_lake_is_equal_and_continues(
    first: tuple[str, str], second: tuple[str, str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source, target = made(request, tmp_path, "laptop", first), made(request, tmp_path, "server", second)
    fill(source)
    before = everything(source)
    progress: list[tuple[int, int]] = []
    plan = source.plan_move(target)
    assert source.move_to(target, progress=lambda *done: progress.append(done)) == plan
    assert (progress[-1], len(progress)) == ((plan.bytes, plan.bytes), plan.files)
    assert everything(target) == before
    with target.open() as lake:
        counts = len(lake.table("raw.events").scan().collect("pyarrow"))
        lake.table("raw.events").append(
            lake.sql(
                "SELECT 7000::HUGEINT AS id, 'x' AS title, NULL::DATE AS day, "
                "NULL::STRUCT(x INTEGER, y VARCHAR, z BOOLEAN) AS p"
            )
        )
        lake.table("raw.events").delete("id < 10")
        lake.maintenance.compact()
        assert lake.snapshot_id > plan.snapshot_id
        ids: Any = lake.sql(
            "SELECT count(*), count(DISTINCT rowid), count(*) FILTER (id < 10) FROM raw.events"
        ).to_native()
        assert ids.fetchall() == [(counts + 1 - 7, counts + 1 - 7, 0)]
    assert everything(source) == before


SHORT = (
    "CREATE TABLE t AS SELECT range AS id FROM range(100)",
    "DELETE FROM t WHERE id < 40",
    "INSERT INTO t VALUES (500)",
)


@pytest.fixture
def ends(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Store, Store]:
    """A small lake on SQLite, and an empty store."""
    local = ("sqlite", "local")
    source, target = made(request, tmp_path, "laptop", local), made(request, tmp_path, "server", local)
    fill(source, SHORT)
    return source, target


def tree(folder: Path) -> dict[str, bytes]:
    """The files of a folder, without locks, and without what SQLite makes to read."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size)
    files = (path for path in files if "lakeconf-" not in path.name and not path.name.endswith("-shm"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def ids(store: Store) -> list[Any]:
    with store.connect() as connection:
        return connection.sql("FROM t ORDER BY ALL").fetchall()


def execute(store: Store, *statements: str) -> None:
    """Changes the catalog of a lake itself."""
    with store.replace(attach_options={"metadata_catalog": "catalog"}).connect() as connection:
        for statement in statements:
            connection.execute(statement)


def on_path(name: str, text: str = "") -> Callable[[Store, Store, Path], object]:
    def write(_source: Store, _target: Store, folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)

    return write


def of_another_lake(_: Store, target: Store, folder: Path) -> None:
    (folder / "server" / "data").mkdir()
    (folder / "server" / "data" / MOVING).write_text('{"lake": "another"}')


def without_a_file(_source: Store, _target: Store, folder: Path) -> None:
    next((folder / "laptop" / "data").rglob("*.parquet")).unlink()


def shorter(_source: Store, _target: Store, folder: Path) -> None:
    next((folder / "laptop" / "data").rglob("*.parquet")).write_bytes(b"PAR1")


def linked(_source: Store, _target: Store, folder: Path) -> None:
    """A file of the lake is a link to an equal file elsewhere."""
    file = next((folder / "laptop" / "data").rglob("*.parquet"))
    file.rename(folder / "secret")
    file.symlink_to(folder / "secret")


def linked_target(_source: Store, _target: Store, folder: Path) -> None:
    """A folder of the empty target is a link to the files of the source."""
    (folder / "server" / "data").mkdir()
    (folder / "server" / "data" / "main").symlink_to(folder / "laptop" / "data" / "main")


def linked_marker(_source: Store, _target: Store, folder: Path) -> None:
    (folder / "server" / "data").mkdir()
    (folder / "server" / "data" / MOVING).symlink_to(folder / "nowhere")


def named(path: str) -> Callable[[Store, Store, Path], None]:
    """The catalog names another path of a file."""

    def change(source: Store, _: Store, folder: Path) -> None:
        new = path.format(folder=folder)
        absolute = new.startswith("/")
        execute(source, f"UPDATE catalog.ducklake_data_file SET path = '{new}', path_is_relative = {absolute:d} = 0")

    return change


REFUSED: dict[str, tuple[Callable[[Store, Store, Path], object], type[LakeconfError], str]] = {
    "a lake": (lambda _, target, __: fill(target, SHORT), CatalogError, "'server' is not empty: the catalog"),
    "an empty file as catalog": (on_path("server/catalog"), CatalogError, "is not empty"),
    "a log of a lost catalog": (on_path("server/catalog-wal", "x"), CatalogError, "a lost catalog"),
    "a file": (on_path("server/data/notes.txt"), CatalogError, "has files, such as"),
    "a marker": (on_path(f"server/data/{MARKER}", "{}"), CatalogError, "has files, such as"),
    "a move of another lake": (of_another_lake, CatalogError, "another lake is being moved"),
    "a damaged marker of a move": (on_path(f"server/data/{MOVING}", "{"), CatalogError, "another lake is being moved"),
    "a newer version": (
        lambda source, *_: execute(source, "UPDATE catalog.ducklake_metadata SET value = '1.1' WHERE key = 'version'"),
        CatalogError,
        "version 1.1",
    ),
    "an unknown table": (
        lambda source, *_: execute(source, "CREATE TABLE catalog.ducklake_view_column_tag (a BIGINT)"),
        UnsupportedError,
        "ducklake_view_column_tag",
    ),
    "a missing file": (without_a_file, StorageError, "missing, or have another size"),
    "a damaged file": (shorter, StorageError, "missing, or have another size"),
    "a link": (linked, StorageError, "a link leads to"),
    "a link in the target": (linked_target, CatalogError, "has files, such as .*main"),
    "a link as marker of a move": (linked_marker, CatalogError, "another lake is being moved"),
    "a path above": (named("../../secret"), CatalogError, "which could lead elsewhere"),
    "a path of the source elsewhere": (named("{folder}/laptop/x.parquet"), UnsupportedError, "the target cannot read"),
    "another file of this machine": (named("/etc/hostname"), CatalogError, "another size than in the catalog"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_changes_nothing(name: str, ends: tuple[Store, Store], tmp_path: Path) -> None:
    prepare, error, message = REFUSED[name]
    prepare(*ends, tmp_path)
    before = tree(tmp_path)
    with pytest.raises(error, match=message):
        ends[0].move_to(ends[1])
    assert tree(tmp_path) == before


def stopped(source: Store, target: Store) -> None:
    """A move that ends before the catalog is created."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        source.move_to(target, progress=stop)


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def test_move_continues_only_with_its_catalog(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    source = made(request, tmp_path, "laptop", ("sqlite", "local"))
    target = made(request, tmp_path, "server", (kind, "local"))
    others = [made(request, tmp_path, "other", (kind, "local"))]
    if kind == "postgres":
        backend = target.metadata_backend.model_copy(update={"metadata_schema": "another"})
        others.append(target.replace(metadata_backend=backend))
    fill(source, SHORT)
    stopped(source, target)
    for other in others:
        second = other.replace(storage_backend=target.storage_backend)
        for command in (source.plan_move, source.move_to):
            with pytest.raises(CatalogError, match="is being moved with another catalog"):
                command(second)
    source.move_to(target)
    assert ids(target) == ids(source)


@pytest.mark.parametrize("what", ["folder", "file"])
def test_move_does_not_continue_through_links(what: str, ends: tuple[Store, Store], tmp_path: Path) -> None:
    source, target = ends
    stopped(source, target)
    copied = next((tmp_path / "server" / "data").rglob("*.parquet"))
    moved = copied if what == "file" else copied.parent
    moved.rename(tmp_path / "elsewhere")
    moved.symlink_to(tmp_path / "elsewhere")
    before = tree(tmp_path)
    for command in (source.plan_move, source.move_to):
        with pytest.raises(StorageError, match="a link leads to"):
            command(target)
    assert tree(tmp_path) == before


def test_data_path_itself_may_be_a_link(ends: tuple[Store, Store], tmp_path: Path) -> None:
    source, target = ends
    (tmp_path / "disk").mkdir()
    (tmp_path / "server" / "data").symlink_to(tmp_path / "disk")
    source.move_to(target)
    assert ids(target) == ids(source)
    assert list((tmp_path / "disk").rglob("*.parquet"))


def test_unfinished_markers_do_not_stop_a_move(ends: tuple[Store, Store], tmp_path: Path) -> None:
    source, target = ends
    data = tmp_path / "server" / "data"
    data.mkdir()
    own = [data / f"{name}.{'0a' * 16}" for name in (MARKER, MOVING)]
    for path in own:
        path.write_text("{")
    (data / f"{MOVING}.copy").write_text("{")
    with pytest.raises(CatalogError, match=f"has files, such as .*{MOVING}.copy"):
        source.move_to(target)
    assert all(path.exists() for path in own)
    (data / f"{MOVING}.copy").unlink()
    source.plan_move(target)
    assert all(path.exists() for path in own)
    source.move_to(target)
    assert not any(path.exists() for path in own)


def test_both_ends_must_be_apart(ends: tuple[Store, Store], tmp_path: Path) -> None:
    source, target = ends
    (tmp_path / "link").symlink_to(tmp_path / "laptop")
    for path in ("laptop/data", "laptop/data/below", "laptop", "link/data"):
        storage = target.storage_backend
        assert storage is not None
        inside = target.replace(storage_backend=storage.model_copy(update={"path": str(tmp_path / path)}))
        with pytest.raises(LakeconfError, match="are in each other"):
            source.move_to(inside)
    with pytest.raises(LakeconfError, match="is read-only"):
        source.move_to(target.replace(attach_options={"read_only": True}))
    with pytest.raises(CatalogError, match="no lake yet"):
        target.move_to(source.replace(name="third"))
    assert not (tmp_path / "server" / "data").exists()


def test_writer_is_waited_for_and_kept_out(ends: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = ends
    monkeypatch.setattr(locks, "WAIT_SECONDS", 0.1)
    with source.open() as lake:
        with lake.transaction() as transaction:
            transaction.table("t").append(lake.sql("SELECT 600 AS id"))
            with pytest.raises(CommitError, match="was not free"):
                source.move_to(target)

        def write(*_: object) -> None:
            with pytest.raises(CommitError, match="was not free"):
                lake.table("t").append(lake.sql("SELECT 601 AS id"))

        source.move_to(target, progress=write)
        assert len(ids(target)) == len(ids(source)) == 62


def test_writer_without_locks_stops_the_move_which_then_continues(ends: tuple[Store, Store], tmp_path: Path) -> None:
    source, target = ends

    def write(*_: object) -> None:
        with source.connect() as connection:
            connection.execute("INSERT INTO t SELECT range FROM range(50)")

    with pytest.raises(CatalogChangedError, match="another program wrote snapshot"):
        source.move_to(target, progress=write)
    with pytest.raises(CatalogLostError, match="a lake is being moved to it"):
        target.open()
    assert not (tmp_path / "server" / "catalog").exists()
    plan = source.plan_move(target)
    assert 0 < plan.copied_bytes < plan.bytes
    assert source.move_to(target) == plan
    assert ids(target) == ids(source)
    assert not (tmp_path / "server" / "data" / MOVING).exists()
    with pytest.raises(CatalogError, match="is not empty"):
        source.move_to(target)


def state(store: Store) -> tuple[list[Any], ...]:
    """The options and snapshots of a lake."""
    queries = (
        f"SELECT option_name, value FROM {store.alias}.options() WHERE option_name <> 'data_path' ORDER BY ALL",
        f"SELECT snapshot_id FROM {store.alias}.snapshots() ORDER BY ALL",
    )
    with store.connect() as connection:
        return tuple(connection.sql(query).fetchall() for query in queries)


@pytest.mark.parametrize(
    "change",
    [
        "CALL laptop.set_option('parquet_compression', 'zstd')",
        "CALL ducklake_expire_snapshots('laptop', versions => [1])",
    ],
)
def test_change_without_a_snapshot_stops_the_move(change: str, ends: tuple[Store, Store]) -> None:
    source, target = ends

    def write(*_: object) -> None:
        with source.connect() as connection:
            connection.execute(change)

    with pytest.raises(CatalogChangedError, match="changed options or expired snapshots of laptop"):
        source.move_to(target, progress=write)
    source.move_to(target)
    assert state(target) == state(source)


def test_plan_tells_which_sql_names_the_source(ends: tuple[Store, Store]) -> None:
    source, target = ends
    statements = (
        "CREATE MACRO gone() AS TABLE FROM laptop.main.t",
        "DROP MACRO TABLE gone",
        "CREATE MACRO own() AS TABLE FROM main.t",
        """CREATE MACRO named() AS TABLE FROM "Laptop".main.t""",
        "CREATE MACRO other(t) AS t.laptop",
        "CREATE VIEW v AS FROM laptop.main.t",
    )
    with source.connect() as connection:
        for statement in statements:
            connection.execute(statement)
    assert source.plan_move(target.replace(alias="laptop")).named == ()
    plan = source.plan_move(target)
    assert plan.named == ("macro 'named'",)
    assert str(plan).splitlines()[-1] == "names      macro 'named': create them again, their SQL names laptop"


def test_absolute_paths_follow_and_files_elsewhere_stay(ends: tuple[Store, Store], tmp_path: Path) -> None:
    source, target = ends
    below, elsewhere = tmp_path / "laptop" / "data" / "below.parquet", tmp_path / "elsewhere.parquet"
    with source.connect() as connection:
        for number, path in ((7, below), (8, elsewhere)):
            connection.execute(f"COPY (SELECT {number}::BIGINT AS id) TO '{path}'")
            connection.execute(f"CALL ducklake_add_data_files('laptop', 't', '{path}')")
    rows = ids(source)
    plan = source.move_to(target)
    assert plan.outside == (str(elsewhere),)
    assert str(plan).splitlines()[-1].endswith(str(elsewhere))
    below.unlink()
    assert ids(target) == rows


def test_data_path_that_was_overridden_needs_no_override(ends: tuple[Store, Store], tmp_path: Path) -> None:
    source, target = ends
    (tmp_path / "laptop" / "data").rename(tmp_path / "laptop" / "moved")
    storage = source.storage_backend
    assert storage is not None
    moved = source.replace(
        storage_backend=storage.model_copy(update={"path": str(tmp_path / "laptop" / "moved")}),
        attach_options={"override_data_path": True},
    )
    moved.move_to(target)
    assert ids(target) == ids(moved)


@pytest.mark.parametrize("second", ["sqlite", pytest.param("duckdb", marks=pytest.mark.prove)])
def test_encrypted_lake_stays_encrypted_and_private(
    second: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source, target = (made(request, tmp_path, name, (second, "local")) for name in ("laptop", "server"))
    source = source.replace(attach_options={"encrypted": True})
    fill(source, SHORT)
    with pytest.raises(UnsupportedError, match="is encrypted, and stays so"):
        source.plan_move(target.replace(attach_options={"encrypted": False}))
    source.move_to(target)
    assert ids(target) == ids(source)
    assert (tmp_path / "server" / "catalog").stat().st_mode & 0o777 == 0o600
    assert {path.read_bytes()[:4] for path in (tmp_path / "server" / "data").rglob("*.parquet")} == {b"PARE"}


def test_lake_cannot_become_encrypted(ends: tuple[Store, Store], tmp_path: Path) -> None:
    source, target = ends
    for command in (source.plan_move, source.move_to):
        with pytest.raises(UnsupportedError, match="is not encrypted, and stays so"):
            command(target.replace(attach_options={"encrypted": True}))
    assert not (tmp_path / "server" / "data").exists()
    source.move_to(target)


@pytest.mark.slow
def test_text_that_catalogs_store_in_other_ways(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    names = ("laptop", "phone", "server")
    kinds = ("duckdb", "sqlite", "postgres")
    stores = [made(request, tmp_path, name, (kind, "local")) for name, kind in zip(names, kinds, strict=True)]
    values = "{{'x': 'it''s', 'y': ['NULL', '\"', NULL]}}, MAP {{'': 'a=b'}}, 'it''s \\ ü', '\\x00\\xFF'::BLOB"
    create = "CREATE TABLE t (p STRUCT(x VARCHAR, y VARCHAR[]), m MAP(VARCHAR, VARCHAR), s VARCHAR, b BLOB)"
    fill(stores[0], (create, f"INSERT INTO t VALUES ({values}), ({values.replace('ü', 'é')})"))
    rows = ids(stores[0])
    for source, target in (stores[:2], stores[1:]):
        source.move_to(target)
        assert ids(target) == rows
    fill(stores[0], ("INSERT INTO t (m) VALUES (MAP {{chr(0): 'a'}})",))
    again = made(request, tmp_path, "again", ("postgres", "local"))
    with pytest.raises(UnsupportedError, match="ducklake_inlined_data_1_1 cannot be stored in postgres"):
        stores[0].move_to(again)
    with pytest.raises(CatalogLostError, match="a lake is being moved to it"):
        again.open()


@pytest.mark.slow
def test_lake_that_moved_to_azure_and_back_is_read_on_spark(
    ends: tuple[Store, Store], tmp_path: Path, request: pytest.FixtureRequest, classic_session: Any
) -> None:
    source, target = ends
    container = made(request, tmp_path, "cloud", ("sqlite", "azure"))
    source.move_to(container)
    container.move_to(target)
    assert ids(source) == ids(container) == ids(target)
    place = place_of(container, tmp_path)
    with pytest.raises(CatalogError, match="there is no backup"):
        container.plan_restore_lake(f"{place}/none")
    container.plan_restore_lake(container.back_up(place).path)
    with target.open(classic_session) as lake:
        read = sorted(row["id"] for row in lake.table("t").to_arrow().to_pylist())
    assert [(number,) for number in read] == ids(source)
