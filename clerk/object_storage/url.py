"""The address of a bucket, as in STORAGE_DIR: `s3://bucket/prefix?endpoint=https://…&region=…&timeout=…`.

Credentials are never part of it: the library reads them from the environment (AWS_*, GOOGLE_*, AZURE_*).
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlsplit

SCHEMES = ("s3", "gs", "az")
_OPTIONS = {"s3": ("endpoint", "region", "timeout"), "gs": ("timeout",), "az": ("endpoint", "timeout")}
_DEFAULT_TIMEOUT = 30.0


@dataclass(frozen=True)
class BucketUrl:
    scheme: str
    bucket: str
    prefix: str = ""
    """Without a slash at either end."""
    endpoint: str | None = None
    region: str | None = None
    timeout: float = _DEFAULT_TIMEOUT
    """Seconds without a response after which a request has failed."""

    def __str__(self) -> str:
        """Without the options."""
        return f"{self.scheme}://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")

    @property
    def with_options(self) -> str:
        options = [(name, getattr(self, name)) for name in ("endpoint", "region") if getattr(self, name)]
        if self.timeout != _DEFAULT_TIMEOUT:
            options.append(("timeout", f"{self.timeout:g}"))
        return str(self) + "".join(
            f"{'&' if number else '?'}{name}={quote(value, safe=':/')}" for number, (name, value) in enumerate(options)
        )


def is_bucket_url(text: str) -> bool:
    return text.partition("://")[0].lower() in SCHEMES and "://" in text


def parse_bucket_url(text: str) -> BucketUrl:
    """Raises ValueError(problem, remedy). Neither contains a value that could be a secret."""
    example = "write it as s3://bucket/prefix?endpoint=https://storage.example.org"
    try:
        parts = urlsplit(text)
        has_login = parts.username is not None or parts.password is not None
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise ValueError("is not the address of a bucket", example) from None
    scheme = parts.scheme.lower()
    if has_login or parts.fragment:
        raise ValueError("contains more than a bucket, a prefix and options", f"{_CREDENTIALS}; {example}")
    if not parts.netloc or ":" in parts.netloc:
        raise ValueError("names no bucket", example)
    known = _OPTIONS[scheme]
    if unknown := sorted(set(options) - set(known)):
        raise ValueError(
            f"has the option {unknown[0][:40]!r}, which {scheme}:// does not have",
            f"use only {', '.join(known)}; {_CREDENTIALS}",
        )
    endpoint = options.get("endpoint")
    if endpoint is not None and not _is_endpoint(endpoint):
        raise ValueError(
            "has an endpoint that is not an http:// or https:// address of a server", f"{_CREDENTIALS}; {example}"
        )
    prefix = "/".join(part for part in unquote(parts.path).split("/") if part)
    if any(part in (".", "..") for part in prefix.split("/")):
        raise ValueError("has a prefix with . or ..", example)
    return BucketUrl(scheme, parts.netloc, prefix, endpoint, options.get("region"), _seconds(options.get("timeout")))


_CREDENTIALS = "credentials are read from the environment (AWS_ACCESS_KEY_ID …), never from this setting"


def _is_endpoint(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.username is None
            and parts.password is None
            and not parts.query
            and not parts.fragment
            and (parts.port or 1) > 0
        )
    except ValueError:
        return False


def _seconds(text: str | None) -> float:
    if text is None:
        return _DEFAULT_TIMEOUT
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= 3600:
        raise ValueError("has a timeout that is not a number of seconds from 0.1 to 3600", "write timeout=30")
    return value
