"""A real SMTP server and a real receiver of webhooks, on loopback. Both record what they get."""

from __future__ import annotations

import contextlib
import email
import email.policy
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session


@dataclass
class MailServer:
    mails: list[EmailMessage] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    """Answers to the next messages, instead of accepting them."""
    port: int = 0

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 (aiosmtpd's name)
        if self.answers:
            return self.answers.pop(0)
        assert isinstance(envelope.content, bytes)
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        assert isinstance(message, EmailMessage)
        self.mails.append(message)
        self.recipients += envelope.rcpt_tos
        return "250 accepted"

    @property
    def texts(self) -> list[str]:
        return [mail.get_content() for mail in self.mails]


@contextlib.contextmanager
def running_mail_server() -> Iterator[MailServer]:
    server = MailServer()
    # Port 0 is not possible: the controller connects to the port that it was given.
    controller = Controller(server, hostname="127.0.0.1", port=_free_port())
    controller.start()
    server.port = controller.port
    try:
        yield server
    finally:
        controller.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class Received:
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.body)
        return value


@dataclass
class HttpReceiver:
    requests: list[Received] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    """Statuses of the next responses; 200 after them. Status 0: close the connection without a response."""
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks/path-secret"


@contextlib.contextmanager
def running_http_receiver() -> Iterator[HttpReceiver]:
    receiver = HttpReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.requests.append(Received(headers, body))
            status = receiver.statuses.pop(0) if receiver.statuses else 200
            if status == 0:
                self.close_connection = True
                return
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", receiver.url)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 (http.server's name)
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=[0.05], daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
