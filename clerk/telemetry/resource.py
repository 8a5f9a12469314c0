"""What the exported spans and metrics are from: the resource of OpenTelemetry."""

from __future__ import annotations

from importlib.metadata import version

from opentelemetry.sdk.resources import OTELResourceDetector, Resource

_SERVICE_NAME = "clerk"


def create_resource(instance: str, **attributes: str) -> Resource:
    """OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence. `instance` identifies the process."""
    own = {"service.name": _SERVICE_NAME, "service.version": version("clerk"), "service.instance.id": instance}
    return Resource.create({**own, **attributes}).merge(OTELResourceDetector().detect())
