"""The web server around the application: quiet, and quick to stop although pages are open."""

from __future__ import annotations

import socket
import threading

import uvicorn

from clerk.web.auth import AuthMiddleware
from clerk.web.live_updates import Broadcaster

_STOPPING_TAKES_AT_MOST = 5


def serve(app: AuthMiddleware, listener: socket.socket) -> None:
    # The first look takes longest. Nobody need wait for it who comes a moment later.
    threading.Thread(target=app.app.state.front.warm, daemon=True).start()
    _Server(
        app.app.state.live,
        uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_STOPPING_TAKES_AT_MOST,
        ),
    ).run(sockets=[listener])


class _Server(uvicorn.Server):
    def __init__(self, live: Broadcaster, settings: uvicorn.Config) -> None:
        super().__init__(settings)
        self.live = live

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Streams never end by themselves, and would be waited for."""
        self.live.stop()
        await super().shutdown(sockets)
