"""Renders the Jinja templates. Autoescaping is on, and no template turns it off."""

from __future__ import annotations

import datetime
import re
import shlex
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from starlette.responses import HTMLResponse

from clerk.humanize import format_duration, pluralize, source_file
from clerk.stage_names import stage_name
from clerk.web.sanitize import sanitize_text, split_commands, split_highlights, split_jobs, without_name
from clerk.web.table_labels import label_cells

WEB_DIR = Path(__file__).parent
_AGE_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


@dataclass(frozen=True)
class RequestContext:
    """What every template may need to know about the request."""

    actions_allowed: bool = False
    notice: str | None = None
    """The result of the action that led to this page."""


request_context: ContextVar[RequestContext] = ContextVar("request_context", default=RequestContext())  # noqa: B039 (frozen)


def render(template: str, status_code: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(
        _templates.get_template(template).render({"search_text": ""} | values),
        status_code,
        {"Cache-Control": "no-store"},
    )


def _format_utc(time: datetime.datetime) -> str:
    return f"{time.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"


def _capitalize_first(text: str) -> str:
    return text[:1].upper() + text[1:]


def _format_age(time: datetime.datetime | None) -> str:
    if time is None:
        return "never"
    seconds = (datetime.datetime.now(datetime.UTC) - time).total_seconds()
    for size, unit in _AGE_UNITS:
        if seconds >= size:
            return f"{seconds // size:,.0f} {unit} ago"
    return "just now"


def is_web_url(text: str | None) -> bool:
    """Whether to link it: a `javascript:` URL in a document's source must stay text."""
    return text is not None and re.match(r"https?://[^\s/]", text, re.IGNORECASE) is not None


_templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(WEB_DIR / "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters |= {
    "age": _format_age,
    "capitalize_first": _capitalize_first,
    "duration": format_duration,
    "label_cells": label_cells,
    "number": "{:,}".format,
    "pluralize": pluralize,
    "sanitize": sanitize_text,
    "shell_quote": shlex.quote,
    "source_file": source_file,
    "split_commands": split_commands,
    "split_highlights": split_highlights,
    "split_jobs": split_jobs,
    "stage_name": stage_name,
    "utc": _format_utc,
    "without_name": without_name,
}
_templates.tests |= {"web_url": is_web_url}
_templates.globals["request_context"] = request_context.get
