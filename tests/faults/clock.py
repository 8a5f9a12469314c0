"""Shifts the Python clock of this process, as on a host without time synchronisation."""

from __future__ import annotations

import datetime
import os
import time
from typing import Self

_SECONDS = float(os.environ.get("FAULTS_CLOCK", "0"))
_real_time = time.time


class _Datetime(datetime.datetime):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Self:
        return super().now(tz) + datetime.timedelta(seconds=_SECONDS)


if _SECONDS:
    time.time = lambda: _real_time() + _SECONDS
    datetime.datetime = _Datetime  # type: ignore[misc]
