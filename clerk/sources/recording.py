"""Recordings: the answers of a source in readable files, to run a fetcher without the network.

A folder has recording.json, which lists the requests in order, and one file for the body of each answer.
Limitation: a fetcher that sends other requests than those recorded cannot be replayed; the error names the request.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx

from clerk.errors import ClerkError, PdfTooLarge
from clerk.sources.fetcher import Site
from clerk.sources.http.body import Decoder, Sink
from clerk.sources.redaction import Redaction

FILE = "recording.json"
_FORMAT = 1
_HEADERS = ("content-type", "location", "etag", "last-modified", "retry-after", "content-disposition")
"""Headers of answers that clerk or a fetcher uses. Others are not recorded: among them are cookies."""
_EXTENSIONS = {
    "text/html": ".html",
    "application/json": ".json",
    "application/pdf": ".pdf",
    "text/xml": ".xml",
    "application/xml": ".xml",
    "text/plain": ".txt",
    "text/csv": ".csv",
}
_BEGINNINGS = {b"%PDF-": ".pdf", b"<": ".html", b"{": ".json", b"[": ".json"}
"""For answers without a usual Content-Type."""
_MAX_SENT = 1000
"""Characters of a request's content in recording.json; of longer content it has the hash."""


class RecordingError(ClerkError):
    """A recording cannot be made, stored or read."""

    code = "RecordingError"


class NotRecorded(Exception):
    """A fetcher sent a request that the recording does not have."""


@dataclass(frozen=True)
class Answer:
    """A request and its answer."""

    method: str
    url: str
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    sent: str = ""
    """Content of the request: a form or JSON. `sha256:` and a hash if it is long."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.method, self.url, self.sent


@dataclass
class Recording:
    scraper: str
    site: Site
    recorded_on: date
    redaction: Redaction = field(default_factory=Redaction)
    answers: list[Answer] = field(default_factory=list)

    def write(self, folder: Path, *, replace: bool = False) -> None:
        """Write the files. A folder that exists must be empty, or with `replace` have a recording, which is deleted."""
        check_target(folder, replace)
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        entries = [self._write_answer(folder, number, answer) for number, answer in enumerate(self.answers, 1)]
        site = self.site
        content = {
            "format": _FORMAT,
            "recorded_on": str(self.recorded_on),
            "scraper": self.scraper,
            "site": {
                "subdomain": site.subdomain,
                "name": site.name,
                "extra": self.redaction.settings(dict(site.extra)),
                "start_year": site.start_year,
            },
            "redacted": list(self.redaction.names),
            "answers": entries,
        }
        (folder / FILE).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    def _write_answer(self, folder: Path, number: int, answer: Answer) -> dict[str, Any]:
        """Redacted here, at the end: only now all secrets are known."""
        url, body = self.redaction.url(answer.url), self.redaction.body(answer.body)
        headers = {name: self.redaction.text(value) for name, value in answer.headers.items()}
        entry: dict[str, Any] = {"method": answer.method, "url": url, "status": answer.status, "headers": headers}
        if answer.sent:
            content_type = "" if answer.sent.startswith(("{", "[")) else "x-www-form-urlencoded"
            entry["sent"] = _shorten(self.redaction.sent(answer.sent.encode(), content_type))
        if body:
            entry["file"] = _file_name(number, url, headers.get("content-type", ""), body)
            (folder / entry["file"]).write_bytes(body)
        return entry

    @classmethod
    def read(cls, folder: Path) -> Recording:
        file = folder / FILE
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            if content["format"] != _FORMAT:
                raise ValueError(f"its format is {content['format']}, not {_FORMAT}")
            site = content["site"]
            return cls(
                content["scraper"],
                Site(site["subdomain"], site["name"], site["extra"], site.get("start_year")),
                date.fromisoformat(content["recorded_on"]),
                Redaction(content["redacted"]),
                [_read_answer(folder, entry) for entry in content["answers"]],
            )
        except FileNotFoundError as error:
            raise RecordingError(f"there is no {error.filename}", "make it with `clerk plugins record`") from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            problem = f"{file} is not a recording ({type(error).__name__}: {error})"
            raise RecordingError(problem, "make it with `clerk plugins record`") from error


def check_target(folder: Path, replace: bool) -> None:
    """Raise RecordingError unless a recording can be written to the folder."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        if not replace:
            raise RecordingError(f"{folder} exists", "choose another folder, or give --replace")
        if not (folder / FILE).is_file():
            raise RecordingError(f"{folder} exists and has no {FILE}", "choose another folder")


