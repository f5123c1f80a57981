"""A repair of a catalog leaves all rows as they are, and whatever somebody has to decide."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import dying_move
import pytest
from damaged_catalogs import DAMAGES, HISTORY, changed, damaged
from local_stores import config_of, new_store, on_catalog, rows
from strength import PROVE, in_prove
from whole_lakes import fill

import lakeconf
from lakeconf.config.toml_text import toml_value
from lakeconf.errors import CatalogChangedError, CatalogError, CommitError, LakeconfError
from lakeconf.guard import locks
from lakeconf.inspection.catalog_repairs import Finding
from lakeconf.transfer.repair_catalog import CatalogRepair, examine_catalog, repair_catalog

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Store

REPAIRABLE = [name for name, damage in DAMAGES.items() if damage.is_repairable]
OTHERS = [name for name, damage in DAMAGES.items() if not damage.is_repairable]


def repaired(store: Store, place: Path) -> CatalogRepair:
    return repair_catalog(store, str(place), examine_catalog(store))


def states(store: Store, until: int) -> list[Any]:
    """The rows of both tables at each snapshot."""
    with store.connect() as connection:
        versions = connection.sql(f"FROM ducklake_snapshots('{store.alias}') ORDER BY 1").fetchall()
        read: list[Any] = [version for version in versions if version[0] <= until]
        for version, *_ in list(read):
            for table, first in (("t", 1), ("u", 2)):
                if first <= version:
                    at = f"{table} AT (VERSION => {version})"
                    ids = connection.sql(f"SELECT rowid, * FROM {at} ORDER BY ALL").fetchall()
                    counts = connection.sql(f"SELECT count(*), min(a), max(a) FROM {at}").fetchall()
                    read.append((table, version, ids, counts))
    return read


@pytest.mark.parametrize("damage", REPAIRABLE)
def test_repair_makes_a_catalog_sound_and_changes_no_row(damage: str, small_store: Store, tmp_path: Path) -> None:
    before = states(small_store, 5)
    damaged(small_store, damage)
    done = repaired(small_store, tmp_path / "backups")
    assert (done.snapshot_id, done.left) == (6, ())
    assert examine_catalog(small_store) == []
    assert states(small_store, 5) == before
    assert [state.path for state in small_store.backups(str(tmp_path / "backups"))] == [done.kept]
    changed(
        small_store,
        "CREATE TABLE w (a INT)",
        "INSERT INTO t SELECT i, 'y' FROM range(60, 90) AS r(i)",
        "DELETE FROM t WHERE a < 40",
    )
    with small_store.open() as lake:
        lake.table("t").append(lake.sql("SELECT 100 AS a, 'z' AS b"))
        lake.table("t").delete("a = 41")
        lake.maintenance.compact()
        ids, values = zip(*rows(lake, "SELECT rowid, a FROM t"), strict=True)
    assert len(set(ids)) == 50
    assert sorted(values) == [40, *range(42, 90), 100]
    assert examine_catalog(small_store) == []


def test_backup_before_a_repair_is_the_catalog_as_it_was(small_store: Store, tmp_path: Path) -> None:
    for damage in REPAIRABLE:
        damaged(small_store, damage)
    findings = examine_catalog(small_store)
    done = repaired(small_store, tmp_path / "backups")
    small_store.restore_lake(done.kept)
    assert examine_catalog(small_store) == findings


@pytest.mark.slow
@pytest.mark.prove("postgres")
@pytest.mark.parametrize("damage", OTHERS)
def test_what_is_not_safe_stays_as_it_is(damage: str, small_store: Store, tmp_path: Path) -> None:
    damaged(small_store, "next row")
    damaged(small_store, damage)
    findings = examine_catalog(small_store)
    left = [finding for finding in findings if not finding.repairs]
    assert left
    if left == findings:  # the catalog cannot be read as a whole
        return
    backups = tmp_path / "backups"
    if DAMAGES[damage].stops_opening or damage == "inlined rows":  # a lake that cannot be backed up
        with pytest.raises(LakeconfError, match=r"nothing was (changed|copied)|its catalog is damaged"):
            repaired(small_store, backups)
        assert examine_catalog(small_store) == findings
    else:
        assert list(repaired(small_store, backups).left) == left == examine_catalog(small_store)


def test_half_of_a_commit_does_not_become_visible(small_store: Store, tmp_path: Path) -> None:
    """The snapshot of the repair would be that of its rows."""
    changed(
        small_store,
        f"UPDATE __ducklake_metadata_{small_store.alias}.ducklake_data_file SET begin_snapshot = 6",
        f"UPDATE __ducklake_metadata_{small_store.alias}.ducklake_snapshot SET next_catalog_id = 1",
    )
    findings = examine_catalog(small_store)
    assert [finding.check for finding in findings if finding.repairs] == ["ids"]
    with pytest.raises(CatalogError, match="other problems after the repair than before"):
        repaired(small_store, tmp_path / "backups")
    assert examine_catalog(small_store) == findings


def test_repair_waits_for_writers_and_sees_their_commits(
    small_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged(small_store, "next row")
    findings = examine_catalog(small_store)
    if small_store.metadata_backend.type != "duckdb":  # only one process can have it open
        monkeypatch.setattr(locks, "WAIT_SECONDS", 0.2)
        with small_store.open() as lake, lake.transaction():
            lake.table("u").append(lake.sql("SELECT 1 AS a"))
            with pytest.raises(CommitError, match="was not free"):
                repair_catalog(small_store, str(tmp_path / "backups"), findings)
    damaged(small_store, "next table")
    with pytest.raises(CatalogChangedError, match="nothing was changed"):
        repair_catalog(small_store, str(tmp_path / "backups"), findings)
    assert not (tmp_path / "backups").exists()


STATISTICS = "UPDATE m.ducklake_table_column_stats SET "
UNKNOWN = "UPDATE m.ducklake_file_column_stats SET min_value = NULL, max_value = NULL"
FIRST_UNKNOWN = UNKNOWN + " WHERE data_file_id = (SELECT min(data_file_id) FROM m.ducklake_data_file WHERE m.TABLE)"
ROWS = "INSERT INTO t SELECT i FROM range(1, 60) r(i)"
INLINED = "INSERT INTO t VALUES (1000), (-5)"
BIGINT = "CREATE TABLE t (a BIGINT)"
# Lakes, and changes of their statistics, of which each hides rows, or did when it was repaired from files only.
HIDING: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "no bounds, rows in the catalog": (
        (BIGINT, ROWS, INLINED),
        (STATISTICS + "min_value = NULL, max_value = NULL",),
    ),
    "no bounds, ended file without bounds": (
        (BIGINT, "INSERT INTO t SELECT 1000 + i FROM range(60) r(i)", "DELETE FROM t WHERE true", ROWS),
        (FIRST_UNKNOWN, STATISTICS + "min_value = NULL, max_value = NULL"),
    ),
    "bounds, ended file without bounds": (
        (BIGINT, "INSERT INTO t SELECT 1000 + i FROM range(60) r(i)", "DELETE FROM t WHERE true", ROWS),
        (FIRST_UNKNOWN, STATISTICS + "min_value = '1', max_value = '59'"),
    ),
    "ended rows in the catalog": (
        (BIGINT, INLINED, "DELETE FROM t WHERE true", ROWS),
        (STATISTICS + "min_value = '1', max_value = '59'",),
    ),
    "narrow, rows in the catalog": ((BIGINT, ROWS, INLINED), (STATISTICS + "min_value = '30', max_value = '40'",)),
    "narrow, not as truth values": ((BIGINT, ROWS.replace("(1,", "(5,")), (STATISTICS + "min_value = '50'",)),
    "null": (
        (BIGINT, "INSERT INTO t SELECT CASE WHEN i % 2 = 0 THEN i END FROM range(60) r(i)"),
        (STATISTICS + "contains_null = false",),
    ),
    "null in the catalog": ((BIGINT, ROWS, "INSERT INTO t VALUES (NULL)"), (STATISTICS + "contains_null = false",)),
    "nan, narrow": (
        (
            "CREATE TABLE t (a DOUBLE)",
            "INSERT INTO t SELECT CASE WHEN i % 2 = 0 THEN i ELSE 'nan'::DOUBLE END FROM range(60) r(i)",
            "INSERT INTO t SELECT i FROM range(100, 160) r(i)",
        ),
        (STATISTICS + "contains_nan = false, max_value = '100'",),
    ),
    "nan in the catalog": (
        ("CREATE TABLE t (a DOUBLE)", ROWS, "INSERT INTO t VALUES ('nan')"),
        (STATISTICS + "contains_nan = false",),
    ),
    "field of a struct": (
        (
            "CREATE TABLE t (s STRUCT(a BIGINT, b VARCHAR))",
            "INSERT INTO t SELECT {'a': i, 'b': NULL} FROM range(60) r(i)",
            "INSERT INTO t VALUES ({'a': 1000, 'b': 'x'}), (NULL)",
        ),
        (STATISTICS + "min_value = '5', max_value = '9'",),
    ),
    "renamed column": (
        (BIGINT, INLINED, "ALTER TABLE t RENAME a TO b", "INSERT INTO t VALUES (3)"),
        (STATISTICS + "min_value = '1', max_value = '4'",),
    ),
}
# Types of which the bounds of a file are not known.
TYPES = {
    "BOOLEAN": "i % 2 = 0",
    "UTINYINT": "i",
    "HUGEINT": "i",
    "DECIMAL(30, 2)": "i",
    "FLOAT": "i - 9",
    "VARCHAR": "repeat('é', 300) || i",
    "JSON": "i",
    "BLOB": "repeat('x', 300)::BLOB",
    "UUID": "md5(i::VARCHAR)::UUID",
    "DATE": "DATE '0001-01-01' + i::INTEGER",
    "TIME": "TIME '00:00:00' + INTERVAL (i) MINUTE",
    "TIMESTAMP_NS": "TIMESTAMP '1970-01-01' + INTERVAL (i) DAY",
    "TIMESTAMPTZ": "TIMESTAMPTZ '1970-01-01 00:00:00+02' + INTERVAL (i) DAY",
}
for kind, value in TYPES.items():
    created = (f"CREATE TABLE t (a {kind})", f"INSERT INTO t SELECT {value} FROM range(9, 30) r(i)")
    HIDING[f"unknown {kind}"] = ((*created, created[1].replace("9, 30", "40, 43")), (UNKNOWN,))
    HIDING[f"forgotten {kind}"] = (created, (STATISTICS + "min_value = NULL, max_value = NULL",))


def hidden(connection: Any, table: str, version: int) -> list[tuple[str, str]]:
    """The filters with which a table has fewer rows by DuckDB's statistics than without them, at a snapshot."""
    at = f"{table} AT (VERSION => {version})"
    columns = [row[0] for row in connection.execute(f"DESCRIBE FROM {at}").fetchall()]
    parts = [f"{columns[0]}.{part}" for part in "ab"] if columns == ["s"] else columns
    filters = [f"{part} IS {null}" for part in parts for null in ("NULL", "NOT NULL")]
    connection.execute("SET disabled_optimizers = 'statistics_propagation'")
    for part in parts:
        texts = f"SELECT CAST({part} AS VARCHAR), typeof({part}) FROM {at} WHERE {part} IS NOT NULL GROUP BY ALL"
        values = connection.execute(f"{texts} ORDER BY 1").fetchall()
        filters += [f"{part} = CAST('{text}' AS {kind})" for text, kind in (*values[:3], *values[-3:])]
    counts = " UNION ALL ".join(f"SELECT {n}, count(*) FROM {at} WHERE {sql}" for n, sql in enumerate(filters))
    right = dict(connection.execute(counts).fetchall())
    connection.execute("RESET disabled_optimizers")
    return [(at, filters[n]) for n, count in connection.execute(counts).fetchall() if count != right[n]]


