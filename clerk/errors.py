"""Every error a person can meet: what happened, to which thing, and what to do about it.

The catch: only errors with a remedy belong here. What nobody can act on is a bug and keeps its traceback.
"""

from __future__ import annotations

from typing import ClassVar

EXIT_OK, EXIT_FAILURE, EXIT_USAGE, EXIT_UNKNOWN = 0, 1, 2, 3
"""Exit codes of every command: fine; something is wrong; wrong usage; could not find out."""


class ClerkError(Exception):
    """Base of them all. The command line prints `what` and `remedy` as one sentence and exits with `exit_code`."""

    exit_code: ClassVar[int] = EXIT_FAILURE

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}: {remedy}{'' if remedy.endswith('?') else '.'}")
        self.what = what
        self.remedy = remedy


class SettingError(ClerkError):
    """A setting has a value that means nothing."""

    exit_code = EXIT_USAGE


class DatabaseUnreachable(ClerkError):
    """Nothing answers, so nothing can be said about the pipeline."""

    exit_code = EXIT_UNKNOWN


class DatabaseRefused(ClerkError):
    """The server answers and says no: rights, disk space, a lock held too long."""


class EmbeddedServerError(ClerkError):
    """The embedded Postgres cannot be used; whatever lies in its folder is left as it is."""

    exit_code = EXIT_UNKNOWN


class MigrationError(ClerkError):
    """The schema cannot be moved, and was left as it stood before."""


class ForeignDatabase(MigrationError):
    """The database belongs to something else."""


class SchemaMismatch(MigrationError):
    """The schema is not the one this code was written for."""


class PipelineError(ClerkError):
    """A move that the state machine refuses. One subclass per SQLSTATE of class KL."""

    sqlstate: ClassVar[str]


class SiteNotFound(PipelineError):
    """No such site."""

    sqlstate = "KL001"
    exit_code = EXIT_USAGE


class RunInProgress(PipelineError):
    """The site has a run that has not ended."""

    sqlstate = "KL002"


class RunSuperseded(PipelineError):
    """The run is not, or no longer, the site's present one."""

    sqlstate = "KL003"


class UnknownStage(PipelineError):
    """No such stage."""

    sqlstate = "KL004"
    exit_code = EXIT_USAGE


REMEDIES: dict[type[PipelineError], str] = {
    SiteNotFound: "look at the names in `clerk site list`",
    RunInProgress: "wait for it, or supersede it with --supersede",
    RunSuperseded: "nothing is to be done, a newer run took over",
    UnknownStage: "name one of fetch, ocr, compilation, extraction and deploy",
}
PIPELINE_ERRORS = {error.sqlstate: error for error in REMEDIES}


class PermanentError(Exception):
    """Base of errors inside a job that another attempt would meet again: a broken PDF, a refused login.

    Their class names are what people see as `error_code`; everything else that a job raises counts as transient.
    """
