"""A TCP proxy for Postgres that closes a connection at a given statement or response."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict


@dataclass
class Cut:
    """Close the connection at the next statement that contains `request`. With a `response`: only at one whose response
    contains that, after the statement was executed."""

    request: bytes
    response: bytes | None
    done: threading.Event = field(default_factory=threading.Event)


class Proxy:
    def __init__(self, url: str) -> None:
        self.server = conninfo_to_dict(url)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self._cuts: list[Cut] = []
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

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

    def _add(self, cut: Cut) -> Cut:
        with self._lock:
            self._cuts.append(cut)
        return cut

    def close(self) -> None:
        # Closing a socket does not wake a thread that waits in accept or recv; shutdown does.
        for end in (self.listener, *self._sockets):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in (self.listener, *self._sockets):
            end.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = self._connect()
                self._sockets += [client, server]
                connection = _Connection(client, server)
                for forward in (self._forward_requests, self._forward_responses):
                    thread = threading.Thread(target=forward, args=[connection])
                    self._threads.append(thread)
                    thread.start()

    def _connect(self) -> socket.socket:
        host, port = str(self.server["host"]), int(self.server.get("port") or 5432)
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{host}/.s.PGSQL.{port}")
        return server

    def _forward_requests(self, connection: _Connection) -> None:
        for data in _received(connection.client):
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
        connection.shut()

    def _forward_responses(self, connection: _Connection) -> None:
        buffer = b""
        for data in _received(connection.server):
            buffer += data
            with self._lock:
                cut = connection.cut
                if cut is not None and not _is_ready(buffer):
                    continue
                if cut is not None and cut in self._cuts and (cut.response or b"") in buffer:
                    self._cuts.remove(cut)
                    connection.shut()
                    cut.done.set()
                    return
                connection.cut = None
            with contextlib.suppress(OSError):
                connection.client.sendall(buffer)
            buffer = b""
        connection.shut()


@dataclass
class _Connection:
    client: socket.socket
    server: socket.socket
    cut: Cut | None = None

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
