"""robots.txt (RFC 9309): which addresses of a server clerk may request, and how often.

Each server's robots.txt is read once per fetch. Without one (a 4xx status, more than five redirects) everything is
allowed; while it cannot be read (a 5xx status, no connection) nothing is.
"""

from __future__ import annotations

import asyncio
import io
import logging
import re
from collections.abc import Awaitable, Callable, Iterator

import httpx
from protego import Protego

from clerk.errors import BudgetExceeded, FetchError, RobotsDisallowed
from clerk.sources.http.body import Sink

logger = logging.getLogger(__name__)

AGENT = "clerk"
"""The product token by which robots.txt names clerk, whatever User-Agent a site's requests have."""
MAX_BYTES = 500 * 1024
"""As much as RFC 9309 requires a client to parse. The rest is ignored."""
MAX_SECONDS = 60.0
_MAX_CRAWL_DELAY = 120.0
_MAX_SERVERS = 1000
"""Whose rules are kept. A listing can name any number of servers."""
_MAX_NAMED_RULES = 1000
_FIELD = re.compile(r"\s*([a-z][a-z -]*?)\s*(?:[:\s])\s*([^#]*)", re.IGNORECASE)


class HeadComplete(Exception):
    """The sink has as much of the body as is wanted."""


class HeadSink(Sink):
    """Keeps the beginning of a body, and raises HeadComplete at the limit."""

    def __init__(self, size: int) -> None:
        self.buffer = io.BytesIO()
        self.wanted = size
        super().__init__(self.buffer, 1 << 62)

    def write(self, chunk: bytes) -> None:
        super().write(chunk[: self.wanted - self.size])
        if self.size >= self.wanted:
            raise HeadComplete


class RobotsRules:
    """The rules of one server that apply to clerk."""

    def __init__(self, text: str = "") -> None:
        lines = list(_simplify_agents(text))
        self._parser = Protego.parse("\n".join(lines))
        self._patterns = list(_disallowed_patterns(lines))[:_MAX_NAMED_RULES]
        self.crawl_delay = min(self._parser.crawl_delay(AGENT) or 0.0, _MAX_CRAWL_DELAY)

    def check(self, url: httpx.URL) -> None:
        """Raise RobotsDisallowed, with the rule, if clerk may not request the URL."""
        if self._parser.can_fetch(str(url), AGENT):
            return
        matching = (one for one in self._patterns if not _single_rule(one).can_fetch(str(url), AGENT))
        pattern = max(matching, key=len, default="")
        rule = f'the rule "Disallow: {pattern[:100]}"' if pattern else "a rule"
        raise RobotsDisallowed(f"{url.host} does not allow {url.path[:200]}: {rule} of its robots.txt")


class RobotsCache:
    """The rules by server. `read` returns the text of a robots.txt; its errors are kept as well."""

    def __init__(self, read: Callable[[httpx.URL], Awaitable[str]]) -> None:
        self._read = read
        self._servers: dict[str, _Server] = {}

    async def rules(self, url: httpx.URL) -> RobotsRules:
        address = url.copy_with(path="/robots.txt", query=None, fragment=None)
        server = self._servers.setdefault(str(address), _Server())
        if len(self._servers) > _MAX_SERVERS:
            del self._servers[next(iter(self._servers))]
        async with server.lock:
            if server.result is None:
                server.result = await self._load(address)
        if isinstance(server.result, FetchError):
            raise server.result
        return server.result

    async def _load(self, address: httpx.URL) -> RobotsRules | FetchError:
        try:
            rules = RobotsRules(await self._read(address))
        except BudgetExceeded:  # of the listing; there may be some left for documents
            raise
        except FetchError as error:
            return error
        if rules.crawl_delay:
            logger.info("%s asks for %g s between requests (robots.txt)", address.host, rules.crawl_delay)
        return rules


class _Server:
    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.result: RobotsRules | FetchError | None = None


def _simplify_agents(text: str) -> Iterator[str]:
    """The lines, with one name for all other agents: the parser copies every rule to each agent of its group, so a file
    of thousands of agents and rules would need gigabytes."""
    for line in text.splitlines():
        if line.strip().lower().startswith("u"):  # User-agent, in all spellings that the parser accepts
            agent = re.split(r"[:\s]+", line.partition("#")[0].strip().lower())[-1]
            known = "*" if agent == "*" else AGENT if re.fullmatch(rf"{AGENT}\*?(?:/.*)?", agent) else "other"
            yield f"User-agent: {known}"
        else:
            yield line


def _disallowed_patterns(lines: list[str]) -> Iterator[str]:
    """The patterns of the groups that apply to clerk: those that name it or, if there is none, those of all agents."""
    wanted = AGENT if f"User-agent: {AGENT}" in lines else "*"
    agents: set[str] = set()
    in_rules = False
    for line in lines:
        if line.startswith("User-agent: "):
            agents = {line[12:]} if in_rules else {*agents, line[12:]}
            in_rules = False
        elif match := _FIELD.match(line):
            in_rules = True
            if wanted in agents and match[1].lower() == "disallow" and match[2].strip():
                yield match[2].strip()


def _single_rule(pattern: str) -> Protego:
    return Protego.parse(f"User-agent: *\nDisallow: {pattern}")
