"""Uvicorn with clerk's settings: no access log, and a shutdown that ends the open event streams."""

from __future__ import annotations

import socket
import threading

import uvicorn

from clerk.web.auth import AuthMiddleware
from clerk.web.live_updates import Broadcaster

_SHUTDOWN_TIMEOUT = 5


def serve(app: AuthMiddleware, listener: socket.socket) -> None:
    # The first load of the overview is the slowest: start it before the first request.
    threading.Thread(target=app.app.state.overview.warm, daemon=True).start()
    _Server(
        app.app.state.broadcaster,
        uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT,
        ),
    ).run(sockets=[listener])


class _Server(uvicorn.Server):
    def __init__(self, broadcaster: Broadcaster, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.broadcaster = broadcaster

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Uvicorn waits for open responses, and event streams never end unless they are stopped."""
        self.broadcaster.stop()
        await super().shutdown(sockets)
