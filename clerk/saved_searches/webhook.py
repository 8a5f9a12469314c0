"""Signed webhooks, as the Standard Webhooks specification describes them (https://www.standardwebhooks.com).

The signature covers id, timestamp and body. The receiver compares it, rejects old timestamps, and recognises a
repeated request by its id.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time

import httpx

from clerk.config import Settings
from clerk.errors import AddressForbidden, WebhookFailed, WebhookForbidden
from clerk.saved_searches.notification import Notification
from clerk.saved_searches.repository import SECRET_PREFIX, Destination
from clerk.sources.http.client import PublicOnlyTransport, check_url
from clerk.sources.http.limits import HttpLimits


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """The header `webhook-signature`."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    digest = hmac.new(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def send(settings: Settings, notification: Notification, destination: Destination) -> None:
    """Send one request. Redirects are not followed: the signed content is for this receiver only."""
    assert destination.secret is not None
    body = json.dumps(notification.as_json()).encode()
    timestamp = int(time.time())
    headers = {
        "Content-Type": "application/json",
        "User-Agent": settings.user_agent_with_contact,
        "webhook-id": notification.key,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(destination.secret, notification.key, timestamp, body),
    }
    status = asyncio.run(_post(settings, destination, body, headers))
    if not 200 <= status < 300:
        raise WebhookFailed(f"the receiver returned status {status}")


async def _post(settings: Settings, destination: Destination, body: bytes, headers: dict[str, str]) -> int:
    """The response's status. Its body is not read."""
    limits = HttpLimits.from_settings(settings)
    try:
        async with (
            asyncio.timeout(3 * limits.timeout),
            httpx.AsyncClient(
                transport=PublicOnlyTransport(limits), timeout=limits.timeout, follow_redirects=False, trust_env=False
            ) as client,
            client.stream("POST", check_url(destination.address), content=body, headers=headers) as response,
        ):
            return response.status_code
    except AddressForbidden as error:
        raise WebhookForbidden(str(error)) from error
    except (TimeoutError, httpx.HTTPError, httpx.InvalidURL) as error:
        raise WebhookFailed(str(error) or type(error).__name__) from error
