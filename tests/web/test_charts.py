from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from clerk.web import charts

NOW = datetime(2026, 11, 17, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "end"), [(0, 2), (2, 2), (3, 4), (5, 6), (9, 10), (10, 20), (41, 60), (999, 1000), (21_000, 40_000)]
)
def test_an_axis_ends_at_a_number_whose_half_is_one_too(value: float, end: float) -> None:
    assert charts.round_up(value) == end


def test_numbers_on_an_axis_are_short() -> None:
    assert [charts.short(value) for value in (0, 7, 950, 1500, 20_000, 3e6)] == ["0", "7", "950", "1.5k", "20k", "3M"]


def test_columns_are_as_high_as_they_count() -> None:
    chart = charts.hours(
        "ocr", {NOW: (6, 2), NOW - timedelta(hours=23): (1, 0), NOW - timedelta(hours=24): (99, 0)}, NOW
    )
    assert len(chart.columns) == 24
    assert (chart.done, chart.failed) == (7, 2)
    last = chart.columns[-1]
    assert (last.hour, chart.busiest) == (NOW, last)
    tall = charts.BOTTOM - charts.TOP
    assert last.failed_y == pytest.approx(charts.BOTTOM - tall), "eight of eight"
    assert last.done_y == pytest.approx(charts.BOTTOM - tall * 6 / 8)
    assert chart.columns[0].done_height == pytest.approx(tall / 8)
    assert last.x + last.width <= charts.RIGHT
    assert [tick.label for tick in chart.values] == ["0", "4", "8"]
    assert [tick.label for tick in chart.times] == ["12:00", "18:00", "00:00", "06:00"]


def test_nothing_is_drawn_flat() -> None:
    chart = charts.hours("ocr", {}, NOW)
    assert {column.done_height + column.failed_height for column in chart.columns} == {0}


def test_bars_share_one_scale() -> None:
    chart = charts.bars([("a", 10, "10", "/a"), ("b", 5, "5", "/b"), ("c", 0, "0", "/c")], unit=" %")
    assert [row.width * 2 for row in chart.rows[1:2]] == [chart.rows[0].width]
    assert chart.rows[2].width == 0
    assert chart.values[-1].label == "20 %"
