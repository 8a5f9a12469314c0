"""sd_notify(3), sender and receiver. A worker sends READY and heartbeats; systemd or clerk's supervisor receives them.

Under a supervisor, each child sends to the supervisor, and the supervisor sends to systemd for all of them.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from pathlib import Path

logger = logging.getLogger(__name__)

ADDRESS = "NOTIFY_SOCKET"
READY = "READY=1"
ALIVE = f"{READY}\nWATCHDOG=1"
"""READY is repeated in every heartbeat, because a datagram can get lost."""
STOPPING = "STOPPING=1"
_MAX_DATAGRAM = 4096


def notify(message: str) -> None:
    """Send a datagram to the socket in NOTIFY_SOCKET, if set. Does not block; a failure is only logged."""
    address = os.environ.get(ADDRESS)
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram:
        datagram.setblocking(False)
        try:
            datagram.connect(address)
            datagram.send(message.encode())
        except OSError as error:
            logger.warning("cannot notify the supervisor at %s: %s", address, error)


class NotifyReceiver:
    """Receives the notifications of one process on its own socket."""

    def __init__(self, address: Path) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(address))
        self._socket.setblocking(False)
        self.reset()

    def reset(self) -> None:
        """Discard what an earlier process sent. Call it before the process is started."""
        self._receive()
        self.is_ready = self.is_stopping = self._sends_heartbeats = False
        self._last_received_at = time.monotonic()

    def drain(self) -> None:
        """Process all datagrams that have arrived."""
        for lines in self._receive():
            self._last_received_at = time.monotonic()
            self.is_ready |= READY in lines
            self._sends_heartbeats |= "WATCHDOG=1" in lines
            self.is_stopping |= STOPPING in lines

    def timed_out(self, seconds: float) -> bool:
        """Whether a process that sends heartbeats and is not stopping has sent nothing for so long."""
        elapsed = time.monotonic() - self._last_received_at
        return self._sends_heartbeats and not self.is_stopping and elapsed > seconds

    def _receive(self) -> list[list[str]]:
        messages = []
        while True:
            try:
                messages.append(self._socket.recv(_MAX_DATAGRAM).decode(errors="replace").splitlines())
            except BlockingIOError:
                return messages

    def close(self) -> None:
        self._socket.close()
