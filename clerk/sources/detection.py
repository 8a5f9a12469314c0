"""Detection: which vendor's system publishes the meetings at an address, and with which settings clerk fetches it.

The address comes first, then redirects, then pages: their markup, what they embed and what they link to, and pages of
the same host that are about meetings. What a vendor's addresses and pages look like is in `recognition` of its fetcher.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urljoin, urlsplit

from clerk.documents.media_types import HTML, READABLE, media_type_of
from clerk.documents.sanitize import clean_text
from clerk.errors import AddressForbidden, FetchError, HostNotFound, ParserCrashed, PdfTooLarge
from clerk.humanize import pluralize
from clerk.sources.detection_page import MAX_REQUESTS, Page, PageReader
from clerk.sources.detection_result import ORDER, Attempt, Candidate, Confidence, Detection
from clerk.sources.fetcher import Fetcher
from clerk.sources.http.client import HttpLimits, RateLimitedClient, redact_url
from clerk.sources.recognition import AddressMatch, Place, match_address
from clerk.sources.references import Reference
from clerk.sources.vendors import BUILT_IN

_REQUESTS_FOR_SETTINGS = 4
"""Kept for the candidates: pages that are merely about meetings are not requested with these."""
_MAX_CANDIDATES = 10
_MAX_SUSPECTS = 50
_MAX_LIKELY = 2
"""Vendors of which one town may have a portal each. A page that links to more is a list of towns."""
_ABOUT_MEETINGS = re.compile(
    r"agenda|minutes|meeting|council|commission|board\b|calendar|packet|legislat|actas?\b|proc[eè]s.verba|ordre.du.jour",
    re.IGNORECASE,
)
_FOLLOWED = re.compile(r"agenda|minutes|meeting|actas?\b|proc[eè]s.verba|ordre.du.jour", re.IGNORECASE)
_OTHER_MODULES = re.compile(r"polic(?:y|ies)", re.IGNORECASE)
"""What boards have on such systems without having their meetings there."""
_NO_PAGE = re.compile(r"\.(?:pdf|docx?|xlsx?|jpe?g|png|gif|zip|mp[34]|ics|xml)$", re.IGNORECASE)
_USUAL_PATHS = ("/AgendaCenter",)
"""Of systems that are part of a town's web site, which its first page may not link to."""


def complete_address(url: str) -> str:
    """The address as people type it, with a scheme."""
    url = url.strip()
    return url if "://" in url[:12] else f"https://{url}"


def match_vendors(url: str) -> list[AddressMatch]:
    """The vendors that an address alone points to. A host of a vendor decides; a path on another host does not."""
    found = [
        match
        for label, fetcher in BUILT_IN.items()
        if fetcher.recognition.name and (match := match_address(label, fetcher.recognition, url)) is not None
    ]
    for place in (Place.HOST, Place.DOCUMENT):
        if of_place := [match for match in found if match.place == place]:
            return of_place
    return found


def detect_by_address(url: str) -> Detection | None:
    """The result, if the address alone gives the vendor and all settings; None if requests are needed."""
    matches = match_vendors(url)
    candidates = [
        Candidate(match.scraper, _required_extra(match), Confidence.CERTAIN, [_on_host(url, match.scraper)], match.base)
        for match in matches
        if match.place == Place.HOST
    ]
    needs_request = any(candidate.missing or _needs_probe(candidate, url) for candidate in candidates)
    return Detection(url, candidates) if candidates and not needs_request else None


def _needs_probe(candidate: Candidate, url: str) -> bool:
    """Whether an API has to be asked about the town. An address of the API itself needs no question."""
    probe = _of(candidate).recognition.probe
    return bool(probe) and urlsplit(probe).hostname != urlsplit(url).hostname


def detection_limits(limits: HttpLimits) -> HttpLimits:
    """A failed request is reported instead of repeated, and a slow host does not hold up the operator for long."""
    return replace(limits, attempts=1, max_wait=min(limits.max_wait, 30.0), time_limit=min(limits.time_limit, 60.0))


async def detect(url: str, client: RateLimitedClient) -> Detection:
    """Find the vendor behind an address with at most MAX_REQUESTS requests. `client`: see `detection_limits`."""
    url = complete_address(url)
    if (by_address := detect_by_address(url)) is not None:
        return by_address
    return await _Detector(url, client).run()


