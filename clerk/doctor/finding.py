"""The result of a check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import psycopg

from clerk.errors import ClerkError, HostError, JobError


@dataclass(frozen=True)
class Finding:
    name: str
    """What was checked, in a word."""
    what: str
    """What was found: a value if all is well, else the problem."""
    remedy: str | None = None
    """What to do; None if nothing is to be done."""
    is_known: bool = True
    """Whether the check could be made."""

    @property
    def status(self) -> str:
        if not self.is_known:
            return "unknown"
        return "ok" if self.remedy is None else "problem"


def unknown(name: str, why: str) -> Finding:
    return Finding(name, f"not checked: {why}", is_known=False)


def problem(name: str, error: ClerkError | JobError) -> Finding:
    """An error with a remedy. That of a missing program or model is at the end of its message."""
    if isinstance(error, ClerkError):
        return Finding(name, error.what, error.remedy)
    what, separator, remedy = str(error).partition("; ")
    if separator and isinstance(error, HostError):
        return Finding(name, what, remedy)
    return Finding(name, str(error), error.remedy)


def run_check(name: str, check: Callable[[], Finding]) -> Finding:
    """Make a check. An error with a remedy is a problem; any other means that nothing is known."""
    try:
        return check()
    except (ClerkError, JobError) as error:
        return problem(name, error)
    except psycopg.errors.QueryCanceled:
        return unknown(name, "the database has not answered in time")
    except (psycopg.Error, OSError) as error:
        return unknown(name, f"{type(error).__name__}: {' '.join(str(error).split())}")
