"""A branch reads the tables of another lake at one snapshot, which that lake keeps; and what is refused."""

from __future__ import annotations

import contextlib
import itertools
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from branched_lakes import SHORT, contents, expire_all, lake_and_branch, rows_of, state_of, write_configuration
from local_stores import new_store, rows
from strength import in_prove
from whole_lakes import fill

from lakeconf.cli.app import run
from lakeconf.config.config import validate
from lakeconf.errors import (
    BranchError,
    CatalogError,
    CommitConflictError,
    LakeconfError,
    SchemaError,
    SnapshotNotFoundError,
    TableNotFoundError,
    UnsupportedError,
)
from lakeconf.inspection.doctor import repair_marker
from lakeconf.inspection.table_copy import TableCopies
from lakeconf.sql import identifier, qualified

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakeconf import Lake, Store

Pair = tuple["Store", "Store"]
KINDS = [("sqlite", "local"), *in_prove([("duckdb", "local"), ("postgres", "s3")])]


@pytest.fixture
def pair(tmp_path: Path, request: pytest.FixtureRequest) -> Pair:
    """A small lake, and the store of a branch that does not exist yet."""
    prod, branch = lake_and_branch(request, tmp_path)
    fill(prod, SHORT)
    return prod, branch


def pin_file(folder: Path) -> Path:
    (file,) = (folder / "prod" / "data").glob("_lakeconf_pin_*.json")
    return file


