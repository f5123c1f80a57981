"""The figures of the report show the numbers that they are given."""

from __future__ import annotations

from datetime import UTC, date, datetime

from lakeconf.catalog.history import LakeSize, TableFile
from lakeconf.inspection.catalog_files import TableSize
from lakeconf.inspection.doctor_lake import Day
from lakeconf.inspection.report import daily_figure, embedded, file_sizes_figure, growth_figure, tables_figure


def table(name: str, *sizes: int) -> TableSize:
    return TableSize(name, tuple(TableFile(f"{number}.parquet", 1, size, 1) for number, size in enumerate(sizes)), 0)


def test_growth_counts_delete_files_too() -> None:
    sizes = [
        LakeSize(1, datetime(2026, 1, 1, tzinfo=UTC), 2, 100, 1),
        LakeSize(2, datetime(2026, 1, 2, tzinfo=UTC), 3, 90, 0),
    ]
    figure = growth_figure(sizes)
    assert [list(drawn.y) for drawn in figure.data] == [[100, 90], [3, 3]]


def test_days_with_an_unknown_growth_are_left_out() -> None:
    days = [Day(date(2026, 1, 1), 1, 5, 1, None, None), Day(date(2026, 1, 2), 2, 3, 1, -2, 0)]
    (drawn,) = daily_figure(days).data
    assert (list(drawn.x), list(drawn.y)) == (["2026-01-02"], [-2])


def test_long_names_that_begin_alike_have_bars_of_their_own() -> None:
    (drawn,) = (
        figure := tables_figure([table(f"raw.{'long' * 20}_{number}", 10 + number) for number in range(3)])
    ).data
    assert list(drawn.x) == [10, 11, 12]
    assert len(set(drawn.y)) == 3
    assert {len(label) for label in figure.layout.yaxis.ticktext} == {28}


def test_names_are_escaped_in_labels() -> None:
    figure = tables_figure([table('raw."<b>\u202e&"', 1)])
    assert figure.layout.yaxis.ticktext == ('raw."&lt;b&gt;\\u202e&amp;"',)


def test_files_are_counted_by_size() -> None:
    (drawn,) = file_sizes_figure([table("a", 10, 20, 2000), table("b", 5000)]).data
    assert dict(zip(drawn.x, drawn.y, strict=True)) == {"below 1 KiB": 2, "below 4 KiB": 1, "below 16 KiB": 1}
    (drawn,) = file_sizes_figure([]).data
    assert list(drawn.y) == [0]


def test_embedded_figure_has_one_script_with_the_nonce() -> None:
    text = embedded("figure-x", tables_figure([table("</script><script>", 1)]), "word")
    assert text.count("<script") == text.count('<script nonce="word"') == 1
    assert 'id="figure-x"' in text
