"""Validation of a saved search: its name, its query and its destinations."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from clerk import config
from clerk.errors import EXIT_USAGE, AddressForbidden, ClerkError
from clerk.saved_searches.page_query import parse_query
from clerk.sources.http.client import check_url
from clerk.sources.http.ssrf import PublicOnlyBackend

FREQUENCIES = ("immediate", "daily", "weekly")
MAX_QUERY_LENGTH = 1000
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_PORTS = {"http": 80, "https": 443}


class InvalidSavedSearch(ClerkError):
    """A saved search cannot be added."""

    code = "InvalidSavedSearch"
    exit_code = EXIT_USAGE


@dataclass(frozen=True)
class NewDestination:
    channel: str
    """`mail`, `webhook` or `feed`."""
    address: str = ""
    frequency: str = "immediate"


def check_name(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        suggestion = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:63].strip("-")
        example = f", such as {suggestion}" if suggestion else ""
        raise InvalidSavedSearch(
            f"{name[:80]!r} is not a name of an alert", f"use 1 to 63 lower-case letters, digits and hyphens{example}"
        )


def check_query(query: str) -> str:
    """The query without surrounding spaces. Raises InvalidQuery if it cannot be understood."""
    query = query.strip()
    if len(query) > MAX_QUERY_LENGTH or not query.isprintable():
        raise InvalidSavedSearch(
            "the query is too long or has control characters", f"use at most {MAX_QUERY_LENGTH} printable characters"
        )
    parse_query(query)
    return query


def check_destinations(
    settings: config.Settings, mails: tuple[str, ...], webhooks: tuple[str, ...], feed: bool, frequency: str
) -> list[NewDestination]:
    if not (mails or webhooks or feed):
        raise InvalidSavedSearch("the alert has no destination", "give --mail ADDRESS, --webhook URL or --feed")
    if frequency not in FREQUENCIES:
        raise InvalidSavedSearch(f"{frequency!r} is not a frequency", f"use one of {', '.join(FREQUENCIES)}")
    if frequency != "immediate" and not mails:
        raise InvalidSavedSearch("a frequency is for mails only", "give --mail ADDRESS, or leave --frequency out")
    return [
        *(NewDestination("mail", _check_mail(address), frequency) for address in dict.fromkeys(mails)),
        *(NewDestination("webhook", _check_webhook(settings, url)) for url in dict.fromkeys(webhooks)),
        *([NewDestination("feed")] if feed else []),
    ]


def _check_mail(address: str) -> str:
    try:
        return config.mail_address(address)
    except ValueError as error:
        problem, remedy = error.args
        raise InvalidSavedSearch(f"the mail address {problem}", remedy) from error


def _check_webhook(settings: config.Settings, url: str) -> str:
    """The address that a name resolves to is checked whenever clerk connects; an IP address also here."""
    if not url.isascii() or not url.isprintable() or len(url) > 2000:
        raise InvalidSavedSearch("the URL of the webhook has invalid characters or is too long", "write it in ASCII")
    try:
        parsed = check_url(url)
        port = parsed.port or _PORTS[parsed.scheme]
        if (address := _ip_address(parsed.host)) is not None:
            PublicOnlyBackend(settings.allow_loopback, settings.allow_networks).check(parsed.host, address, port)
    except AddressForbidden as error:
        raise InvalidSavedSearch(f"the webhook is refused: {error}", "give a public http or https address") from error
    return str(parsed)


def _ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
