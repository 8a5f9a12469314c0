"""Finds the OCR engine that CLERK_OCR_ENGINE names, among those of plugins and of clerk itself. Used by the worker."""

from __future__ import annotations

import inspect

from clerk.config import Settings
from clerk.errors import InvalidPluginResult, PluginMissing
from clerk.ocr.ocr_engine import OcrEngine
from clerk.plugins import manager
from clerk.suggestions import did_you_mean

_HOOK = "ocr_engines"


def engine_classes(settings: Settings) -> dict[str, type[OcrEngine]]:
    """Name → class. The engine of a plugin replaces a built-in one of the same name."""
    classes: dict[str, type[OcrEngine]] = {}
    for plugin, engines in manager.load(settings).call_each(_HOOK):
        if not isinstance(engines, dict):
            raise InvalidPluginResult(f"plugin {plugin} returned {str(engines)[:100]!r} from {_HOOK}, not a dict")
        for name, engine in engines.items():
            if not (isinstance(name, str) and inspect.isclass(engine) and issubclass(engine, OcrEngine)):
                raise InvalidPluginResult(
                    f"plugin {plugin} returned {str(engine)[:100]!r} for {name!r} from {_HOOK}, "
                    f"not a class derived from {OcrEngine.__name__}"
                )
            classes.setdefault(name, engine)
    return classes


def find_engine(settings: Settings) -> type[OcrEngine]:
    """The class of the engine that the setting names. Raises PluginMissing, with the names that exist."""
    classes = engine_classes(settings)
    if settings.ocr_engine not in classes:
        near = did_you_mean(settings.ocr_engine, classes)
        raise PluginMissing(
            f"CLERK_OCR_ENGINE is {settings.ocr_engine!r}{f' ({near})' if near else ''};"
            f" the engines are {', '.join(sorted(classes))}"
        )
    return classes[settings.ocr_engine]
