"""An operator action as a request of the dashboard, and its result in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

from clerk.monitoring.failures import FAILURE_STAGES
from clerk.pipeline.engine import QUEUES

_FIELDS = (
    *("site", "stage", "error", "document", "queue", "name", "query", "mail", "frequency", "feed"),
    *("items", "columns", "file", "date", "meeting", "kind"),
)


class InvalidAction(Exception):
    """The action does not exist, or a field is missing or invalid."""


@dataclass(frozen=True)
class ActionRequest:
    """An action and its fields, validated from a query string or a form."""

    action: str
    site: str = ""
    stage: str = ""
    error: str = ""
    document: str = ""
    queue: str = ""
    name: str = ""
    """Of an alert; `query` to `feed` describe a new one."""
    query: str = ""
    mail: str = ""
    frequency: str = ""
    feed: str = ""
    items: str = ""
    """A selection, separated by spaces: failed units as `stage:document`, groups of failures as `stage:error`."""
    columns: str = ""
    """Of a site to add or edit, as a JSON object."""
    file: str = ""
    """An entry of a source; `date`, `meeting` and `kind` describe it."""
    date: str = ""
    meeting: str = ""
    kind: str = ""

    @classmethod
    def parse(cls, action: str, values: Mapping[str, str]) -> ActionRequest:
        """`action` is one of ACTIONS in `clerk.web.actions`."""
        request = cls(action, **{name: values.get(name, "").replace("\0", "") for name in _FIELDS})
        document = request.document
        if request.stage and request.stage not in FAILURE_STAGES:
            raise InvalidAction(f"There is no stage {request.stage}.")
        if request.queue and request.queue not in QUEUES:
            raise InvalidAction(f"There is no queue {request.queue}.")
        if document and not (document.isascii() and document.isdigit() and len(document) < 19):
            raise InvalidAction(f"There is no document {document}.")
        return request

    @property
    def fields(self) -> dict[str, str]:
        """The fields that are not empty."""
        return {name: value for name in _FIELDS if (value := getattr(self, name))}

    @property
    def result_url(self) -> str:
        """The page that shows the result."""
        if self.action.endswith("-alert"):
            return "/alerts"
        if self.action == "remove-site":
            return "/sites"
        if self.action in ("set-date", "ignore-entry", "report-entry"):
            return f"/skipped?{urlencode({'site': self.site})}"
        if self.site:
            return f"/sites/{quote(self.site)}"
        if self.queue:
            return "/queues"
        return "/log" if self.action == "reconcile" else "/failures"


@dataclass(frozen=True)
class ActionResult:
    preview: str
    done: str = ""
    details: list[str] = field(default_factory=list)
    changes: bool = True
    """False: there is nothing to do, and `preview` says why."""

    cancel_url: str = ""
    """Where `Do nothing` leads, if not to the page of the result."""

    @property
    def message(self) -> str:
        return self.done if self.changes else self.preview
