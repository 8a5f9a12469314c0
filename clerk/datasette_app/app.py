"""The ASGI application: Datasette over the published archives, with security headers against scripts in page text."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib import resources

from datasette.plugins import pm
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clerk.datasette_app import hooks
from clerk.datasette_app.lazy_datasette import ArchiveDatasette
from clerk.datasette_app.site_metadata import SiteMetadata
from clerk.object_storage.path import StoragePath

_INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def create_app(
    publish_dir: StoragePath, storage_dir: StoragePath, site_metadata: SiteMetadata, allow_sql: bool = False
) -> ASGIApp:
    """`allow_sql`: visitors may run their own queries. Tables, facets and search work without."""
    if not pm.is_registered(hooks):
        pm.register(hooks, name="clerk")
    # Otherwise Datasette logs every 404 as a traceback with the variables of the request.
    pm.get_plugin("datasette.handle_exception").rich = None
    app: ASGIApp = ArchiveDatasette(publish_dir, storage_dir, site_metadata, allow_sql).app()
    return _Headers(app)


class _Headers:
    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.headers = {
            "Content-Security-Policy": "default-src 'none'; img-src 'self' data:; style-src 'self' 'unsafe-inline';"
            f" script-src 'self' {' '.join(_script_hashes())}; connect-src 'self'; form-action 'self';"
            " base-uri 'none'; frame-ancestors 'none'",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "same-origin",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self.headers)
                # Datasette says so only of a file to be saved.
                if scope["path"].endswith(".csv") and headers.get("Content-Type", "").startswith("text/plain"):
                    headers["Content-Type"] = "text/csv; charset=utf-8"
            await send(message)

        await self.app(scope, receive, send_with_headers if scope["type"] == "http" else send)


def _script_hashes() -> list[str]:
    """CSP hashes of the inline scripts in Datasette's own templates. No other inline script runs."""
    scripts: set[str] = set()
    for template in (resources.files("datasette") / "templates").iterdir():
        # The only template variable inside a script; clerk keeps Datasette's default for it.
        text = template.read_text(encoding="utf-8").replace("{{ datasette_allow_facet }}", "true")
        scripts |= {script for script in _INLINE_SCRIPT.findall(text) if "{{" not in script and "{%" not in script}
    return sorted(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts
    )