@pytest.mark.slow
@pytest.mark.parametrize(("catalog", "storage"), KINDS)
def test_branch_reads_the_lake_at_its_snapshot(
    catalog: str, storage: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    prod, branch = lake_and_branch(request, tmp_path, catalog, storage)
    fill(prod)
    repair_marker(prod, lambda *_: None)
    with prod.open() as lake:
        before = contents(lake)
    made = branch.create_branch()
    assert made.left_out == ()
    with prod.open() as lake:
        lake.table("raw.events").delete("id < 20")
        lake.table("raw.events").evolve(rename={"title": "renamed"}, add={"later": "INTEGER"})
        lake.table("parted").overwrite([{"k": 1, "ts": None}])
        lake.drop_table('main."odd ""name"""')
        expire_all(lake)
        assert [snapshot.snapshot_id for snapshot in lake.snapshots()] == [made.snapshot_id, lake.snapshot_id]
    with branch.open() as lake:
        assert contents(lake) == before
        assert lake.views() == ["raw.titles"]
        assert len(before["raw.events"]) == lake.table("raw.events").count()
        assert rows(lake, "SELECT count(*) FROM parted AT (VERSION => 1)") == [(len(before["main.parted"]),)]
    with branch.connect() as connection:  # plain DuckDB
        assert connection.sql("SELECT count(*) FROM parted").fetchall() == [(len(before["main.parted"]),)]


def test_branch_has_the_views_of_the_lake_and_none_of_its_files(pair: Pair, tmp_path: Path) -> None:
    _, branch = pair
    branch.create_branch()
    with branch.open() as lake:
        assert (lake.tables(), lake.views()) == (["raw.e", "raw.f"], ["raw.v", "raw.w"])
        assert rows(lake, "SELECT n, m FROM raw.v, raw.w") == [(60, 61)]
        lake.table("raw.e").append([{"id": 1000, "name": "own"}])
        assert rows(lake, "SELECT n, m FROM raw.v, raw.w") == [(61, 62)]
        assert all(file.path.startswith(str(tmp_path / "pr")) for file in lake.table("raw.e").files())


def test_branch_can_begin_at_an_older_snapshot(pair: Pair) -> None:
    _, branch = pair
    branch.create_branch(at=3)
    with branch.open() as lake:
        assert (lake.table("raw.e").count(), lake.views()) == (100, [])
    assert branch.create_branch().snapshot_id == branch.create_branch(at=3).snapshot_id == 3
    with pytest.raises(BranchError, match="exists already, at snapshot 3"):
        branch.create_branch(at=4)


def test_snapshot_that_does_not_exist_makes_no_branch(pair: Pair) -> None:
    prod, branch = pair
    with pytest.raises(SnapshotNotFoundError):
        branch.create_branch(at=99)
    assert prod.branches() == []
    with pytest.raises(BranchError, match="is not a branch yet"):
        branch.open()


def test_branches_of_a_lake_are_listed_until_they_are_dropped(pair: Pair, tmp_path: Path) -> None:
    prod, branch = pair
    branch.create_branch()
    ((store, snapshot_id, path),) = [(pin.store, pin.snapshot_id, pin.path) for pin in prod.branches()]
    assert (store, snapshot_id, path) == ("pr", 6, str(pin_file(tmp_path)))
    with branch.open() as lake:
        lake.table("raw.e").append([{"id": 1000, "name": "own"}])
    branch.drop_branch()
    assert prod.branches() == []
    assert not list((tmp_path / "pr" / "data").rglob("*.parquet"))
    with pytest.raises(BranchError, match="is no branch: nothing was dropped"):
        branch.drop_branch()
    branch.create_branch()
    with branch.open() as lake:
        assert lake.table("raw.e").count() == 60


def test_an_open_branch_that_was_made_again_at_another_snapshot_is_refused(pair: Pair) -> None:
    prod, branch = pair
    branch.create_branch()
    with branch.open() as lake:
        branch.drop_branch()
        lake.refresh()
        assert lake.tables() == []
        with prod.open() as other:
            other.table("raw.e").delete("id < 50")
        branch.create_branch()
        lake.refresh()
        for read in (lake.tables, lambda: lake.table("raw.e").count(), lambda: lake.table("raw.e").delete("id = 60")):
            with pytest.raises(BranchError, match="'pr' was dropped and made again at snapshot 7") as refused:
                read()
            assert refused.value.hint == "open the lake again: store.open()"
    with branch.open() as lake:
        assert lake.table("raw.e").count() == 50


def test_a_lake_that_is_no_branch_is_neither_filled_nor_dropped(pair: Pair) -> None:
    _, branch = pair
    with branch.replace(branch_of=None).open() as lake:
        lake.create_table("t", {"id": "BIGINT"}).append([{"id": 1}])
    for call in (branch.create_branch, branch.drop_branch):
        with pytest.raises(BranchError, match=r"is not empty: it has main\.t|is no branch: nothing was dropped"):
            call()
    with branch.replace(branch_of=None).open() as lake:
        assert lake.tables() == ["main.t"]
    with pytest.raises(BranchError, match="is not a branch yet"):
        branch.open()


def test_an_expired_snapshot_is_a_broken_pin(pair: Pair) -> None:
    prod, branch = pair
    branch.create_branch(at=4)
    with prod.connect() as connection:
        connection.execute("CALL ducklake_expire_snapshots('prod', versions => [4])")
    for call in (branch.open, branch.create_branch):
        with pytest.raises(
            BranchError, match="the pin of the branch 'pr' is broken: snapshot 4 does not exist any more"
        ):
            call()
    branch.drop_branch()
    assert prod.branches() == []


def test_a_lost_pin_is_found_and_made_anew(pair: Pair, tmp_path: Path) -> None:
    _, branch = pair
    branch.create_branch()
    pin_file(tmp_path).unlink()
    with pytest.raises(BranchError, match="does not keep snapshot 6"):
        branch.open()
    branch.create_branch()
    with branch.open() as lake:
        assert lake.table("raw.f").count() == 10


def test_another_lake_in_the_place_of_the_lake_is_a_broken_pin(
    pair: Pair, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    _, branch = pair
    branch.create_branch()
    (tmp_path / "other").mkdir()
    other, _ = lake_and_branch(request, tmp_path / "other")
    fill(other, SHORT)
    with pytest.raises(BranchError, match="it was made of another lake"):
        branch.replace(branch_of=other).open()


def test_another_snapshot_with_the_number_is_a_broken_pin(pair: Pair, tmp_path: Path) -> None:
    prod, branch = pair
    backup = prod.back_up(str(tmp_path / "backups"))
    with prod.open() as lake:
        lake.table("raw.f").append([{"id": 70}])
    branch.create_branch()
    prod.restore_lake(backup.path)
    with pytest.raises(BranchError, match="snapshot 7 does not exist any more"):
        branch.open()
    with prod.open() as lake:
        lake.table("raw.f").append([{"id": 71}])
    with pytest.raises(BranchError, match="snapshot 7 is another one, as after a restore"):
        branch.open()


def test_a_damaged_pin_stops_expiry(pair: Pair, tmp_path: Path) -> None:
    prod, branch = pair
    branch.create_branch()
    content = json.loads(pin_file(tmp_path).read_text())
    for damaged in (
        {},
        {**content, "snapshot_id": -1},
        {**content, "snapshot_time": "2024"},
        [1],
        {**content, "lake": 1},
    ):
        pin_file(tmp_path).write_text(json.dumps(damaged))
        with prod.open() as lake, pytest.raises(CatalogError, match="is damaged: it does not say which snapshot"):
            expire_all(lake)
    pin_file(tmp_path).write_text("{")
    with prod.open() as lake, pytest.raises(CatalogError, match="is damaged"):
        expire_all(lake)


def test_what_has_no_place_in_a_branch_is_refused(pair: Pair) -> None:
    _, branch = pair
    branch.create_branch()
    with branch.open() as lake:
        for call, error in (
            (lambda: lake.table("raw.e").history(), UnsupportedError),
            (lambda: lake.table("raw.e").changes(0), UnsupportedError),
            (lambda: lake.drop_view("raw.e"), TableNotFoundError),
            (lambda: lake.create_view("raw.e", "SELECT 1 AS a"), SchemaError),
            (lambda: lake.create_table("raw.e", {"a": "INTEGER"}), SchemaError),
            (lambda: lake.at(version=0).table("raw.e").count(), TableNotFoundError),
            (lambda: lake.at(version=1).table("raw.e").append([{"id": 1, "name": "a"}]), LakeconfError),
        ):
            with pytest.raises(error):
                call()
        assert lake.create_table("raw.e", {"a": "INTEGER"}, if_not_exists=True).count() == 60
        assert lake.snapshot_id == 1
    with branch.open(read_only=True) as lake, pytest.raises(LakeconfError, match="nothing can be written"):
        lake.table("raw.e").append([{"id": 1, "name": "a"}])
    with branch.replace(branch_of=None).open() as lake:
        with pytest.raises(UnsupportedError, match="a table of the lake that this one is a branch of"):
            lake.table("raw.e").count()
        with pytest.raises(LakeconfError):
            lake.sql("FROM raw.e")


def test_views_that_pretend_to_be_of_the_lake_are_refused(pair: Pair) -> None:
    _, branch = pair
    branch.create_branch()
    with branch.connect() as connection:
        connection.execute("CREATE VIEW raw.other AS SELECT * FROM lakeconf_parent.raw.e AT (VERSION => 4)")
        connection.execute("CREATE VIEW raw.all AS SELECT * FROM lakeconf_parent.raw.e, range(2)")
        connection.execute("CREATE VIEW raw.files AS SELECT * FROM read_text('/etc/hosts')")
    with branch.open() as lake:
        for name in ("other", "all", "files"):
            with pytest.raises(LakeconfError, match=r"not a table of the lake|calls read_text|calls range"):
                lake.sql(f"FROM raw.{name}")


def test_tables_may_have_any_name(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    prod, branch = lake_and_branch(request, tmp_path)
    tables = [
        'a"b',
        "select",
        "with space",
        "ünïcode",
        "lakeconf_parent",
        "prod",
        "pr",
        "AT (VERSION => 1)",
        "dot.ted.t",
    ]
    quoted = [qualified(*name) for name in itertools.product(("main", "lakeconf_parent", 'sch"ema'), tables)]
    creations = [f"CREATE TABLE {name} AS SELECT {number} AS id" for number, name in enumerate(quoted)]
    schemas = [f"CREATE SCHEMA {identifier(name)}" for name in ("lakeconf_parent", 'sch"ema')]
    fill(prod, ["BEGIN", *schemas, *creations, "COMMIT"])
    for alias in ("ma", "parent", "ted"):
        with pytest.raises(BranchError, match=r"DuckLake takes a part of .* for the alias"):
            branch.replace(alias=alias).create_branch()
    branch.create_branch()
    with branch.open() as lake:
        assert [rows_of(lake, name) for name in quoted] == [[(number,)] for number in range(len(quoted))]
        lake.table(quoted[0]).append([{"id": 100}])
        lake.table(quoted[-1]).append([{"id": 100}])
        assert rows_of(lake, quoted[0]) == [(0,), (100,)]
        assert len(lake.tables()) == len(quoted)


def test_stores_that_cannot_be_a_branch_are_refused(tmp_path: Path) -> None:
    def store(name: str, **keys: Any) -> dict[str, Any]:
        return {
            "metadata_backend": {"type": "sqlite", "uri": str(tmp_path / f"{name}.sqlite")},
            "storage_backend": {"type": "local", "path": str(tmp_path / name)},
        } | keys

    stores = {
        "prod": store("prod"),
        "own": store("own", branch_of="own"),
        "unknown": store("unknown", branch_of="prdo"),
        "number": store("number", branch_of=1),
        "same": store("prod", branch_of="prod"),
        "files": store("files", branch_of="prod") | {"storage_backend": store("prod")["storage_backend"]},
        "first": store("first", branch_of="prod"),
        "second": store("second", branch_of="first"),
        "alias": store("alias", branch_of="prod", alias="lakeconf_parent"),
        "duck": {"metadata_backend": {"type": "motherduck", "database": "d"}},
        "of_duck": store("of_duck", branch_of="duck"),
    }
    problems = {problem.store: problem.message for problem in validate({"stores": stores}, *stores)}
    assert problems["own"] == "own is a branch itself"
    assert problems["second"] == "first is a branch itself"
    assert problems["unknown"] == "unknown store 'prdo'"
    assert problems["number"] == "must be a string, not an integer"
    assert "same catalog or data path" in problems["same"]
    assert "same catalog or data path" in problems["files"]
    assert "is the name of the other lake" in problems["alias"]
    assert "cannot keep a snapshot" in problems["of_duck"] or "has problems" in problems["of_duck"]
    assert "first" not in problems


def test_no_command_of_a_branch_changes_the_lake(pair: Pair, tmp_path: Path) -> None:
    prod, branch = pair
    with prod.open() as lake:
        lake.table("raw.e").append([{"id": 7, "name": "before"}])
    before = state_of(prod, tmp_path / "prod")
    branch.create_branch()
    with branch.open() as lake:
        lake.table("raw.e").merge([{"id": 7, "name": "merged"}, {"id": 8, "name": "new"}], on="id")
        lake.table("raw.f").delete("id < 5")
        lake.drop_table("raw.f")
        lake.maintenance.compact()
        expire_all(lake)
        lake.restore("raw.e", version=lake.snapshot_id)
        lake.execute("DELETE FROM raw.e WHERE id = 9")
        lake.rename_table("raw.e", "raw.g")
        expire_all(lake)
    assert state_of(prod, tmp_path / "prod") == before
    branch.drop_branch()
    assert state_of(prod, tmp_path / "prod") == before


@pytest.mark.slow
def test_files_of_the_lake_that_others_register_in_a_branch_stay_when_it_is_dropped(pair: Pair, tmp_path: Path) -> None:
    prod, branch = pair
    with prod.open() as lake:
        lake.table("raw.e").append([{"id": number, "name": "in a file"} for number in range(50)])
    before = state_of(prod, tmp_path / "prod")
    branch.create_branch()
    with branch.open() as lake:
        lake.table("raw.e").delete("id < 1000")
    with branch.connect() as connection:  # plain DuckDB
        path = max((tmp_path / "prod" / "data" / "raw" / "e").glob("*.parquet"))
        connection.execute(f"CALL ducklake_add_data_files('pr', 'e', '{path}', schema => 'raw')")
    with branch.open() as lake:
        assert lake.table("raw.e").count() == 50
        lake.drop_table("raw.e")
        with pytest.raises(CatalogError, match="lists files for removal that are not below"):
            expire_all(lake)
    branch.drop_branch()
    assert prod.branches() == []
    assert not list((tmp_path / "pr" / "data").rglob("*.parquet"))
    assert state_of(prod, tmp_path / "prod") == before
    branch.create_branch()
    with branch.open() as lake:
        assert lake.table("raw.e").count() == 110


def test_written_tables_are_copied_back_unless_the_lake_has_changed_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    write_configuration(tmp_path)
    prod, branch = lake_and_branch(request, tmp_path)
    fill(prod, SHORT)

    def called(line: str) -> tuple[int, str]:
        code = run(shlex.split(line))
        return code, "".join(capsys.readouterr())

    assert called("branch prod pr --yes") == (0, "pr is a branch of prod at snapshot 6\n")
    assert called("branch prod")[1].splitlines()[1].split()[:2] == ["pr", "6"]
    with branch.open() as lake:
        lake.table("raw.f").append([{"id": 100}])
    assert called("diff pr prod raw.e")[0] == 0
    assert "10 equal, 1 in pr only, 0 in prod only" in called("diff pr prod raw.f")[1]
    assert called("copy pr prod --dry-run") == (0, "replace  raw.f  1 row added\n")
    code, text = called("copy pr prod raw.e --yes")
    assert (code, "the branch has not written it" in text) == (1, True)
    assert called("copy pr prod --yes")[1].endswith("copied in snapshot 7 of prod\n")
    code, text = called("copy pr prod --yes")
    assert (code, "raw.f of prod has changed since snapshot 6, of which pr was made" in text) == (1, True)
    assert called("sql 'SELECT n FROM raw.v' --store pr")[1].split() == ["n", "60"]
    code, text = called("sql 'FROM __ducklake_metadata_lakeconf_parent.ducklake_table' --store pr")
    assert (code, "of the catalog database" in text) == (1, True)
    assert called("branch --drop prod --yes")[1].startswith("error: the store 'prod' is no branch")
    assert called("branch --drop pr --yes")[0] == 0
    assert called("branch prod") == (0, "prod has no branches\n")


@pytest.mark.slow
def test_tables_that_a_branch_has_not_written_are_copied_over(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    prod, branch = lake_and_branch(request, tmp_path)
    fill(prod, SHORT)
    branch.create_branch()
    before = state_of(prod, tmp_path / "prod")
    with prod.open() as lake:
        pinned = contents(lake)
    (tmp_path / "dev").mkdir()
    dev = new_store(request, tmp_path / "dev", "dev", "sqlite", "local")
    fill(
        dev,
        (
            *SHORT[:4],
            "INSERT INTO raw.f VALUES (99)",
            "ALTER TABLE raw.e ADD COLUMN x INTEGER",
            "CREATE TABLE g (a INTEGER)",
        ),
    )
    with dev.open() as lake:
        lake.table("main.g").append([{"a": 1}])
        expected = contents(lake)
    with branch.open() as lake:
        copies = TableCopies(lake, dev)
        steps = copies.plan()
        assert [(step.table, step.action) for step in steps] == [
            ("main.g", "create"),
            ("raw.e", "replace"),
            ("raw.f", "replace"),
        ]
        copies.copy(steps)
        assert contents(lake) == expected != pinned
        assert [step.action for step in TableCopies(lake, dev.replace(alias="again")).plan()] == ["skip"] * 3
    assert state_of(prod, tmp_path / "prod") == before


def test_a_table_that_a_branch_has_not_written_and_that_is_equal_is_not_copied(
    pair: Pair, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    _, branch = pair
    branch.create_branch()
    (tmp_path / "dev").mkdir()
    dev = new_store(request, tmp_path / "dev", "dev", "sqlite", "local")
    fill(dev, SHORT)
    with branch.open() as lake:
        assert [step.action for step in TableCopies(lake, dev).plan()] == ["skip", "skip"]
        assert lake.snapshot_id == 1


def test_the_statements_of_a_branch_attach_both_lakes(pair: Pair) -> None:
    _, branch = pair
    branch.create_branch()
    attached = [line for line in branch.preview_sql() if line.startswith("ATTACH")]
    assert [line.split(" ")[3] for line in attached] == ['"lakeconf_parent"', '"pr"']
    assert "READ_ONLY true" in attached[0]
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        branch.attach(connection)
        assert connection.sql("SELECT n FROM raw.v").fetchall() == [(60,)]
        with pytest.raises(CatalogError, match="already has a database 'pr'"):
            branch.attach(connection)
    with duckdb.connect() as connection:
        connection.execute("ATTACH ':memory:' AS lakeconf_parent")
        with pytest.raises(CatalogError, match="already has a database 'lakeconf_parent'"):
            branch.attach(connection)
        assert connection.sql("SELECT 1 FROM duckdb_databases() WHERE database_name = 'pr'").fetchall() == []


@pytest.mark.slow
def test_no_secret_of_the_lake_is_in_its_branch(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    prod, _ = lake_and_branch(request, tmp_path, "postgres", "s3")
    (tmp_path / "own").mkdir()
    _, local = lake_and_branch(request, tmp_path / "own")
    branch = local.replace(branch_of=prod)
    fill(prod, SHORT)
    branch.create_branch()
    with branch.open() as lake:
        assert lake.table("raw.e").append([{"id": 7, "name": "own"}])
        assert lake.table("raw.e").count() == 61
    texts = [secret.reveal() for secret in prod.secrets]
    stored = [path.read_bytes() for path in (tmp_path / "own").rglob("*") if path.is_file()]
    stored += ["\n".join(branch.preview_sql()).encode(), repr(branch).encode()]
    assert texts
    assert not [text for text in texts if any(text.encode() in content for content in stored)]
    assert prod.branches()[0].store == "pr"
    branch.drop_branch()
    assert prod.branches() == []


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["s3", "azure"])
def test_a_branch_in_a_bucket_is_written_and_dropped(
    storage: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    prod, branch = lake_and_branch(request, tmp_path, "sqlite", storage)
    assert branch.storage_backend is not None
    fill(prod, SHORT)
    branch.create_branch()
    with branch.open() as lake:
        lake.table("raw.e").delete("id < 50")
        lake.maintenance.compact()
        expire_all(lake)
        assert (lake.table("raw.e").count(), lake.table("raw.f").count()) == (50, 10)
    branch.drop_branch()
    with pytest.raises(BranchError, match="is no branch: nothing was dropped"):
        branch.drop_branch()
    with branch.replace(branch_of=None).open() as lake:
        assert rows(lake, f"SELECT file FROM glob('{branch.storage_backend.location}**.parquet')") == []
    with prod.open() as lake:
        assert (lake.table("raw.e").count(), prod.branches()) == (60, [])


def test_encrypted_lakes_have_branches(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    prod, branch = lake_and_branch(request, tmp_path)
    prod = prod.replace(attach_options={"encrypted": True})
    branch = branch.replace(branch_of=prod)
    with prod.open() as lake:
        lake.create_table("t", {"id": "BIGINT"}).append([{"id": 1}])
    with pytest.raises(BranchError, match="is encrypted") as raised:
        branch.create_branch()
    assert str(raised.value.hint).startswith("write encrypted = true in [stores.pr.attach_options]")
    assert not (tmp_path / "pr" / "catalog").exists()
    branch = branch.replace(attach_options={"encrypted": True})
    branch.create_branch()
    with branch.open() as lake:
        lake.table("t").append([{"id": 2}])
        assert rows_of(lake, "t") == [(1,), (2,)]


@pytest.mark.slow
def test_a_restore_of_the_lake_stops_its_open_branches(pair: Pair, tmp_path: Path) -> None:
    prod, branch = pair
    backup = prod.back_up(str(tmp_path / "backups")).path
    with prod.open() as lake:
        lake.table("raw.e").append([{"id": 1, "name": "right"}])
    branch.create_branch()
    with branch.open() as own, branch.open() as other:
        assert other.table("raw.e").count() == 61
        prod.restore_lake(backup)
        with prod.open() as lake:
            lake.table("raw.e").append([{"id": 2, "name": "wrong"}])
        for read in (
            lambda: own.table("raw.e").to_arrow(),
            lambda: own.sql("FROM raw.e"),
            lambda: own.table("raw.e").append([{"id": 3, "name": "x"}]),
            lambda: own.table("raw.e").overwrite([{"id": 3, "name": "x"}]),
            lambda: other.table("raw.e").count(),
            lambda: other.execute("DELETE FROM raw.e"),
        ):
            with pytest.raises(BranchError, match="is another one"):
                read()
    connection = duckdb.connect()
    for attach in (branch.connect, lambda: branch.attach(connection), branch.open):
        with pytest.raises(BranchError, match="is another one"):
            attach()
    names = connection.sql("SELECT database_name FROM duckdb_databases() WHERE NOT internal").fetchall()
    assert names == [("memory",)]


def test_one_of_two_first_writes_is_a_conflict(pair: Pair) -> None:
    branch = pair[1]
    branch.create_branch()
    changes: list[Callable[[Lake], object]] = [
        lambda lake: lake.table("raw.e").append([{"id": 1, "name": "x"}]),
        lambda lake: lake.table("raw.e").overwrite([{"id": 1, "name": "x"}]),
        lambda lake: lake.drop_table("raw.e"),
    ]
    with contextlib.ExitStack() as stack:
        lakes = [stack.enter_context(branch.open()) for _ in range(4)]
        changes[0](lakes[0])
        for lake, change in zip(lakes[1:], changes, strict=True):
            with pytest.raises(CommitConflictError) as raised:
                change(lake)
            assert raised.value.hint == "call lake.refresh() and try again"
        lakes[1].refresh()
        changes[0](lakes[1])
        lakes[0].refresh()
        assert lakes[0].table("raw.e").count() == 62


@pytest.mark.parametrize(
    "change",
    [
        lambda lake: lake.table("raw.e").append([{"id": 1, "name": "x"}]),
        lambda lake: lake.table("raw.e").delete("id = 1"),
        lambda lake: lake.table("raw.e").overwrite([{"id": 1, "name": "x"}]),
        lambda lake: lake.drop_table("raw.e"),
    ],
    ids=["append", "delete", "overwrite", "drop"],
)
def test_a_first_write_does_not_replace_a_view_of_another_writer(pair: Pair, change: Callable[[Lake], object]) -> None:
    branch = pair[1]
    branch.create_branch()
    with branch.open() as lake, branch.open() as other:
        other.drop_table("raw.e")
        other.create_view("raw.e", "SELECT 42 AS answer")
        with pytest.raises(CommitConflictError, match=r"^raw\.e was dropped or replaced by another writer"):
            change(lake)
        assert (other.refresh(), other.sql("FROM raw.e").collect()["answer"].to_list()) == (other.snapshot_id, [42])


@pytest.mark.slow
def test_spark_reads_and_writes_a_branch_as_duckdb_does(pair: Pair, tmp_path: Path, classic_session: Any) -> None:
    prod, branch = pair
    branch.create_branch()
    before = state_of(prod, tmp_path / "prod")
    with branch.open(classic_session) as lake, branch.open() as other:
        assert rows_of(lake, "raw.e") == rows_of(other, "raw.e")
        lake.table("raw.e").merge([{"id": 50, "name": "merged"}, {"id": 500, "name": "new"}], on="id")
        lake.table("raw.f").append(classic_session.range(10, 5000))
        lake.table("raw.f").delete("id < 5")
        other.refresh()
        for name, count in (("raw.e", 61), ("raw.f", 4995)):
            assert rows_of(lake, name) == rows_of(other, name)
            assert other.table(name).count() == count
    assert state_of(prod, tmp_path / "prod") == before
