"""The report of a torture run: counts and seconds to recover per kind of fault, and what went wrong."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tests.faults.torture.checks import DOUBLED, FAILED, LOST, STUCK, Violation
from tests.faults.torture.injector import CRASHES, KINDS, Measurements


@dataclass(frozen=True)
class Report:
    seed: int
    minutes: float
    runs: int
    units: int
    """Results of units that were accepted."""
    outcomes: dict[str, int]
    ignored: dict[str, int]
    """Results that the engine rejected or ignored: fenced, stale."""
    worker_exits: int
    settled_after: float
    """Seconds from the last fault until every run had ended."""
    measurements: Measurements
    violations: list[Violation]

    @property
    def passed(self) -> bool:
        return not self.violations

    def as_json(self) -> dict[str, Any]:
        measurements = self.measurements
        kinds = Counter(violation.kind for violation in self.violations)
        return {
            "passed": self.passed,
            "seed": self.seed,
            "minutes": self.minutes,
            "faults": {kind: self._figures(kind) for kind in KINDS if kind in measurements.injected},
            "kills_of_held_jobs": measurements.held_kills,
            "postgres_crashes": sum(measurements.injected[kind] for kind in CRASHES),
            "not_injected": measurements.not_injected,
            "rejected_actions": dict(measurements.rejected),
            "background": dict(measurements.background),
            "failed_repairs": measurements.failed_repairs,
            "runs": self.runs,
            "outcomes": self.outcomes,
            "accepted_results": self.units,
            "ignored_results": self.ignored,
            "worker_exits": self.worker_exits,
            "seconds_to_settle": round(self.settled_after, 1),
            **{kind.replace(" ", "_"): kinds[kind] for kind in (LOST, DOUBLED, STUCK, FAILED)},
            "violations": [str(violation) for violation in self.violations],
        }

    def _figures(self, kind: str) -> dict[str, float | int | None]:
        seconds = self.measurements.seconds.get(kind, [])
        return {
            "count": self.measurements.injected[kind],
            "measured": len(seconds),
            "median_seconds": round(statistics.median(seconds), 1) if seconds else None,
            "max_seconds": round(max(seconds), 1) if seconds else None,
        }

    def as_text(self) -> str:
        data, measurements = self.as_json(), self.measurements
        lines = [f"{'fault':<22}{'count':>8}{'measured':>10}{'median s':>10}{'max s':>8}"]
        for kind, figures in data["faults"].items():
            median, maximum = (
                "-" if figures[name] is None else f"{figures[name]:.1f}" for name in ("median_seconds", "max_seconds")
            )
            lines.append(f"{kind:<22}{figures['count']:>8,}{figures['measured']:>10,}{median:>10}{maximum:>8}")
        lines += [f"{kind:<22}{'not injected: ' + why}" for kind, why in data["not_injected"].items()]
        lines += [
            "",
            f"kills that hit a held job: {measurements.held_kills:,}; Postgres crashes: {data['postgres_crashes']:,}",
            f"runs: {self.runs:,} ({_listed(self.outcomes)}); workers that exited: {self.worker_exits:,}",
            f"accepted results: {self.units:,}; ignored results: {_listed(self.ignored)}",
            f"background: {_listed(measurements.background)}",
            f"rejected actions: {_listed(measurements.rejected)}",
            f"repairs that failed: {'; '.join(measurements.failed_repairs[:5]) or 'none'}",
            f"all runs had ended {self.settled_after:.1f} s after the last fault",
            ", ".join(f"{kind} {data[kind.replace(' ', '_')]}" for kind in (LOST, DOUBLED, STUCK, FAILED)),
        ]
        lines += [f"VIOLATION {violation}" for violation in self.violations[:50]]
        if len(self.violations) > 50:
            lines.append(f"and {len(self.violations) - 50:,} more violations")
        verdict = "passed" if self.passed else "FAILED"
        return "\n".join([*lines, f"{verdict} after {self.minutes:g} minutes of faults (--seed {self.seed})"])


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items(), key=str)) or "none"
