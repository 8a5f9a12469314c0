"""JSON schemas of the custom resources that the chart creates: the fields that it uses, and no others.

kubernetes-validate has the Kubernetes API only. The fields are those of KEDA's documentation of the scaler postgresql,
and of the Prometheus operator's ServiceMonitor.
"""

from __future__ import annotations

from typing import Any


def _object(properties: dict[str, Any], *optional: str) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_TEXT = {"type": "string", "minLength": 1}
_COUNT = {"type": "integer", "minimum": 0}
_NAME = _object({"name": _TEXT})
_METADATA = _object({"name": _TEXT, "labels": {"type": "object", "additionalProperties": {"type": "string"}}})


def _resource(spec: dict[str, Any]) -> dict[str, Any]:
    return _object({"apiVersion": _TEXT, "kind": _TEXT, "metadata": _METADATA, "spec": spec})


SCHEMAS = {
    ("keda.sh/v1alpha1", "ScaledObject"): _resource(
        _object(
            {
                "scaleTargetRef": _NAME,
                "pollingInterval": _COUNT,
                "cooldownPeriod": _COUNT,
                "minReplicaCount": _COUNT,
                "maxReplicaCount": _COUNT,
                "advanced": _object(
                    {
                        "horizontalPodAutoscalerConfig": _object(
                            {"behavior": _object({"scaleDown": _object({"stabilizationWindowSeconds": _COUNT})})}
                        )
                    }
                ),
                "triggers": {
                    "type": "array",
                    "minItems": 1,
                    "items": _object(
                        {
                            "type": {"const": "postgresql"},
                            # KEDA accepts strings only here.
                            "metadata": _object({"query": _TEXT, "targetQueryValue": _TEXT}),
                            "authenticationRef": _NAME,
                        }
                    ),
                },
            }
        )
    ),
    ("keda.sh/v1alpha1", "TriggerAuthentication"): _resource(
        _object(
            {
                "secretTargetRef": {
                    "type": "array",
                    "items": _object({"parameter": {"const": "connection"}, "name": _TEXT, "key": _TEXT}),
                }
            }
        )
    ),
    ("monitoring.coreos.com/v1", "ServiceMonitor"): _resource(
        _object(
            {
                "selector": _object({"matchLabels": {"type": "object"}}),
                "endpoints": {
                    "type": "array",
                    "items": _object(
                        {
                            "port": _TEXT,
                            "path": _TEXT,
                            "interval": _TEXT,
                            "authorization": _object({"credentials": _object({"name": _TEXT, "key": _TEXT})}),
                        }
                    ),
                },
            }
        )
    ),
}
