"""Turns what a page has read into HTML. Everything is escaped unless a template says otherwise, and none does."""

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

from clerk.humanize import format_duration, pluralize
from clerk.web.sanitize import commands, parts, sanitize_text

HERE = Path(__file__).parent
_AGES = ((86_400, "d"), (3_600, "h"), (60, "min"))


@dataclass(frozen=True)
class RequestContext:
    """What a page has to know of who looks at it."""

    may_act: bool = False
    notice: str | None = None
    """What the action before this page came to."""


request_context: ContextVar[RequestContext] = ContextVar("visit", default=RequestContext())  # noqa: B039 (it is frozen)
"""Of the request at hand, so that every page and macro can ask without being handed it."""


def page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(
        _templates.get_template(template).render({"words": ""} | values), status, {"Cache-Control": "no-store"}
    )


def _utc(moment: datetime.datetime) -> str:
    return f"{moment.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def _ago(moment: datetime.datetime | None) -> str:
    if moment is None:
        return "never"
    seconds = (datetime.datetime.now(datetime.UTC) - moment).total_seconds()
    for size, unit in _AGES:
        if seconds >= size:
            return f"{seconds // size:,.0f} {unit} ago"
    return "just now"


_templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def _is_web_address(text: str | None) -> bool:
    """What a link may lead to: a `javascript:` in a document's source must stay text."""
    return text is not None and re.match(r"https?://[^\s/]", text, re.IGNORECASE) is not None


_templates.filters |= {
    "ago": _ago,
    "commands": commands,
    "counted": pluralize,
    "harmless": sanitize_text,
    "number": "{:,}".format,
    "parts": parts,
    "sentence": _sentence,
    "shell": shlex.quote,
    "span": format_duration,
    "utc": _utc,
}
_templates.tests |= {"web_address": _is_web_address}
_templates.globals["visit"] = request_context.get