@dataclass
class _Suspect:
    """An address with a path of a vendor on another host, which a page of the portal has to confirm."""

    match: AddressMatch
    evidence: str
    confidence: Confidence
    """If it is confirmed."""
    is_checked: bool = False

    @property
    def page(self) -> str:
        return self.match.base.rstrip("/") + BUILT_IN[self.match.scraper].recognition.start


class _Detector:
    def __init__(self, url: str, client: RateLimitedClient) -> None:
        self.url = url
        self.reader = PageReader(client)
        self.detection = Detection(url)
        self.found: dict[tuple[str, str], Candidate] = {}
        """By scraper and portal."""
        self.suspects: dict[tuple[str, str], _Suspect] = {}
        """By scraper and portal."""
        self.visited: set[str] = set()
        self.failed: dict[str, Exception] = {}
        """Why a page could not be requested or parsed, by its address."""
        self.pages: list[Page] = []

    async def run(self) -> Detection:
        with self.reader:
            for match in match_vendors(self.url):
                self._add_address(match, self.url, _on_host(self.url, match.scraper))
            await self._visit(self.url)
            if isinstance(self.failed.get(self.url), HostNotFound):
                self.detection.unknown_host = urlsplit(self.url).hostname or ""
                return self._finish()
            await self._confirm()
            if not self._has_good():
                await self._follow()
            if not self.found:
                self.detection.links = self._linked_documents()
            for candidate in list(self.found.values()):
                await self._complete(candidate)
                await self._probe(candidate)
        return self._finish()

    def _finish(self) -> Detection:
        self.detection.requests = self.reader.requests
        if not self.pages and self.url in self.failed:
            self.detection.failure = clean_text(str(self.failed[self.url]), 300)
        self.detection.candidates = self._ranked()
        return self.detection

    def _has_good(self) -> bool:
        return any(candidate.confidence != Confidence.POSSIBLE for candidate in self.found.values())

    # Requests

    async def _visit(self, url: str) -> None:
        """Request a page, and take candidates from its redirects, markup and references."""
        if url in self.visited or self.reader.requests >= MAX_REQUESTS:
            return
        self.visited.add(url)
        redirects: list[str] = []
        try:
            page = await self.reader.read(url, redirects)
        except (FetchError, ParserCrashed, PdfTooLarge) as error:
            self.failed[url] = error
            self._record(url, clean_text(str(error), 300))
            self._add_redirects(url, redirects)
            return
        self.pages.append(page)
        self._add_redirects(url, redirects)
        seen = self._add_page(page)
        kind = "JSON" if page.fields else "a page" if page.references else "neither a web page nor JSON"
        to = f" (redirected to {redact_url(page.url)})" if redirects else ""
        self._record(url, f"{kind}{to}: {'; '.join(seen) or 'no vendor recognised'}"[:500])

    def _record(self, url: str, result: str) -> None:
        self.detection.tried.append(Attempt(redact_url(url), result))

    # Candidates

    def _add(self, match: AddressMatch, confidence: Confidence, evidence: str, *, is_given: bool = False) -> None:
        """`is_given`: by an address that was given, which names the vendor also if it has none of the settings."""
        extra = _required_extra(match)
        several = BUILT_IN[match.scraper].recognition.several
        known = self.found.get(_key(match))
        if known is None:
            if (extra or is_given or match.place == Place.DOCUMENT) and len(self.found) < _MAX_CANDIDATES:
                self.found[_key(match)] = Candidate(match.scraper, extra, confidence, [evidence], match.base)
            return
        known.confidence = _better(known.confidence, confidence)
        if several and match.extra.get(several) and confidence == known.confidence:
            known.extra[several] = _merge_numbers(known.extra.get(several), match.extra[several])
        if evidence not in known.evidence and len(known.evidence) < 5:
            known.evidence.append(evidence)

    def _add_address(self, match: AddressMatch, url: str, evidence: str) -> None:
        """An address that was given, or to which one redirects."""
        if match.place == Place.PATH:
            self._suspect(match, f"the path of {redact_url(url)} is one of {_name(match.scraper)}", Confidence.CERTAIN)
        else:
            confidence = Confidence.CERTAIN if match.place == Place.HOST else Confidence.LIKELY
            self._add(match, confidence, evidence, is_given=True)

    def _suspect(self, match: AddressMatch, evidence: str, confidence: Confidence) -> None:
        if len(self.suspects) < _MAX_SUSPECTS:
            self.suspects.setdefault(_key(match), _Suspect(match, evidence, confidence))

    def _add_redirects(self, url: str, redirects: list[str]) -> None:
        for target in redirects:
            for match in match_vendors(target):
                where = f"{redact_url(url)} redirects to {redact_url(target)}"
                self._add_address(match, target, f"{where}, a portal of {_name(match.scraper)}")

    def _add_page(self, page: Page) -> list[str]:
        """Take candidates from a page; returns the names of the vendors whose own page it is."""
        owners = [
            label
            for label, fetcher in BUILT_IN.items()
            if any(page.fields >= fields for fields in fetcher.recognition.fields)
        ]
        for label in owners:
            known = next(fields for fields in BUILT_IN[label].recognition.fields if page.fields >= fields)
            names = ", ".join(sorted(known))
            self._add_own_page(
                label, page, f"{redact_url(page.url)} answers with the fields of {_name(label)}: {names}"
            )
        if page.references is None or page.fields:
            return [_name(label) for label in owners]
        for label, selector in page.references.marked.items():
            if self._is_own_marker(label, page):
                evidence = f"the page {redact_url(page.url)} has the markup of {_name(label)} ({selector})"
                self._add_own_page(label, page, evidence)
                owners.append(label)
        for reference in page.references.references:
            self._add_reference(page, reference)
        return [_name(label) for label in owners]

    def _is_own_marker(self, label: str, page: Page) -> bool:
        """Links to a portal of the vendor on another host are no mark of the page itself."""
        links = [
            reference.url
            for reference in _in_markup(page)
            if match_address(label, BUILT_IN[label].recognition, reference.url) is not None
        ]
        host = urlsplit(page.url).netloc
        selector = page.references.marked[label] if page.references else ""
        by_address = "href" in selector or "src" in selector
        return not by_address or any(urlsplit(link).netloc == host for link in links) or not links

    def _add_own_page(self, label: str, page: Page, evidence: str) -> None:
        recognition = BUILT_IN[label].recognition
        own = match_address(label, recognition, page.url)
        if own is not None:
            self._add(own, Confidence.CERTAIN, evidence)
            return
        matches = [
            match for each in _in_markup(page) if (match := match_address(label, recognition, each.url)) is not None
        ]
        complete = [match for match in matches if match.place != Place.DOCUMENT and not _is_incomplete(match)]
        if complete:
            by_portal: dict[tuple[str, str], list[AddressMatch]] = {}
            for match in complete:
                by_portal.setdefault(_key(match), []).append(match)
            for match in max(by_portal.values(), key=lambda each: (_is_same_site(page.url, each[0].base), len(each))):
                self._add(match, Confidence.CERTAIN, evidence)
            return
        parts = urlsplit(page.url)
        # A portal without paths of its own is the page itself.
        path = "" if recognition.start or recognition.paths else parts.path.rstrip("/")
        base = f"{parts.scheme}://{parts.netloc}{path}"
        assumed = AddressMatch(label, Place.PATH, base, {recognition.base: base})
        self._add(assumed, Confidence.LIKELY, f"{evidence}; that the portal is {base} is an assumption")

    def _add_reference(self, page: Page, reference: Reference) -> None:
        for match in match_vendors(reference.url):
            where = f"the page {redact_url(page.url)}"
            label = f" (“{clean_text(reference.text, 80)}”)" if reference.text else ""
            verb = {"link": "links to", "frame": "embeds"}.get(reference.kind, "refers to")
            evidence = f"{where} {verb} {redact_url(reference.url)}{label}"
            if match.place == Place.PATH:
                is_own = reference.kind == "frame" or _is_same_site(page.url, reference.url)
                if reference.kind in ("link", "frame"):
                    self._suspect(match, evidence, Confidence.CERTAIN if is_own else Confidence.LIKELY)
            elif match.place == Place.HOST and (reference.kind == "frame" or _is_same_site(page.url, reference.url)):
                self._add(match, Confidence.CERTAIN, evidence)
            elif match.place == Place.HOST and reference.kind == "link" and _is_about_meetings(reference):
                self._add(match, Confidence.LIKELY, evidence)
            else:
                self._add(match, Confidence.POSSIBLE, evidence)

    # Further requests

    async def _confirm(self) -> None:
        """Request the pages that show whether a path means the vendor that it suggests."""
        for key, suspect in list(self.suspects.items()):
            if suspect.is_checked or key in self.found:
                continue
            if self.reader.requests >= MAX_REQUESTS - _REQUESTS_FOR_SETTINGS:
                return
            suspect.is_checked = True
            await self._visit(suspect.page)
            if (confirmed := self.found.get(key)) is not None:
                confirmed.lower(suspect.confidence)
                confirmed.evidence.append(suspect.evidence)
            elif self._failed(suspect.page):
                self._add(suspect.match, Confidence.POSSIBLE, f"{suspect.evidence}, but it could not be checked")

    def _failed(self, url: str) -> bool:
        """Whether the request failed for a reason other than that there is no such page, or that it may not be made."""
        error = self.failed.get(url)
        is_absent = isinstance(error, AddressForbidden) or any(f"status {code}" in str(error) for code in (404, 410))
        return error is not None and not is_absent

    async def _follow(self) -> None:
        """Request pages of the same host that are about meetings, and usual paths, until one has a candidate."""
        for url in self._further_pages():
            if self.reader.requests >= MAX_REQUESTS - _REQUESTS_FOR_SETTINGS:
                return
            await self._visit(url)
            await self._confirm()
            if self._has_good():
                return

    def _further_pages(self) -> list[str]:
        page = self.pages[0] if self.pages else None
        given = urlsplit(page.url if page else self.url)
        links = page.references.references if page and page.references else []
        about = [
            reference.url.partition("#")[0]
            for reference in links
            if reference.kind == "link"
            and urlsplit(reference.url).netloc == given.netloc
            and not _NO_PAGE.search(urlsplit(reference.url).path)
            and _FOLLOWED.search(f"{reference.text} {urlsplit(reference.url).path}")
        ]
        origin = f"{given.scheme}://{given.netloc}"
        usual = [urljoin(origin, path) for path in _USUAL_PATHS]
        # The first page of the site, if the address is that of a document or of a deeper page.
        root = [f"{origin}/"] if given.path not in ("", "/") else []
        return list(dict.fromkeys([*about[:5], *usual, *root]))

    async def _complete(self, candidate: Candidate) -> None:
        """Look for required settings on the portal's first page."""
        start = _of(candidate).recognition.start
        if candidate.missing and start and candidate.base:
            page = candidate.base.rstrip("/") + start
            await self._visit(page)
            if not candidate.missing:
                candidate.lower(Confidence.LIKELY, f"that {redact_url(page)} is the right list is an assumption")
        if candidate.missing:
            candidate.confidence = Confidence.POSSIBLE
            candidate.evidence.append(f"missing: {', '.join(candidate.missing)}")

    async def _probe(self, candidate: Candidate) -> None:
        """Ask the API whether it knows the town; if not, the fetcher that needs no API is the candidate."""
        recognition = _of(candidate).recognition
        if not recognition.probe or candidate.missing or candidate.extra.get(recognition.base):
            return
        url = recognition.probe.format_map(candidate.extra)
        problem = await self._probe_list(url)
        fallback = recognition.fallback
        if problem and candidate.base:
            await self._visit(candidate.base.rstrip("/") + BUILT_IN[fallback].recognition.start)
        same = [key for key, each in self.found.items() if each.scraper == fallback and each.base == candidate.base]
        pages = [self.found.pop(key) for key in same]
        if problem is None:
            candidate.evidence.append(f"{redact_url(url)} returns a list")
            return
        candidate.evidence.append(f"no list from {redact_url(url)} ({problem})")
        if pages:
            candidate.scraper = fallback
            candidate.evidence += pages[0].evidence[:1]
        else:
            candidate.confidence = max(candidate.confidence, Confidence.LIKELY, key=ORDER.index)

    async def _probe_list(self, url: str) -> str | None:
        """Why the answer is not a list; None if it is one."""
        if self.reader.requests >= MAX_REQUESTS:
            return f"not requested: {MAX_REQUESTS} requests were made"
        try:
            answer = (await self.reader.get(url)).json()
            problem = None if isinstance(answer, list) else "the answer is not a list"
        except (FetchError, PdfTooLarge) as error:
            problem = clean_text(str(error), 200)
        self._record(url, problem or "a list")
        return problem

    def _linked_documents(self) -> Candidate | None:
        """The requested pages that link to documents of meetings. A page whose documents others have is left out."""
        documents: set[str] = set()
        pages: list[str] = []
        evidence: list[str] = []
        for page in self.pages:
            found = _documents_of_meetings(page)
            if found - documents:
                documents |= found
                pages.append(page.url)
                evidence.append(f"the page {redact_url(page.url)} links to {pluralize(len(found), 'document')}")
        extra = {"pages": pages if len(pages) > 1 else pages[0]} if pages else {}
        return Candidate("links", extra, Confidence.POSSIBLE, evidence) if pages else None

    # Result

    def _ranked(self) -> list[Candidate]:
        given = {_key(match) for match in match_vendors(self.url)}
        # A stored document that does not name the portal is no second portal.
        named = {scraper for (scraper, _), candidate in self.found.items() if candidate.extra}
        candidates = {key: each for key, each in self.found.items() if each.extra or key[0] not in named}
        is_given = any(each.confidence == "certain" for key, each in candidates.items() if key in given)
        scrapers = {scraper for scraper, _ in candidates}
        likely = {
            key[0] for key, each in candidates.items() if each.confidence == Confidence.LIKELY and key not in given
        }
        for key, candidate in candidates.items():
            recognition = _of(candidate).recognition
            others = [each for other, each in candidates.items() if other[0] == key[0] and other != key]
            if key in given:
                continue
            if is_given:
                candidate.lower(Confidence.LIKELY)
            if recognition.yields_to in scrapers:
                candidate.lower(Confidence.POSSIBLE, f"{_name(recognition.yields_to)} is preferred to it")
            if len(likely) > _MAX_LIKELY and not is_given:
                candidate.lower(Confidence.POSSIBLE, f"there are portals of {len(likely)} vendors")
            if others and candidate.confidence == Confidence.LIKELY:
                candidate.lower(Confidence.POSSIBLE, f"there are {len(others) + 1} portals of {recognition.name}")
        return sorted(candidates.values(), key=lambda each: (ORDER.index(each.confidence), -len(each.evidence)))


