"""Plans of a model: what runs and why, from recorded runs and the snapshots of its inputs."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from local_stores import store_of

from lakeconf.errors import PipelineError
from lakeconf.lake.run_journal import ModelRun
from lakeconf.pipelines.late_rows import Late
from lakeconf.pipelines.models.body import Query
from lakeconf.pipelines.models.kinds import Append, Full, Incremental, Kind, Seed, View
from lakeconf.pipelines.models.model import Model, model
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.plan import RunRequest, Step, decide
from lakeconf.pipelines.recorded_runs import History, RecordedState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lakeconf import Lake

UNTIL = datetime(2024, 1, 5)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """The tables raw.a and raw.b, which the snapshots 1 and 2 created; snapshot 3 changed raw.a, and 4 raw.b."""
    folder = tmp_path_factory.mktemp("plan")
    with store_of(folder).open() as lake:
        for name in "ab":
            lake.create_table(f"raw.{name}", {"id": "BIGINT"})
        for name in "ab":
            lake.table(f"raw.{name}").append(lake.sql("SELECT CAST(1 AS BIGINT) AS id"))
        assert lake.snapshot_id == 4
        lake.create_table("marts.t", {"id": "BIGINT"})
        yield lake


def pipeline_of(kind: Kind, sql: str | None = "SELECT id FROM raw.a", **given: Any) -> tuple[Pipeline, Model]:
    made = Model("marts.t", kind, None if sql is None else Query(sql), **given)
    return Pipeline([made]), made


def planned(
    kind: Kind,
    sql: str | None = "SELECT id FROM raw.a",
    *,
    lake: Lake,
    runs: Sequence[dict[str, Any]] = (),
    exists: bool = True,
    pending: frozenset[str] = frozenset(),
    late: Late | None = None,
    **bounds: Any,
) -> Step:
    """The plan of a model; `runs` are the fields of its recorded runs."""
    folder = bounds.pop("folder", None)
    pipeline, made = pipeline_of(kind, sql, **({"folder": folder} if folder else {}))
    same = pipeline.definition(made) if not isinstance(kind, Seed) or folder else ""
    recorded = [ModelRun("marts.t", one.pop("definition", same), "r", **one) for one in map(dict, runs)]
    known = RecordedState(lake, exists, History(recorded), 7, pending)
    return decide(pipeline, made, known, RunRequest(**{"since": None, "until": UNTIL, **bounds}), late or Late())


def told(step: Step) -> tuple[str, bool, bool]:
    return step.reason, step.runs, step.rebuild


def test_first_run_changed_inputs_changed_definition_and_request(lake: Lake) -> None:
    step = planned(Full(), "FROM raw.a, raw.b", lake=lake, runs=[{"inputs": {"raw.a": 2, "raw.b": 3}}])
    assert told(step) == ("raw.a and raw.b changed", True, False)
    # A change of another input of a model of changes waits.
    kind, sql = Append(new_rows_of="raw.a"), "SELECT a.id FROM raw.a JOIN raw.b USING (id)"
    step = planned(kind, sql, lake=lake, runs=[{"inputs": {"raw.a": 4, "raw.b": 2}}])
    assert told(step) == ("nothing has changed", False, False)
    unchanged: dict[str, Any] = {"inputs": {"raw.a": 4}}
    assert told(planned(Full(), lake=lake)) == ("first run", True, True)
    assert told(planned(Full(), lake=lake, runs=[unchanged], exists=False)) == ("first run", True, True)
    other = unchanged | {"definition": "other"}
    assert told(planned(Full(), lake=lake, runs=[other])) == ("its definition has changed", True, True)
    assert told(planned(Full(), lake=lake, runs=[unchanged, other])) == ("its definition has changed", True, True)
    assert told(planned(Full(), lake=lake, runs=[other, unchanged])) == ("nothing has changed", False, False)
    assert told(planned(Full(), lake=lake, runs=[unchanged], rebuild=True)) == (
        "requested: replaces all rows",
        True,
        True,
    )


def test_view_is_created_once(lake: Lake) -> None:
    assert told(planned(View(), lake=lake)) == ("first run", True, False)
    assert planned(View(), lake=lake).earlier == 7
    assert told(planned(View(), lake=lake, runs=[{"inputs": {"raw.a": 2}}])) == ("nothing has changed", False, False)
    assert told(planned(View(), lake=lake, runs=[{"definition": "other"}])) == (
        "its definition has changed",
        True,
        False,
    )

    @model("v.t", View(), inputs={"a": "raw.a"})
    def view(a: Any) -> Any:
        return a

    known = RecordedState(lake, exists=True)
    assert told(decide(Pipeline([view]), view, known, RunRequest(None, UNTIL), Late())) == (
        "computed when it is read",
        False,
        False,
    )


def test_expired_snapshots_cause_a_run(tmp_path: Path) -> None:
    with store_of(tmp_path).open() as lake:
        lake.create_table("marts.t", {"id": "BIGINT"})
        lake.create_table("raw.a", {"id": "BIGINT"})
        for _ in range(3):
            lake.table("raw.a").append(lake.sql("SELECT CAST(1 AS BIGINT) AS id"))
        lake.maintenance.expire_snapshots(older_than=timedelta(0), keep=1, force=True)
        why = "the changes of raw.a are unknown, because snapshots since the last run have expired"
        runs = [{"inputs": {"raw.a": 2}}]
        assert told(planned(Full(), lake=lake, runs=runs)) == ("raw.a changed", True, False)
        assert told(planned(Append(), lake=lake, runs=runs)) == (why, True, True)


def test_new_files_are_loaded_in_order(tmp_path: Path, lake: Lake) -> None:
    kind = Append(files="in/**/*.csv")

    def found(**given: Any) -> Step:
        return planned(kind, None, lake=lake, folder=tmp_path, **given)

    assert told(found()) == ("no new file matches in/**/*.csv", False, False)
    (tmp_path / "in" / "deep").mkdir(parents=True)
    for name in ("in/b.csv", "in/deep/a.csv", "in/c.json", "d.csv"):
        (tmp_path / name).write_text("id\n1\n")
    step = found()
    assert (told(step), step.files) == (("2 new files", True, False), ["in/b.csv", "in/deep/a.csv"])
    assert step.earlier == 7
    runs = [{"files": ["in/b.csv"]}, {"files": ["in/gone.csv"], "definition": "other"}]
    step = found(runs=runs)
    assert (told(step), step.files) == (("1 new file", True, False), ["in/deep/a.csv"])
    assert found(runs=[*runs, {"files": ["in/deep/a.csv"]}]).runs is False
    for again in ({"runs": runs, "rebuild": True}, {"runs": runs, "exists": False}):
        step = found(**again)
        assert (step.files, step.rebuild) == (["in/b.csv", "in/deep/a.csv"], "rebuild" in again)


def test_files_of_a_uri_are_listed_by_duckdb(tmp_path: Path, lake: Lake) -> None:
    for name in ("b'", "a"):
        (tmp_path / f"{name}.csv").write_text("id\n1\n")
    kind = Append(files=f"file://{tmp_path}/[ab]*.csv")
    files = planned(kind, None, lake=lake).files
    assert files == [f"{tmp_path}/a.csv", f"{tmp_path}/b'.csv"]
    assert planned(kind, None, lake=lake, runs=[{"files": files[:1]}]).files == files[1:]
    assert planned(Append(files=f"file://{tmp_path}/x'*.csv"), None, lake=lake).runs is False


DAILY = "SELECT CAST('2024-01-01' AS DATE) AS day WHERE $start < $end"


def daily(lake: Lake, *, sql: str = DAILY, runs: Sequence[tuple[int, int]] = (), **given: Any) -> Step:
    """The plan of an incremental model that starts on the first of January; `runs` are the days that are done."""
    kind = Incremental("day", **{"start": date(2024, 1, 1), **given.pop("kind", {})})
    inputs = given.pop("inputs", {})
    recorded = [
        {"interval": (datetime(2024, 1, first), datetime(2024, 1, last)), "inputs": inputs} for first, last in runs
    ]
    return planned(kind, sql, lake=lake, runs=recorded, **given)


def days(step: Step) -> list[tuple[int, int]]:
    return [(batch.start.day, batch.end.day) for batch in step.batches]


def test_reason_lists_three_intervals(lake: Lake) -> None:
    step = daily(lake, kind={"batch": 1}, until=datetime(2024, 1, 4))
    assert step.reason.endswith("2024-01-03 to 2024-01-04")
    step = daily(lake, kind={"batch": 1})
    assert step.reason.endswith("2024-01-03 to 2024-01-04 and 1 more")
    step = daily(lake, kind={"batch": 1}, until=datetime(2024, 1, 6))
    assert step.reason == (
        "first run: 2024-01-01 to 2024-01-02, 2024-01-02 to 2024-01-03, 2024-01-03 to 2024-01-04 and 2 more"
    )


def test_interval_is_done_only_if_the_last_run_that_wrote_it_has_this_definition(lake: Lake) -> None:
    def after(*others: tuple[int, int], **given: Any) -> Step:
        first = {"interval": (datetime(2024, 1, 1), UNTIL)}
        later = [
            {"definition": "other", "interval": (datetime(2024, 1, start), datetime(2024, 1, end))}
            for start, end in others
        ]
        kind = Incremental("day", start=date(2024, 1, 1), **given)
        return planned(kind, DAILY, lake=lake, runs=[first, *later])

    step = after((1, 3))
    assert (step.reason, days(step)) == ("its definition has changed: 2024-01-01 to 2024-01-03", [(1, 3)])
    assert days(after((4, 5), (2, 3))) == [(2, 3), (4, 5)]
    assert days(after((1, 5))) == [(1, 5)]
    # A run of partial intervals has also written a part of the interval after its last complete one.
    assert days(after((1, 2), partial=True)) == [(1, 3)]
    assert days(after((2, 2), partial=True)) == [(2, 3)]
    # A run without an interval completes none.
    assert days(planned(Incremental("day", start=date(2024, 1, 1)), DAILY, lake=lake, runs=[{}])) == [(1, 5)]


def test_input_whose_late_rows_are_not_processed_is_no_reason(lake: Lake) -> None:
    late = Late([(datetime(2024, 1, 1), datetime(2024, 1, 2))], {"raw.b": 6})
    sql = "SELECT id AS day FROM raw.a WHERE $start < $end"
    step = daily(lake, sql=sql, runs=[(1, 5)], kind={"lookback": 2}, inputs={"raw.a": 2}, late=late)
    assert (step.reason, step.late_since) == ("raw.a changed: 2024-01-03 to 2024-01-05", {"raw.b": 6})


def test_warning_lists_three_ranges_with_times(lake: Lake) -> None:
    hours = [(datetime(2024, 1, 1, hour), datetime(2024, 1, 1, hour + 1)) for hour in (1, 3, 5, 7, 9)]
    (warning,) = daily(lake, runs=[(1, 5)], late=Late(hours, {"raw.a": 5})).warnings
    assert warning == (
        "raw.a changed in done intervals: run with --from 2024-01-01T01:00:00 --to 2024-01-01T02:00:00, "
        "--from 2024-01-01T03:00:00 --to 2024-01-01T04:00:00, --from 2024-01-01T05:00:00 --to 2024-01-01T06:00:00 "
        "and 2 more ranges, or --from 2024-01-01T01:00:00 --to 2024-01-01T10:00:00 for all"
    )
    (warning,) = daily(lake, runs=[(1, 5)], late=Late(hours[:3], {"raw.a": 5})).warnings
    assert "more" not in warning
    unknown = Late(unknown=["late rows of raw.a are unknown"])
    for last in (4, 5):
        assert daily(lake, runs=[(1, last)], late=unknown).warnings == ["late rows of raw.a are unknown"]


def test_range_of_a_run_has_a_start_before_its_end(lake: Lake) -> None:
    with pytest.raises(PipelineError) as caught:
        daily(lake, kind={"start": None})
    assert caught.value.message == "the model marts.t has no start of its first interval"
    assert caught.value.hint == "set start=…"
    assert days(daily(lake, kind={"start": None}, since=datetime(2024, 1, 3))) == [(3, 5)]
    utc = datetime(2024, 1, 2, tzinfo=UTC)
    assert days(daily(lake, kind={"start": utc})) == [(2, 5)]
    with pytest.raises(PipelineError) as caught:
        daily(lake, since=datetime(2024, 1, 6))
    assert caught.value.message == (
        "the interval from 2024-01-06 00:00:00 to 2024-01-05 00:00:00 of the model marts.t ends before it starts"
    )
    assert caught.value.hint == "set --from to a time before --to"
    assert daily(lake, since=UNTIL).reason == "all intervals are done"
