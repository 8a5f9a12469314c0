"""Computes the coordinates of the charts from numbers; templates/charts.html draws them.

Horizontal coordinates are percentages of the width, vertical ones are pixels: a chart fills its place, and its text
keeps its size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

TOP, BOTTOM = 8.0, 108.0
_COLUMN_SHARE = 0.8
"""The rest of an hour's place is the gap to the next."""
_LABEL_INTERVAL = 6
"""Hours between the labels of the time axis."""


@dataclass(frozen=True)
class Tick:
    position: float
    label: str


@dataclass(frozen=True)
class Column:
    """One hour: the failed part is stacked on the done part."""

    x: float
    """The left end of the hour's place."""
    place: float
    width: float
    done_y: float
    done_height: float
    failed_y: float
    failed_height: float
    hour: datetime
    done: int
    failed: int


@dataclass(frozen=True)
class ColumnChart:
    """Counts per hour."""

    name: str
    columns: list[Column]
    value_ticks: list[Tick]
    time_ticks: list[Tick]
    done: int
    failed: int
    busiest: Column

    @property
    def is_empty(self) -> bool:
        return not (self.done or self.failed)


@dataclass(frozen=True)
class Bar:
    label: str
    percent: float
    """Of the longest possible bar."""
    text: str
    href: str


@dataclass(frozen=True)
class BarChart:
    """Horizontal bars on one scale that begins at zero. Each has its value beside it, so there is no axis."""

    bars: list[Bar]


def column_chart(
    name: str, counts: Mapping[datetime, tuple[int, int]], last: datetime, number: int = 24
) -> ColumnChart:
    """`counts` maps an hour to done and failed; missing hours count as zero. `last` is the current hour."""
    hours = [last - timedelta(hours=back) for back in reversed(range(number))]
    values = [counts.get(hour, (0, 0)) for hour in hours]
    top = round_up(max(done + failed for done, failed in values))
    place = 100 / number
    height = BOTTOM - TOP
    columns = []
    for index, (hour, (done, failed)) in enumerate(zip(hours, values, strict=True)):
        done_height, failed_height = height * done / top, height * failed / top
        columns.append(
            Column(
                x=index * place,
                place=place,
                width=place * _COLUMN_SHARE,
                done_y=BOTTOM - done_height,
                done_height=done_height,
                failed_y=BOTTOM - done_height - failed_height,
                failed_height=failed_height,
                hour=hour,
                done=done,
                failed=failed,
            )
        )
    return ColumnChart(
        name=name,
        columns=columns,
        value_ticks=[Tick(BOTTOM - height * part / 2, abbreviate(top * part / 2)) for part in (0, 1, 2)],
        time_ticks=[
            Tick(column.x + column.width / 2, f"{column.hour:%a}" if column.hour.hour == 0 else f"{column.hour:%H}:00")
            for column in columns
            if column.hour.hour % _LABEL_INTERVAL == 0
        ],
        done=sum(done for done, _ in values),
        failed=sum(failed for _, failed in values),
        busiest=max(columns, key=lambda column: column.done + column.failed),
    )


def bar_chart(values: Sequence[tuple[str, float, str, str]], end: float | None = None) -> BarChart:
    """`values` are tuples of label, value, value as text, and link. The scale ends at `end` or the largest value."""
    longest = end or max(value for _, value, _, _ in values) or 1
    return BarChart([Bar(label, 100 * value / longest, text, href) for label, value, text, href in values])


def round_up(value: float) -> float:
    """The end of an axis: an even digit followed by zeros, so that its half is a whole number."""
    if value <= 2:
        return 2
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (2, 4, 6, 8, 10) if value <= step * power)


def abbreviate(value: float) -> str:
    """A number for an axis: 950, 1.5k, 20k, 3M."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.3g}"
