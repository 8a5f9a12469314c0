"""Parses the links, rows or references of HTML pages in a process with limits on CPU time and memory: `parser_process`.

One process serves the pages of one fetch. A page that exceeds a limit ends as SourceUnreadable, which is not retried:
it would exceed the limit again.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from clerk.errors import JobError, ParserCrashed, SourceUnreadable
from clerk.ocr.ocr_engine import import_path
from clerk.sources.html_tree import MAX_RESPONSE_BYTES
from clerk.sources.parser_process import CPU_SECONDS, MAX_PAGE_BYTES
from clerk.sources.references import PageReferences
from clerk.sources.rows import RowPage

_MODULE = "clerk.sources.parser_process"
_TIMEOUT = 10 * CPU_SECONDS
"""Wall-clock seconds for one page. Several times the CPU limit, so that good pages do not fail on a busy machine."""
_CHUNK_SIZE = 1 << 16


@dataclass(frozen=True)
class Link:
    url: str
    text: str
    """The link text, with its title, aria-label and image alternatives."""
    heading: str
    """The nearest heading before the link."""
    context: str
    """The text of the table row, list item or paragraph that contains the link."""
    matches: tuple[bool, ...] = ()
    """For each pattern that was given to the parser: whether it matches the URL, with or without its fragment."""


@dataclass(frozen=True)
class LinkPage:
    title: str
    links: list[Link]
    """In document order. Addresses of more than 2,000 bytes are left out."""
    too_long: int
    """Number of http and https addresses that were left out."""


class LinkParser:
    """The parser process, started at the first page. One page at a time; `kill` may be called from another thread."""

    def __init__(self, cpu_seconds: float = CPU_SECONDS) -> None:
        self.cpu_seconds = cpu_seconds
        """The limit for one page."""
        self._process: _Process | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def parse(self, url: str, html: str, patterns: Sequence[str] = ()) -> LinkPage:
        """Parse one page. `patterns` are regular expressions, matched against each URL without regard to case."""
        return _build_page(url[:200], self._request(url, html, {"patterns": list(patterns)}))

    def parse_rows(self, url: str, html: str, selectors: Mapping[str, str | bool]) -> RowPage:
        """Parse the rows of one page: see `extract_rows` for the selectors."""
        response = self._request(url, html, {"selectors": dict(selectors)})
        if "rejected" in response:
            raise SourceUnreadable(f"{url[:200]} {response['rejected']}")
        return RowPage.from_response(url, response)

    def parse_references(self, url: str, html: str, markers: Mapping[str, Sequence[str]]) -> PageReferences:
        """Parse the addresses of one page, and find out which markers it has: CSS selectors by name."""
        response = self._request(url, html, {"markers": {name: list(each) for name, each in markers.items()}})
        if "rejected" in response:
            raise SourceUnreadable(f"{url[:200]} {response['rejected']}")
        return PageReferences.from_response(response)

    def _request(self, url: str, html: str, what: Mapping[str, Any]) -> dict[str, Any]:
        content = html.encode("utf-8", "replace")
        if len(content) > MAX_PAGE_BYTES:
            raise SourceUnreadable(f"{url[:200]} has {len(content):,} bytes, more than the limit of {MAX_PAGE_BYTES:,}")
        header = {"url": url, "bytes": len(content), "cpu_seconds": self.cpu_seconds, **what}
        with self._lock:
            self._process = process = self._process or _Process()
            try:
                response = process.request(json.dumps(header).encode() + b"\n" + content)
                if response is None:
                    raise self._exit_error(process, url[:200], what.get("patterns", ()))
            except BaseException:
                self._process = None
                process.close()
                raise
        result: dict[str, Any] = json.loads(response)
        return result

    def _exit_error(self, process: _Process, url: str, patterns: Sequence[str]) -> JobError:
        """Why the process exited without a response."""
        code = process.popen.wait()
        if -code == signal.SIGXCPU:
            what = "parsing it and matching the patterns of the site's extra" if patterns else "parsing it"
            return SourceUnreadable(f"{url}: {what} took more than {self.cpu_seconds:g} s of CPU time")
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return ParserCrashed(f"{url}: the process that parses HTML ended with {how} ({process.last_message})")

    def kill(self) -> None:
        """End the process at once. A page that is being parsed fails with ParserCrashed."""
        if (process := self._process) is not None:
            process.popen.kill()

    def close(self) -> None:
        self.kill()
        with self._lock:
            process, self._process = self._process, None
            if process is not None:
                process.close()


class _Process:
    def __init__(self) -> None:
        # A file, not a pipe: nothing reads it while the process runs, and a full pipe would block the process.
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        # No secrets in its environment: no database URL, no keys.
        self.popen = subprocess.Popen(
            [sys.executable, "-s", "-P", "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            cwd="/",
            env={"LANG": "C.UTF-8", **import_path()},
            start_new_session=True,
        )
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        self.stdin, self.stdout = self.popen.stdin, self.popen.stdout
        os.set_blocking(self.stdin.fileno(), False)

    def close(self) -> None:
        self.popen.kill()
        self.popen.wait()
        for pipe in (self.stdin, self.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self.stderr.close()

    def request(self, message: bytes) -> bytes | None:
        """Send a request and return the response; None if the process exited without one."""
        deadline = time.monotonic() + _TIMEOUT
        stdin, stdout = self.stdin.fileno(), self.stdout.fileno()
        unsent = memoryview(message)
        response = bytearray()
        # Not select.select, which refuses descriptors from 1024 on.
        selector = selectors.PollSelector()
        selector.register(stdout, selectors.EVENT_READ)
        selector.register(stdin, selectors.EVENT_WRITE)
        while (remaining := deadline - time.monotonic()) > 0:
            ready = {key.fd for key, _ in selector.select(remaining)}
            if stdin in ready:
                try:
                    unsent = unsent[os.write(stdin, unsent[:_CHUNK_SIZE]) :]
                except BrokenPipeError:
                    return None
                if not unsent:
                    selector.unregister(stdin)
            if stdout in ready:
                chunk = os.read(stdout, 1 << 20)
                if not chunk:
                    return None
                response += chunk
                if len(response) > MAX_RESPONSE_BYTES:
                    raise SourceUnreadable(f"the links of a page need more than {MAX_RESPONSE_BYTES:,} bytes")
                if response.endswith(b"\n"):
                    return bytes(response)
        raise ParserCrashed(f"the process that parses HTML did not respond within {_TIMEOUT:.0f} s")

    @property
    def last_message(self) -> str:
        """The last line of its standard error."""
        self.stderr.seek(0, os.SEEK_END)
        self.stderr.seek(max(0, self.stderr.tell() - 2000))
        lines = self.stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "no message"


def _build_page(url: str, response: dict[str, Any]) -> LinkPage:
    if "rejected" in response:
        raise SourceUnreadable(f"{url} {response['rejected']}")
    links = [
        Link(address, text, heading, context, tuple(matches))
        for heading, context, row in response["rows"]
        for address, text, matches in row
    ]
    return LinkPage(response["title"], links, response["too_long"])
