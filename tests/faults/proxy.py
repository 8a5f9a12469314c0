"""A TCP proxy for Postgres: closes connections, delays them, discards what they carry, or loses one response."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict


@dataclass(eq=False)
class Cut:
    """Close the connection at the next statement that contains `request`. With a `response`: only at one whose response
    contains that, after the statement was executed. With `is_black_hole` the connection stays open, but nothing that is
    sent on it arrives any more, in either direction."""

    request: bytes
    response: bytes | None
    is_black_hole: bool = False
    done: threading.Event = field(default_factory=threading.Event)


class Proxy:
    def __init__(self, url: str) -> None:
        self.server = conninfo_to_dict(url)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.delay = 0.0
        """Seconds by which every response is delayed."""
        self._cuts: list[Cut] = []
        self._lock = threading.Lock()
        self._connections: set[_Connection] = set()
        self._acceptor = threading.Thread(target=self._accept)
        self._acceptor.start()

    @property
    def url(self) -> str:
        credentials = quote(str(self.server.get("user", "")), safe="")
        if password := self.server.get("password"):
            credentials += f":{quote(str(password), safe='')}"
        host, port = self.listener.getsockname()
        return f"postgresql://{credentials}@{host}:{port}/{self.server['dbname']}?sslmode=disable&gssencmode=disable"

    def lose_request(self, request: bytes) -> Cut:
        """Close the connection before the server receives the statement."""
        return self._add(Cut(request, None))

    def lose_response(self, request: bytes, response: bytes = b"") -> Cut:
        """Close the connection after the statement was committed, before the client receives the response."""
        return self._add(Cut(request, response))

    def black_hole(self, request: bytes) -> Cut:
        """Drop the response after the statement was committed, and everything after it. Both ends believe that the
        connection is alive."""
        return self._add(Cut(request, b"", is_black_hole=True))

    def _add(self, cut: Cut) -> Cut:
        with self._lock:
            self._cuts.append(cut)
        return cut

    def withdraw(self, cut: Cut) -> None:
        """Forget a cut that no statement has triggered."""
        with self._lock, contextlib.suppress(ValueError):
            self._cuts.remove(cut)

    def close_connections(self) -> int:
        """Close the open connections; returns their number."""
        connections = self._open()
        for connection in connections:
            connection.shut()
        return len(connections)

    def black_hole_connections(self) -> int:
        """Discard whatever the open connections send from now on, without closing them; returns their number."""
        connections = self._open()
        for connection in connections:
            connection.is_black_hole = True
        return len(connections)

    def _open(self) -> list[_Connection]:
        with self._lock:
            return list(self._connections)

    def close(self) -> None:
        # Closing a socket does not wake a thread that waits in accept or recv; shutdown does.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self.listener.close()
        connections = self._open()
        for connection in connections:
            connection.shut()
        for connection in connections:
            for thread in connection.threads:
                thread.join()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                try:
                    server = self._connect()
                except OSError:  # the server does not run
                    client.close()
                    continue
                connection = _Connection(client, server)
                with self._lock:
                    self._connections.add(connection)
                connection.threads = [
                    threading.Thread(target=self._forward, args=[connection, forward])
                    for forward in (self._forward_requests, self._forward_responses)
                ]
                for thread in connection.threads:
                    thread.start()

    def _forward(self, connection: _Connection, forward: Callable[[_Connection], None]) -> None:
        forward(connection)
        connection.shut()
        with self._lock:
            connection.directions -= 1
            if connection.directions == 0:
                connection.client.close()
                connection.server.close()
                self._connections.discard(connection)

    def _connect(self) -> socket.socket:
        host, port = str(self.server["host"]), int(self.server.get("port") or 5432)
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(f"{host}/.s.PGSQL.{port}")
        except OSError:
            server.close()
            raise
        return server

    def _forward_requests(self, connection: _Connection) -> None:
        for data in _received(connection.client):
            if connection.is_black_hole:
                continue
            with self._lock:
                cut = next((cut for cut in self._cuts if cut.request in data), None)
                if cut is not None and cut.response is None:
                    self._cuts.remove(cut)
                    connection.shut()
                    cut.done.set()
                    return
                connection.cut = cut
            with contextlib.suppress(OSError):
                connection.server.sendall(data)

    def _forward_responses(self, connection: _Connection) -> None:
        buffer = b""
        for data in _received(connection.server):
            if connection.is_black_hole:
                continue
            buffer += data
            with self._lock:
                cut = connection.cut
                if cut is not None and not _is_ready(buffer):
                    continue
                if cut is not None and cut in self._cuts and (cut.response or b"") in buffer:
                    self._cuts.remove(cut)
                    cut.done.set()
                    if cut.is_black_hole:
                        connection.is_black_hole = True
                        continue
                    connection.shut()
                    return
                connection.cut = None
            if self.delay:
                time.sleep(self.delay)
            if not connection.is_black_hole:
                with contextlib.suppress(OSError):
                    connection.client.sendall(buffer)
            buffer = b""


@dataclass(eq=False)
class _Connection:
    client: socket.socket
    server: socket.socket
    cut: Cut | None = None
    is_black_hole: bool = False
    directions: int = 2
    """That still forward data."""
    threads: list[threading.Thread] = field(default_factory=list)

    def shut(self) -> None:
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _received(end: socket.socket) -> Iterator[bytes]:
    with contextlib.suppress(OSError):
        while data := end.recv(1 << 16):
            yield data


def _is_ready(response: bytes) -> bool:
    """Whether the response ends with ReadyForQuery: the transaction has ended."""
    while len(response) >= 5:
        kind, length = response[:1], int.from_bytes(response[1:5])
        if kind == b"Z" and len(response) == 6:
            return True
        response = response[1 + length :]
    return False
