"""Where the bars and lines of a chart go: numbers in, places out. The templates draw them (templates/charts.html).

Drawn about as wide as they are shown, so that the letters keep their size; a phone shows one beside the other's table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

WIDTH = 340.0
LEFT, RIGHT = 44.0, 338.0
TOP, BOTTOM = 8.0, 108.0
HEIGHT = 126.0
ROW = 26.0
BARS_LEFT, BARS_RIGHT = 92.0, 270.0
"""Between the labels and the values."""
_GAP = 2.0
_LABEL_EVERY = 6


@dataclass(frozen=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True)
class Column:
    """An hour: what went well, and on top of it what failed."""

    x: float
    width: float
    done_y: float
    done_height: float
    failed_y: float
    failed_height: float
    hour: datetime
    done: int
    failed: int


@dataclass(frozen=True)
class Hours:
    """Columns over time."""

    name: str
    columns: list[Column]
    values: list[Tick]
    times: list[Tick]
    done: int
    failed: int
    busiest: Column


@dataclass(frozen=True)
class Row:
    label: str
    y: float
    width: float
    value: float
    text: str
    href: str


@dataclass(frozen=True)
class Bars:
    """Lying bars, one below the other."""

    rows: list[Row]
    values: list[Tick]
    height: float


def hours(name: str, counts: Mapping[datetime, tuple[int, int]], last: datetime, number: int = 24) -> Hours:
    """`counts`: hour → done and failed; hours that are missing had none. `last` is the hour that is not over yet."""
    times = [last - timedelta(hours=back) for back in reversed(range(number))]
    found = [counts.get(hour, (0, 0)) for hour in times]
    top = round_up(max(done + failed for done, failed in found))
    step = (RIGHT - LEFT) / number
    tall = BOTTOM - TOP
    columns = []
    for place, (hour, (done, failed)) in enumerate(zip(times, found, strict=True)):
        done_height, failed_height = tall * done / top, tall * failed / top
        columns.append(
            Column(
                x=LEFT + place * step,
                width=step - _GAP,
                done_y=BOTTOM - done_height,
                done_height=done_height,
                failed_y=BOTTOM - done_height - failed_height,
                failed_height=failed_height,
                hour=hour,
                done=done,
                failed=failed,
            )
        )
    return Hours(
        name=name,
        columns=columns,
        values=[Tick(BOTTOM - tall * part / 2, short(top * part / 2)) for part in (0, 1, 2)],
        times=[
            Tick(column.x + column.width / 2, f"{column.hour:%H}:00")
            for column in columns
            if column.hour.hour % _LABEL_EVERY == 0
        ],
        done=sum(done for done, _ in found),
        failed=sum(failed for _, failed in found),
        busiest=max(columns, key=lambda column: column.done + column.failed),
    )


def bars(values: Sequence[tuple[str, float, str, str]], unit: str = "") -> Bars:
    """Of label, value, value in words, and the address where one sees more."""
    top = round_up(max(value for _, value, _, _ in values))
    long = BARS_RIGHT - BARS_LEFT
    rows = [
        Row(label, place * ROW, long * value / top, value, text, href)
        for place, (label, value, text, href) in enumerate(values)
    ]
    ticks = [Tick(BARS_LEFT + long * part / 2, short(top * part / 2) + unit) for part in (0, 1, 2)]
    return Bars(rows, ticks, len(rows) * ROW)


def round_up(value: float) -> float:
    """The end of an axis: an even digit and noughts, so that half of it is a whole number too."""
    if value <= 2:
        return 2
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (2, 4, 6, 8, 10) if value <= step * power)


def short(value: float) -> str:
    """As wide as an axis has room for: 950, 1.5k, 20k, 3M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
