"""The ASGI application: Datasette over the published archives, behind headers that keep page text from being obeyed."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib import resources
from pathlib import Path

from datasette.plugins import pm
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clerk.datasette_app import hooks
from clerk.datasette_app.lazy_datasette import ArchiveDatasette
from clerk.datasette_app.site_metadata import SiteMetadata

_INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def create_app(publish_dir: Path, storage_dir: Path, facts: SiteMetadata) -> ASGIApp:
    if not pm.is_registered(hooks):
        pm.register(hooks, name="clerk")
    # Else every address that is not there becomes a traceback in the log, with all that the visitor sent.
    pm.get_plugin("datasette.handle_exception").rich = None
    app: ASGIApp = ArchiveDatasette(publish_dir, storage_dir, facts).app()
    return _Headers(app)


class _Headers:
    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.headers = {
            "Content-Security-Policy": "default-src 'none'; img-src 'self' data:; style-src 'self' 'unsafe-inline';"
            f" script-src 'self' {' '.join(_own_scripts())}; connect-src 'self'; form-action 'self';"
            " base-uri 'none'; frame-ancestors 'none'",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "same-origin",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self.headers)
            await send(message)

        await self.app(scope, receive, send_with_headers if scope["type"] == "http" else send)


def _own_scripts() -> list[str]:
    """The hashes of the scripts that stand in Datasette's own pages: no other inline script is run."""
    scripts: set[str] = set()
    for template in (resources.files("datasette") / "templates").iterdir():
        # The one value that is filled in, of a setting that clerk leaves as it is.
        text = template.read_text(encoding="utf-8").replace("{{ datasette_allow_facet }}", "true")
        scripts |= {script for script in _INLINE.findall(text) if "{{" not in script and "{%" not in script}
    return sorted(f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in scripts)