def _read_answer(folder: Path, entry: Mapping[str, Any]) -> Answer:
    body = b""
    if name := entry.get("file"):
        if Path(name).name != name:
            raise ValueError(f"{name!r} is not the name of a file")
        body = (folder / name).read_bytes()
    headers = {str(key): str(value) for key, value in entry["headers"].items()}
    return Answer(entry["method"], entry["url"], int(entry["status"]), headers, body, entry.get("sent", ""))


def _file_name(number: int, url: str, content_type: str, body: bytes) -> str:
    last = unquote(urlsplit(url).path.rstrip("/").rpartition("/")[2])
    slug = re.sub(r"[^A-Za-z0-9_-]+", "-", last.rpartition(".")[0] or last)[:40].strip("-") or "answer"
    extension = _EXTENSIONS.get(content_type.partition(";")[0].strip().lower())
    if extension is None:
        beginning = body.lstrip()[:5]
        extension = next((found for start, found in _BEGINNINGS.items() if beginning.startswith(start)), ".bin")
    return f"{number:03}-{slug}{extension}"


def _shorten(sent: str) -> str:
    return sent if len(sent) <= _MAX_SENT else f"sha256:{hashlib.sha256(sent.encode()).hexdigest()}"


class RecordingTransport(httpx.AsyncBaseTransport):
    """Passes requests on, and adds each answer to a recording. Answers are limited to `max_bytes` in total."""

    def __init__(self, transport: httpx.AsyncBaseTransport, recording: Recording, max_bytes: int) -> None:
        self.transport = transport
        self.recording = recording
        self.max_bytes = max_bytes
        self.size = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self.transport.handle_async_request(request)
        body = await self._read(request, response)
        self.size += len(body)
        headers = {name: response.headers[name] for name in _HEADERS if name in response.headers}
        self.recording.redaction.add_headers(request.headers)
        for cookie in response.headers.get_list("set-cookie"):
            self.recording.redaction.add_secret(cookie.partition(";")[0].partition("=")[2])
        # Called for the secrets that it collects; the answer is redacted when it is written.
        self.recording.redaction.url(str(request.url))
        self.recording.redaction.sent(request.content, request.headers.get("content-type", ""))
        sent = request.content.decode("utf-8", "replace")
        self.recording.answers.append(
            Answer(request.method, str(request.url), response.status_code, headers, body, sent)
        )
        return httpx.Response(response.status_code, headers=headers, stream=httpx.ByteStream(body))

    async def _read(self, request: httpx.Request, response: httpx.Response) -> bytes:
        """The decoded body."""
        buffer = io.BytesIO()
        decoder = Decoder(response.headers.get("content-encoding", ""), Sink(buffer, self.max_bytes - self.size))
        try:
            async for chunk in response.aiter_raw():
                decoder.write(chunk)
            decoder.finish()
        except PdfTooLarge as error:
            url = self.recording.redaction.url(str(request.url))
            raise RecordingError(
                f"the recording is larger than {self.max_bytes:,} bytes at {url}",
                "record fewer documents or years, or give a larger --max-size",
            ) from error
        finally:
            await response.aclose()
        return buffer.getvalue()

    async def aclose(self) -> None:
        await self.transport.aclose()


class ReplayTransport(httpx.AsyncBaseTransport):
    """Responds with recorded answers. Equal requests get their answers in the recorded order, then the last again."""

    def __init__(self, recording: Recording) -> None:
        self.redaction = recording.redaction
        self.requests: list[str] = []
        """Method and URL of the requests so far."""
        self.not_recorded: list[str] = []
        self._answers: defaultdict[tuple[str, str, str], list[Answer]] = defaultdict(list)
        for answer in recording.answers:
            self._answers[answer.key].append(answer)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = self.redaction.url(str(request.url))
        sent = ""
        if request.content:
            sent = _shorten(self.redaction.sent(request.content, request.headers.get("content-type", "")))
        answers = self._answers.get((request.method, url, sent))
        if not answers:
            if request.url.path == "/robots.txt":
                return httpx.Response(httpx.codes.NOT_FOUND, stream=httpx.ByteStream(b""))
            described = f"{request.method} {url}" + (f" with {sent}" if sent else "")
            self.not_recorded.append(described)
            raise NotRecorded(f"the recording has no answer to {described}")
        self.requests.append(f"{request.method} {url}")
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return httpx.Response(answer.status, headers=dict(answer.headers), stream=httpx.ByteStream(answer.body))
