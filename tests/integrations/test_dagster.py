"""docs/integrations/dagster.md: Dagster assets as tables of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
import pandas as pd
import polars as pl
import pytest
from doc_pages import named

from lakeconf.errors import LakeconfError, PredicateError, UnsupportedError
from lakeconf.integrations.dagster import LakeIOManager, LakeResource

if TYPE_CHECKING:
    from pathlib import Path

    from server_project import Project

PAGE = "integrations/dagster.md"


def definitions() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(named(PAGE, "python")["definitions.py"], "definitions.py", "exec"), names)  # noqa: S102
    return names


def materialize(
    assets: list[Any], folder: Path, resources: dict[str, Any], partition: str | None = None, only: Any = None
) -> Any:
    settings = {"telemetry": {"enabled": False}}
    with dg.DagsterInstance.local_temp(str(folder), settings) as instance:
        return dg.materialize(assets, instance=instance, resources=resources, partition_key=partition, selection=only)


@pytest.mark.slow
def test_assets_are_stored_as_tables_and_partitions_as_rows(
    server_project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    found = definitions()
    resources, home = found["definitions"].resources, server_project.folder.parent / "dagster"
    home.mkdir()
    for day in ("2024-01-01", "2024-01-02", "2024-01-01"):
        assert materialize([found["events"]], home, resources, day).success
    query = "SELECT day::VARCHAR, user_id, revenue FROM raw.events ORDER BY ALL"
    rows = [("2024-01-01", 1, 1.0), ("2024-01-01", 2, 0.5), ("2024-01-02", 1, 2.0), ("2024-01-02", 2, 0.5)]
    assert server_project.rows(query) == rows
    others = [found["totals"], found["remove_empty"]]
    result = materialize([found["events"], *others], home, resources, only=others)
    assert server_project.rows("FROM shop.totals ORDER BY 1") == [(1, 3.0), (2, 1.0)]
    (materialization,) = result.asset_materializations_for_node("shop__totals")
    assert materialization.metadata["table"].value == "shop.totals"
    output = capfd.readouterr()
    server_project.assert_no_secret(home, text=output.out + output.err + str(resources))


def failure(asset: Any, tmp_path: Path, *others: Any, partition: str | None = None) -> LakeconfError:
    """The error that the materialization of an asset raises."""
    with pytest.raises(LakeconfError) as caught:
        materialize([asset, *others], tmp_path, {"io_manager": LakeIOManager()}, partition, [asset])
    return caught.value


@pytest.mark.slow
def test_polars_frames_as_output_and_input(project: Path, tmp_path: Path) -> None:
    @dg.asset
    def numbers() -> pl.DataFrame:
        return pl.DataFrame({"n": [1, 2, 3]})

    @dg.asset
    def total(numbers: pl.DataFrame, lake: LakeResource) -> pl.DataFrame:
        with lake.open() as opened:
            assert opened.table("main.numbers").scan().collect().shape == (3, 1)
        return numbers.sum()

    resources = {"io_manager": LakeIOManager(), "lake": LakeResource()}
    result = materialize([numbers, total], tmp_path, resources)
    assert result.output_for_node("total").rows() == [(6,)]
    assert LakeResource(store="dev").get_store().alias == "dev"


def test_assets_that_lakeconf_cannot_store_are_refused(project: Path, tmp_path: Path) -> None:
    @dg.asset(ins={"other": dg.AssetIn("other")})
    def reader(other: list[int]) -> None: ...

    assert isinstance(failure(reader, tmp_path, dg.AssetSpec("other")), UnsupportedError)

    @dg.asset(partitions_def=dg.StaticPartitionsDefinition(["eu"]))
    def sales() -> pl.DataFrame:
        return pl.DataFrame({"region": ["eu"]})

    assert type(failure(sales, tmp_path, partition="eu")) is LakeconfError


@pytest.mark.slow
def test_row_of_another_partition_is_refused(project: Path, tmp_path: Path) -> None:
    @dg.asset(partitions_def=dg.StaticPartitionsDefinition(["eu", "us"]), metadata={"partition_expr": "region"})
    def sales() -> pl.DataFrame:
        return pl.DataFrame({"region": ["eu"]})

    assert materialize([sales], tmp_path, {"io_manager": LakeIOManager()}, "eu").success
    assert isinstance(failure(sales, tmp_path, partition="us"), PredicateError)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("zone", "hour"), [(None, "2024-01-01-05:00"), ("UTC", "2024-01-01-06:00")], ids=["naive", "aware"]
)
def test_hours_are_in_the_time_zone_of_the_partitions(
    project: Path, tmp_path: Path, zone: str | None, hour: str
) -> None:
    hours = dg.HourlyPartitionsDefinition("2024-01-01-00:00", timezone="Europe/Berlin")

    @dg.asset(partitions_def=hours, metadata={"partition_expr": "at"})
    def sales() -> pd.DataFrame:
        return pd.DataFrame({"at": [pd.Timestamp("2024-01-01 05:30:00", tz=zone)]})

    assert materialize([sales], tmp_path, {"io_manager": LakeIOManager()}, hour).success
    assert isinstance(failure(sales, tmp_path, partition="2024-01-01-08:00"), PredicateError)
