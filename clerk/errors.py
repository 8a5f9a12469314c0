"""Every error a person can meet: what happened, to which thing, and what to do about it.

The catch: only errors with a remedy belong here. What nobody can act on is a bug and keeps its traceback.
"""

from __future__ import annotations

from typing import ClassVar

OK, WRONG, USAGE, CANNOT_TELL = 0, 1, 2, 3
"""Exit codes of every command: fine; something is wrong; wrong usage; could not find out."""


class ClerkError(Exception):
    """Base of them all. The command line prints `what` and `remedy` as one sentence and exits with `exit_code`."""

    exit_code: ClassVar[int] = WRONG

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}: {remedy}.")
        self.what = what
        self.remedy = remedy


class SettingError(ClerkError):
    """A setting has a value that means nothing."""

    exit_code = USAGE


class DatabaseUnreachable(ClerkError):
    """Nothing answers, so nothing can be said about the pipeline."""

    exit_code = CANNOT_TELL


class DatabaseRefused(ClerkError):
    """The server answers and says no: rights, disk space, a lock held too long."""


class EmbeddedServerError(ClerkError):
    """The embedded Postgres cannot be used; whatever lies in its folder is left as it is."""

    exit_code = CANNOT_TELL


class MigrationError(ClerkError):
    """The schema cannot be moved, and was left as it stood before."""


class ForeignDatabase(MigrationError):
    """The database belongs to something else."""


class SchemaUnknown(MigrationError):
    """The schema is not the one this code was written for."""
