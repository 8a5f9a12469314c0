"""The standard variables OTEL_*: whether spans or metrics are to be exported. The SDK reads all others itself."""

from __future__ import annotations

import importlib.util
import logging
import os
from typing import Literal

logger = logging.getLogger(__name__)

Signal = Literal["TRACES", "METRICS"]
INSTALL = "pip install 'clerk[otel]'"
_PROTOCOL = "http/protobuf"


def find_problem(signal: Signal) -> str | None:
    """Why a signal that is requested cannot be exported: one sentence; None if nothing prevents it."""
    if importlib.util.find_spec("opentelemetry") is None or not _has_sdk():
        return f"OTEL_EXPORTER_OTLP_ENDPOINT is set, but the OpenTelemetry packages are not installed: {INSTALL}"
    protocol = read(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL") or read("OTEL_EXPORTER_OTLP_PROTOCOL")
    if protocol not in ("", _PROTOCOL):
        return f"clerk exports by OTLP over {_PROTOCOL}, not {protocol}: change OTEL_EXPORTER_OTLP_PROTOCOL"
    return None


def is_requested(signal: Signal) -> bool:
    """Whether an endpoint is set and the signal is not turned off."""
    if read("OTEL_SDK_DISABLED").lower() == "true" or read(f"OTEL_{signal}_EXPORTER").lower() == "none":
        return False
    return bool(read(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or read("OTEL_EXPORTER_OTLP_ENDPOINT"))


def _has_sdk() -> bool:
    return all(
        importlib.util.find_spec(name) is not None
        for name in ("opentelemetry.sdk", "opentelemetry.exporter", "opentelemetry.exporter.otlp")
    )


def read(name: str) -> str:
    """A variable of OpenTelemetry; empty if it is not set."""
    return os.environ.get(name, "").strip()
