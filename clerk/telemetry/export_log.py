"""Counts exported and lost spans or metrics, and logs losses at most once a minute."""

from __future__ import annotations

import logging
import threading
import time

logger = logging.getLogger(__name__)

_INTERVAL = 60.0
_MAX_REASON = 300


class _ReasonFilter(logging.Filter):
    """Keeps the exporter's first message about a batch as the reason of its failure, and hides all: the exporter logs
    every retry."""

    def __init__(self) -> None:
        super().__init__()
        self.reason = ""

    def filter(self, record: logging.LogRecord) -> bool:
        self.reason = self.reason or record.getMessage()[:_MAX_REASON]
        return False


class ExportLog:
    """Used by several threads."""

    def __init__(self, kind: str, logger_name: str) -> None:
        self.kind = kind
        self.exported = 0
        self.lost = 0
        self._logged_at: float | None = None
        self._lock = threading.Lock()
        self._filter = _ReasonFilter()
        self._logger = logging.getLogger(logger_name)
        self._logger.addFilter(self._filter)

    def record(self, count: int, is_exported: bool) -> None:
        with self._lock:
            reason, self._filter.reason = self._filter.reason, ""
            if is_exported:
                self.exported += count
                if self._logged_at is not None:
                    logger.info("OpenTelemetry: %s are exported again; %s were lost", self.kind, self.lost)
                    self._logged_at = None
                return
            self.lost += count
            now = time.monotonic()
            if self._logged_at is None or now - self._logged_at >= _INTERVAL:
                logger.warning("OpenTelemetry: %s %s were lost so far: %s", self.lost, self.kind, reason)
                self._logged_at = now

    def close(self, received: int, is_ended: bool = True) -> None:
        """Log how many of `received` were exported. If the export has not ended, its further messages stay hidden."""
        if is_ended:
            self._logger.removeFilter(self._filter)
        with self._lock:
            lost = received - self.exported
        if lost:
            logger.warning("OpenTelemetry: %s of %s %s were not exported", lost, received, self.kind)
        elif received:
            logger.info("OpenTelemetry: %s %s were exported", received, self.kind)
