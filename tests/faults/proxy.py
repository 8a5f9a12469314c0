"""A network that loses things: forwards Postgres connections, and cuts one at a chosen word."""

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
    """The next statement that has `request` in it. With an `answer`: only one whose answer has that in it."""

    request: bytes
    answer: bytes | None
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
        """The connection breaks before the statement arrives."""
        return self._add(Cut(request, None))

    def lose_answer(self, request: bytes, answer: bytes = b"") -> Cut:
        """The statement is done and committed, and the connection breaks before anybody hears of it."""
        return self._add(Cut(request, answer))

    def _add(self, cut: Cut) -> Cut:
        with self._lock:
            self._cuts.append(cut)
        return cut

    def close(self) -> None:
        # Closing alone does not wake a thread that waits in accept or recv.
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
                for pump in (self._requests, self._answers):
                    thread = threading.Thread(target=pump, args=[connection])
                    self._threads.append(thread)
                    thread.start()

    def _connect(self) -> socket.socket:
        host, port = str(self.server["host"]), int(self.server.get("port") or 5432)
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{host}/.s.PGSQL.{port}")
        return server

    def _requests(self, connection: _Connection) -> None:
        for data in _received(connection.client):
            with self._lock:
                cut = next((cut for cut in self._cuts if cut.request in data), None)
                if cut is not None and cut.answer is None:
                    self._cuts.remove(cut)
                    connection.shut()
                    cut.done.set()
                    return
                connection.cut = cut
            with contextlib.suppress(OSError):
                connection.server.sendall(data)
        connection.shut()

    def _answers(self, connection: _Connection) -> None:
        held = b""
        for data in _received(connection.server):
            held += data
            with self._lock:
                cut = connection.cut
                if cut is not None and not _is_ready(held):
                    continue
                if cut is not None and cut in self._cuts and (cut.answer or b"") in held:
                    self._cuts.remove(cut)
                    connection.shut()
                    cut.done.set()
                    return
                connection.cut = None
            with contextlib.suppress(OSError):
                connection.client.sendall(held)
            held = b""
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


def _is_ready(answer: bytes) -> bool:
    """Does it end with ReadyForQuery: the transaction is over, whatever became of it?"""
    while len(answer) >= 5:
        kind, length = answer[:1], int.from_bytes(answer[1:5])
        if kind == b"Z" and len(answer) == 6:
            return True
        answer = answer[1 + length :]
    return False