def of_table(statement: str, store: Store, table: str) -> str:
    """A statement about `t`, as one about a table."""
    metadata = f"__ducklake_metadata_{store.alias}."
    ids = f"(SELECT table_id FROM {metadata}ducklake_table WHERE table_name = '{table}')"
    if statement.startswith("UPDATE m."):
        where = f"table_id = {ids}"
        statement = statement.replace("WHERE m.TABLE", f"WHERE {where}")
        statement += f" AND {where}" if statement.startswith(UNKNOWN + " WHERE") else f" WHERE {where}"
    return re.sub(r"\bt\b", table, statement).replace("m.", metadata)


def of_cases(findings: list[Finding]) -> set[str]:
    """The cases whose tables have findings."""
    cases = list(HIDING)
    return {cases[int(re.findall(r"main\.t(\d+) ", finding.what)[0])] for finding in findings}


@pytest.mark.slow
@pytest.mark.prove("postgres")
@pytest.mark.parametrize("kind", ["sqlite", *in_prove(["duckdb", "postgres"])])
def test_repaired_statistics_hide_no_row_of_any_snapshot(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = new_store(request, tmp_path, "dev", kind, "local")
    tables = {f"t{number}": HIDING[case] for number, case in enumerate(HIDING)}
    versions: list[tuple[str, int]] = []
    with store.connect() as connection:
        for table, (history, _) in tables.items():
            for number, statement in enumerate(history):
                connection.execute(of_table(statement, store, table))
                newest = f"SELECT max(snapshot_id) FROM ducklake_snapshots('{store.alias}')"
                versions += [(table, connection.execute(newest).fetchall()[0][0])] if number else []
    # DuckLake has no bounds for long strings: the next insert would hide them.
    assert of_cases(examine_catalog(store)) == {case for case in HIDING if "VARCHAR" in case}
    changed(store, *(of_table(damage, store, table) for table, (_, damages) in tables.items() for damage in damages))
    findings = examine_catalog(store)
    # DuckDB does not use the bounds of these types.
    assert of_cases(findings) == {case for case in HIDING if not case.endswith(("HUGEINT", "BLOB"))}
    repair_catalog(store, str(tmp_path / "backups"), findings)
    assert examine_catalog(store) == []
    with store.connect() as connection:
        assert [query for version in versions for query in hidden(connection, *version)] == []
    changed(store, *(of_table(history[-1], store, table) for table, (history, _) in tables.items()))
    with store.connect() as connection:
        assert [query for version in versions for query in hidden(connection, *version)] == []
    assert of_cases(examine_catalog(store)) == {case for case in HIDING if "VARCHAR" in case}


@pytest.mark.parametrize("is_own", [False, True])
def test_sessions_that_were_open_do_not_undo_a_repair(
    is_own: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """DuckLake keeps statistics and next row ids of tables, and its commits write them."""
    store = new_store(request, tmp_path, "dev", "sqlite", "local")
    metadata = f"__ducklake_metadata_{store.alias}."
    changed(
        store,
        BIGINT,
        "INSERT INTO t SELECT i FROM range(5, 60) r(i)",
        f"UPDATE {metadata}ducklake_table_stats SET next_row_id = 2",
        f"UPDATE {metadata}ducklake_table_column_stats SET max_value = '10'",
    )
    with store.open() as lake, store.connect() as connection:
        connection.execute("SELECT * FROM t WHERE a = 7").fetchall()
        rows(lake, "SELECT * FROM t WHERE a = 7")
        repaired(store, tmp_path / "backups")
        if is_own:
            lake.table("t").append(lake.sql("SELECT 6 AS a FROM range(20)"))
        else:
            connection.execute("INSERT INTO t SELECT 6 FROM range(20)")
        assert connection.execute("SELECT count(*) FROM t WHERE a = 50").fetchall() == [(1,)]
        assert connection.execute("SELECT count(DISTINCT rowid) FROM t").fetchall() == [(75,)]
    assert examine_catalog(store) == []


@pytest.mark.parametrize(
    "change",
    ["CALL ducklake_merge_adjacent_files('dev')", "UPDATE t SET a = a + 1", "CALL ducklake_rewrite_data_files('dev')"],
)
def test_row_ids_in_files_are_not_used_again(change: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Files of merges, updates and rewrites store the ids of their rows."""
    store = new_store(request, tmp_path, "dev", "sqlite", "local")
    insert = "INSERT INTO t SELECT i FROM range(50) r(i)"
    changed(store, BIGINT, insert, insert, "DELETE FROM t WHERE a = 7", change)
    metadata = f"__ducklake_metadata_{store.alias}."
    assert examine_catalog(store) == []
    changed(store, f"UPDATE {metadata}ducklake_table_stats SET next_row_id = 3")
    (finding,) = examine_catalog(store)
    # DuckLake gives the rows of an update new ids, and does not use them.
    assert finding.what.endswith(("is 3, but rows have ids up to 99", "is 3, but rows have ids up to 197"))
    repaired(store, tmp_path / "backups")
    with store.connect() as connection:
        connection.execute(f"USE {store.alias}")
        connection.execute(insert)
        ((count, ids),) = connection.execute("SELECT count(*), count(DISTINCT rowid) FROM t").fetchall()
    assert count == ids


def test_check_that_fails_hides_no_other_finding(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    store = new_store(request, tmp_path, "dev", "duckdb", "local")
    metadata = f"__ducklake_metadata_{store.alias}."
    changed(
        store,
        BIGINT,
        ROWS,
        f"UPDATE {metadata}ducklake_table_stats SET next_row_id = 2",
        f"ALTER TABLE {metadata}ducklake_file_column_stats DROP COLUMN contains_nan",
    )
    assert {finding.check for finding in examine_catalog(store)} == {"ids", "statistics"}


COMMAND = ("verify", "--catalog", "--repair", "--backup-to", "backups", "--format", "json")


def killed(folder: Path, number: int, when: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, dying_move.__file__, str(number), when, *COMMAND, "--yes"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def damaged_lake(request: pytest.FixtureRequest, folder: Path, kind: str) -> tuple[Store, list[Any]]:
    """A small lake with two damages below a folder with its configuration, and its rows."""
    folder.mkdir()
    config = config_of(folder, on_catalog(request, folder, kind))
    (folder / "lakeconf.toml").write_text(f"stores = {toml_value(config['stores'])}\n")
    store = lakeconf.init(folder).get_store("dev")
    fill(store, HISTORY)
    before = states(store, 5)
    damaged(store, "next file")
    damaged(store, "bounds")
    return store, before


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", *in_prove(["duckdb", "postgres"])])
def test_killed_repair_leaves_the_catalog_as_it_was_or_repaired(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store, _ = damaged_lake(request, tmp_path / "whole", kind)
    old = examine_catalog(store)
    finished = killed(tmp_path / "whole", 0, "")
    assert finished.returncode == 0, finished.stderr
    *output, steps = finished.stdout.rstrip().split("\n")
    assert json.loads("\n".join(output))["repaired"]["snapshot_id"] == 6
    for number in range(1, int(steps) + 1, 1 if PROVE else 5):
        folder = tmp_path / str(number)
        store, before = damaged_lake(request, folder, kind)
        ended = killed(folder, number, "before" if number % 2 else "after")
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        assert examine_catalog(store) in (old, [])
        if (folder / "backups").exists():
            assert {state.problem for state in store.backups(str(folder / "backups"))} <= {None}
        again = killed(folder, 0, "")
        assert again.returncode == 0, (number, again.stderr)
        assert examine_catalog(store) == []
        assert states(store, 5) == before
