"""Removes secrets from recorded requests and answers: tokens, keys, cookies, passwords.

The same rules apply to the requests of a replay, so that a fetcher finds the answer of a request with another token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit, urlunsplit

REDACTED = "REDACTED"
_NAMES = (
    r"[a-z_.-]*token|(?:[a-z_.-]*(?:api|access|subscription|private|secret|function)[_-]?)?key|sig|signature"
    r"|[a-z_-]*secret|[a-z_-]*passw(?:or)?d|pwd|[a-z_.-]*session_?(?:id)?|sid|auth(?:orization)?|credentials?|cookies?"
)
_MIN_SECRET_LENGTH = 6
"""Shorter values are not replaced everywhere: they may be part of ordinary words and numbers."""
_USERINFO = re.compile(r"(?i)(https?://)[^/\s\"'<>@?#]+@")


class Redaction:
    """Redacts the parameters with secret names, and all further occurrences of the values that they had."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names = tuple(names)
        """Names of parameters to redact in addition to the usual ones, in any case."""
        pattern = "|".join([_NAMES, *map(re.escape, self.names)])
        self._name = re.compile(pattern, re.IGNORECASE)
        self._parameter = re.compile(rf"((?:[?&;]|&amp;|\\u0026)(?:{pattern})=)([^&\"'<>\s#\\]+)", re.IGNORECASE)
        self._member = re.compile(rf"(\"(?:{pattern})\"\s*:\s*\")((?:[^\"\\]|\\.)*)(?=\")", re.IGNORECASE)
        self._secrets: set[str] = set()

    def is_secret(self, name: str) -> bool:
        return self._name.fullmatch(name) is not None

    def add_secret(self, value: object) -> None:
        text = str(value)
        if len(text) >= _MIN_SECRET_LENGTH and text != REDACTED:
            self._secrets.add(text)

    def add_headers(self, headers: Mapping[str, str]) -> None:
        """Collect the secrets of headers. The headers themselves are not recorded."""
        for name, value in headers.items():
            if name.lower() in ("cookie", "set-cookie"):
                for pair in value.split(";"):
                    self.add_secret(pair.partition("=")[2].strip())
            elif self.is_secret(name) or self.is_secret(name.lower().removeprefix("x-")):
                self.add_secret(value)
                self.add_secret(value.rpartition(" ")[2])  # without the scheme, such as Bearer

    def settings(self, value: Any, name: str = "") -> Any:
        """A site's `extra` without secrets."""
        match value:
            case dict():
                return {key: self.settings(inner, str(key)) for key, inner in value.items()}
            case list():
                return [self.settings(inner, name) for inner in value]
            case str() | int() if name and value and not isinstance(value, bool) and self.is_secret(name):
                self.add_secret(value)
                return REDACTED
            case str():
                return self.text(value)
        return value

    def url(self, url: str) -> str:
        """The URL without user name, password, fragment and values of secret parameters."""
        parts = urlsplit(url)
        query = "&".join(self._pair(pair) for pair in parts.query.split("&")) if parts.query else ""
        host = parts.netloc.rpartition("@")[2]
        return self._replace(urlunsplit(parts._replace(netloc=host, query=query, fragment="")))

    def _pair(self, pair: str) -> str:
        name, equals, value = pair.partition("=")
        if not equals or not value or not self.is_secret(name):
            return pair
        self.add_secret(value)
        self.add_secret(unquote_plus(value))
        return f"{name}={REDACTED}"

    def sent(self, content: bytes, content_type: str) -> str:
        """The content of a request, as text: a form, or JSON, without the values of secret fields."""
        text = content.decode("utf-8", "replace")
        if "x-www-form-urlencoded" in content_type:
            fields = parse_qsl(text, keep_blank_values=True)
            for name, value in fields:
                if self.is_secret(name):
                    self.add_secret(value)
            return self._replace(urlencode([(n, REDACTED if v and self.is_secret(n) else v) for n, v in fields]))
        try:
            return self._replace(json.dumps(self.settings(json.loads(text)), sort_keys=True, ensure_ascii=False))
        except (ValueError, RecursionError):
            return self.text(text)

    def text(self, text: str) -> str:
        """Text of an answer: secret parameters in its links and JSON are redacted, and user names in addresses."""
        for pattern in (self._parameter, self._member):
            text = pattern.sub(rf"\g<1>{REDACTED}", text)
        return self._replace(_USERINFO.sub(r"\1", text))

    def body(self, content: bytes) -> bytes:
        """The body of an answer. One that is not text is left as it is."""
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            if b"\0" in content or content.startswith(b"%PDF"):
                return content
            return self.text(content.decode("latin-1")).encode("latin-1")
        return self.text(text).encode()

    def _replace(self, text: str) -> str:
        # The longest first: one secret may contain another.
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, REDACTED)
        return text