def _of(candidate: Candidate) -> type[Fetcher]:
    return BUILT_IN[candidate.scraper]


def _name(scraper: str) -> str:
    return BUILT_IN[scraper].recognition.name


def _on_host(url: str, scraper: str) -> str:
    return f"the address {redact_url(url)} is of a portal of {_name(scraper)}"


def _key(match: AddressMatch) -> tuple[str, str]:
    recognition = BUILT_IN[match.scraper].recognition
    identity = {name: value for name, value in _required_extra(match).items() if name != recognition.several}
    return match.scraper, json.dumps(identity, sort_keys=True)


def _required_extra(match: AddressMatch) -> dict[str, Any]:
    """The settings without those that only select a part of the documents."""
    fetcher = BUILT_IN[match.scraper]
    kept = {*fetcher.required, "client", "portal", "page", fetcher.recognition.base}
    several = fetcher.recognition.several
    extra = {name: value for name, value in match.extra.items() if name in kept}
    return {**extra, several: _merge_numbers(None, extra[several])} if several in extra else extra


def _is_incomplete(match: AddressMatch) -> bool:
    return bool(Candidate(match.scraper, dict(match.extra), Confidence.POSSIBLE, []).missing)


def _merge_numbers(known: Any, further: list[int]) -> int | list[int]:
    numbers = known if isinstance(known, list) else [known] if known is not None else []
    merged = sorted({*numbers, *further})[:50]
    return merged[0] if len(merged) == 1 else merged


