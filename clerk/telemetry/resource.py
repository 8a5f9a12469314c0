"""What the exported spans and metrics are from: the resource of OpenTelemetry."""

from __future__ import annotations

import socket
from importlib.metadata import version

from opentelemetry.sdk.resources import OTELResourceDetector, Resource

SERVICE_NAME = "clerk"


def create_resource(instance: str | None = None) -> Resource:
    """OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence. `instance` identifies a worker process. Metrics
    have none: they are of the whole installation, whichever process exports them."""
    attributes = {"service.name": SERVICE_NAME, "service.version": version("clerk")}
    if instance is not None:
        attributes |= {"service.instance.id": instance, "host.name": socket.gethostname()}
    return Resource.create(attributes).merge(OTELResourceDetector().detect())
