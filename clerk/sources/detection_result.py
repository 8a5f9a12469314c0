"""The result of a detection: candidates with settings, confidence and evidence, and what was tried."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from clerk.sources.vendors import BUILT_IN


class Confidence(StrEnum):
    """How sure a candidate is."""

    CERTAIN = "certain"
    """Vendor and settings follow from the address, from where it redirects to, from the page's own markup, or from the
    portal that the page embeds."""
    LIKELY = "likely"
    """The page links to one portal of the vendor as to its meetings, or a part of the settings is an assumption."""
    POSSIBLE = "possible"
    """A link that is not about meetings, one of several portals, an address that could not be checked, or a required
    setting was not found."""


ORDER = list(Confidence)
"""The best first."""


@dataclass
class Candidate:
    scraper: str
    extra: dict[str, Any]
    confidence: Confidence
    evidence: list[str]
    base: str = ""
    """The address of the portal."""

    @property
    def missing(self) -> list[str]:
        """The required settings that were not found."""
        fetcher = BUILT_IN[self.scraper]
        try:
            fetcher.check(self.extra)
        except ValueError:
            alternatives = {fetcher.recognition.base, "client"}
            has_address = any(self.extra.get(key) for key in alternatives | {"page"})
            missing = [
                key for key in fetcher.required if not self.extra.get(key) and not (key == "client" and has_address)
            ]
            return missing or ["client"]
        return []

    def lower(self, confidence: Confidence, reason: str = "") -> None:
        """Make the candidate no better than this."""
        if ORDER.index(self.confidence) < ORDER.index(confidence):
            self.confidence = confidence
            self.evidence += [reason] if reason else []

    def as_dict(self) -> dict[str, Any]:
        return {
            "vendor": self.scraper,
            "extra": self.extra,
            "confidence": str(self.confidence),
            "missing": self.missing,
            "evidence": self.evidence,
        }


@dataclass(frozen=True)
class Attempt:
    """A request, and what came of it."""

    url: str
    result: str


@dataclass
class Detection:
    url: str
    candidates: list[Candidate] = field(default_factory=list)
    """The best first. None: the system is unknown."""
    tried: list[Attempt] = field(default_factory=list)
    requests: int = 0
    links: Candidate | None = None
    """The pages that link to documents of meetings, if no vendor was recognised: a source for the fetcher `links`."""
    unknown_host: str = ""
    """The host of the address, if it cannot be resolved: nothing else about the address is wrong then."""
    failure: str = ""
    """Why the address could not be requested, if no page of its host could be read."""

    @property
    def best(self) -> Candidate | None:
        return self.candidates[0] if self.candidates else None

    @property
    def is_ambiguous(self) -> bool:
        """Whether a second candidate is as good as the first."""
        return len(self.candidates) > 1 and self.candidates[0].confidence == self.candidates[1].confidence

    def as_dict(self) -> dict[str, Any]:
        best = self.best
        return {
            "url": self.url,
            "vendor": best.scraper if best else None,
            "extra": best.extra if best else None,
            "confidence": str(best.confidence) if best else "unknown",
            "missing": best.missing if best else [],
            "evidence": best.evidence if best else [],
            "candidates": [candidate.as_dict() for candidate in self.candidates],
            "links": self.links.as_dict() if self.links else None,
            "tried": [{"url": attempt.url, "result": attempt.result} for attempt in self.tried],
            "requests": self.requests,
        }
