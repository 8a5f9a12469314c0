from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from clerk.web import charts

NOW = datetime(2026, 11, 17, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "end"), [(0, 2), (2, 2), (3, 4), (5, 6), (9, 10), (10, 20), (41, 60), (999, 1000), (21_000, 40_000)]
)
def test_an_axis_ends_at_a_number_with_a_whole_half(value: float, end: float) -> None:
    assert charts.round_up(value) == end


def test_axis_numbers_are_abbreviated() -> None:
    assert [charts.abbreviate(value) for value in (0, 7, 950, 1500, 20_000, 3e6)] == [
        "0",
        "7",
        "950",
        "1.5k",
        "20k",
        "3M",
    ]


def test_column_heights_are_proportional() -> None:
    chart = charts.column_chart(
        "ocr", {NOW: (6, 2), NOW - timedelta(hours=23): (1, 0), NOW - timedelta(hours=24): (99, 0)}, NOW
    )
    assert len(chart.columns) == 24
    assert (chart.done, chart.failed) == (7, 2)
    last = chart.columns[-1]
    assert (last.hour, chart.busiest) == (NOW, last)
    height = charts.BOTTOM - charts.TOP
    assert last.failed_y == pytest.approx(charts.BOTTOM - height), "8 of 8"
    assert last.done_y == pytest.approx(charts.BOTTOM - height * 6 / 8)
    assert chart.columns[0].done_height == pytest.approx(height / 8)
    assert last.x + last.place == pytest.approx(100), "the chart uses its whole width"
    assert last.width < last.place
    assert [tick.label for tick in chart.value_ticks] == ["0", "4", "8"]
    assert [tick.label for tick in chart.time_ticks] == ["12:00", "18:00", "Tue", "06:00"]


def test_empty_hours_have_no_height() -> None:
    chart = charts.column_chart("ocr", {}, NOW)
    assert chart.is_empty
    assert {column.done_height + column.failed_height for column in chart.columns} == {0}


def test_bars_share_one_scale_that_begins_at_zero() -> None:
    chart = charts.bar_chart([("a", 10, "10", "/a"), ("b", 5, "5", "/b"), ("c", 0, "0", "/c")])
    assert [bar.percent for bar in chart.bars] == [100, 50, 0]
    rates = charts.bar_chart([("a", 10, "10 %", "/a")], end=100)
    assert [bar.percent for bar in rates.bars] == [10]
    assert [bar.percent for bar in charts.bar_chart([("a", 0, "0", "/a")]).bars] == [0]
