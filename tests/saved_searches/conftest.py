from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.publish.conftest import plugins_dir as plugins_dir
from tests.publish.conftest import town as town
from tests.saved_searches.receivers import HttpReceiver, MailServer, running_http_receiver, running_mail_server


@pytest.fixture
def mail_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[MailServer]:
    """An SMTP server on loopback, which the settings of clerk name."""
    with running_mail_server() as server:
        monkeypatch.setenv("CLERK_SMTP_HOST", "127.0.0.1")
        monkeypatch.setenv("CLERK_SMTP_PORT", str(server.port))
        monkeypatch.setenv("CLERK_SMTP_TLS", "none")
        monkeypatch.setenv("CLERK_SMTP_FROM", "clerk@example.org")
        yield server


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpReceiver]:
    """A receiver of webhooks on loopback, to which clerk may connect."""
    with running_http_receiver() as receiver:
        monkeypatch.setenv("CLERK_ALLOW_LOOPBACK", "yes")
        yield receiver
