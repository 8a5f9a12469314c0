"""sd_notify(3), both ends: a worker says that it is ready and alive, and whoever started it listens.

That is systemd for a worker on its own. In a family it is the parent, which then speaks for all of them: systemd
hears one process, and a member that has fallen silent is noticed as itself.
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
"""Both, every time: a datagram can get lost, and being ready twice is no harm. Who has said it goes on saying it."""
STOPPING = "STOPPING=1"
_LONGEST = 4096


def notify(message: str) -> None:
    """A datagram to the socket that our supervisor named, if it did. Never waits, and never fails the work."""
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
            logger.warning("the supervisor at %s cannot be told that we live: %s", address, error)


class NotifyReceiver:
    """Hears one process, through a socket of its own: what is said there needs no name."""

    def __init__(self, address: Path) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(address))
        self._socket.setblocking(False)
        self.reset()

    def reset(self) -> None:
        """The process is about to be started, again perhaps: what its predecessor said does not count."""
        self._read()
        self.is_ready = self.is_stopping = self._keeps_speaking = False
        self._heard_at = time.monotonic()

    def listen(self) -> None:
        for said in self._read():
            self._heard_at = time.monotonic()
            self.is_ready |= READY in said
            self._keeps_speaking |= "WATCHDOG=1" in said
            self.is_stopping |= STOPPING in said

    def timed_out(self, seconds: float) -> bool:
        """Nothing was heard for so long, from one that had begun to speak and did not say that it stops."""
        return self._keeps_speaking and not self.is_stopping and time.monotonic() - self._heard_at > seconds

    def _read(self) -> list[list[str]]:
        messages = []
        while True:
            try:
                messages.append(self._socket.recv(_LONGEST).decode(errors="replace").splitlines())
            except BlockingIOError:
                return messages

    def close(self) -> None:
        self._socket.close()
