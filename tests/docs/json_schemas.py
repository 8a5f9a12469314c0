"""The JSON schemas of reports, docs/json: read, made strict for tests, and widened by what a command has printed.

`pytest tests/cli/test_json_schemas.py --update-schemas` widens the files by new fields and types, so that a review of
their difference is a review of the change of a report.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

Schema = dict[str, Any]

FOLDER = Path(__file__).parents[2] / "docs" / "json"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_MAPS = {
    *("broken", "changed", "damaged", "extra", "failed", "labels", "left", "outcomes", "problems", "runs", "sites"),
    *("turned_into_runs", "units", "updated", "violations"),
}
"""Objects whose keys are data: names of stages, queues, sites, invariants and labels, fields of a fetcher or site."""


def schema_file(command: str) -> Path:
    """`clerk site list` → site-list.json, `clerk status SITE` → status-site.json"""
    return FOLDER / f"{command.removeprefix('clerk ').replace('--', '').replace(' ', '-').lower()}.json"


def read_strict(file: Path) -> Schema:
    """The schema, which also rejects fields that it does not name. For readers it does not, so that a new field breaks
    no program."""
    schema: Schema = json.loads(file.read_text(encoding="utf-8"))
    _close(schema)
    return schema


def _close(schema: Any) -> None:
    if isinstance(schema, dict):
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
        for part in schema.values():
            _close(part)
    elif isinstance(schema, list):
        for part in schema:
            _close(part)


def widen_file(command: str, description: str, value: Any) -> None:
    """Write the schema again so that it describes this output too."""
    file = schema_file(command)
    head = {"$schema": _DIALECT, "title": f"{command} --json", "description": description}
    old = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    new = infer(value) if old is None else merge(old, infer(value))
    file.write_text(json.dumps({**head, **new}, indent=2) + "\n", encoding="utf-8")


def infer(value: Any, name: str = "") -> Schema:
    match value:
        case None:
            return {}  # nothing is known but that it may be null
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer"}
        case float():
            return {"type": "number"}
        case str():
            return {"type": "string"}
        case list():
            items: Schema | None = None
            for item in value:
                items = infer(item) if items is None else merge(items, infer(item))
            return {"type": "array", "items": items or {}}
    if name in _MAPS:
        values: Schema | None = None
        for item in value.values():
            values = infer(item) if values is None else merge(values, infer(item))
        return {"type": "object", "additionalProperties": values or {}}
    properties = {key: infer(item, key) for key, item in value.items()}
    return {"type": "object", "properties": properties, "required": list(properties)}


def merge(one: Schema, other: Schema) -> Schema:
    """A schema of what either describes. Keeps what was written by hand, such as descriptions."""
    if "type" not in one or "type" not in other:
        known, is_first = (one, True) if "type" in one else (other, False)
        merged = {**other, **one} if is_first else {**one, **other}
        return _or_null(merged) if known.get("type") else merged
    merged = copy.deepcopy({**other, **one})
    types = sorted({*_types(one), *_types(other)})
    if "number" in types and "integer" in types:
        types.remove("integer")
    merged["type"] = types[0] if len(types) == 1 else types
    if "properties" in one and "properties" in other:
        both = {**one["properties"], **other["properties"]}
        merged["properties"] = {
            key: merge(one["properties"][key], other["properties"][key])
            if key in one["properties"] and key in other["properties"]
            else copy.deepcopy(schema)
            for key, schema in both.items()
        }
        merged["required"] = [key for key in one.get("required", []) if key in other.get("required", [])]
    for part in ("items", "additionalProperties"):
        if isinstance(one.get(part), dict) and isinstance(other.get(part), dict):
            merged[part] = merge(one[part], other[part]) if one[part] and other[part] else one[part] or other[part]
    return merged


def _types(schema: Schema) -> list[str]:
    types = schema["type"]
    return list(types) if isinstance(types, list) else [types]


def _or_null(schema: Schema) -> Schema:
    types = sorted({*_types(schema), "null"})
    return {**schema, "type": types}