def _better(first: Confidence, second: Confidence) -> Confidence:
    return min(first, second, key=ORDER.index)


def _is_same_site(first: str, second: str) -> bool:
    """Whether one host is the other, or below it: agendas.springfield.gov and www.springfield.gov."""
    hosts = [(urlsplit(url).hostname or "").removeprefix("www.") for url in (first, second)]
    return hosts[0] == hosts[1] or any(f".{hosts[n]}".endswith(f".{hosts[1 - n]}") for n in (0, 1))


def _in_markup(page: Page) -> list[Reference]:
    return [each for each in page.references.references if each.kind != "script"] if page.references else []


def _documents_of_meetings(page: Page) -> set[str]:
    """Addresses of documents that clerk reads, to which a page links as to those of meetings."""
    if page.references is None or page.fields:
        return set()
    links = [each for each in page.references.references if each.kind == "link"]
    documents = [each for each in links if media_type_of(urlsplit(each.url).path, "") in READABLE - {HTML}]
    is_list = _FOLLOWED.search(f"{page.references.title} {urlsplit(page.url).path}") is not None
    return {each.url.partition("#")[0] for each in documents if is_list or _is_about_meetings(each)}


def _is_about_meetings(reference: Reference) -> bool:
    text = f"{reference.text} {urlsplit(reference.url).path}"
    is_other = _OTHER_MODULES.search(text) is not None and _FOLLOWED.search(text) is None
    return _ABOUT_MEETINGS.search(text) is not None and not is_other
