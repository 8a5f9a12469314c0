"""Generates docs/errors.md from the classes in clerk/errors.py: python -m tests.docs.errors_page"""

from __future__ import annotations

import inspect
from pathlib import Path

from clerk.errors import JOB_ERRORS, JobError

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"

_HEADER = """\
# Errors

What a job can fail with: `error_code` in the ledger, in `failing_documents` and in `clerk failures`. The message names
the document, the value or the plugin. *Automatic* errors are retried with backoff until the attempts of the stage are
used up; the others fail permanently. `clerk failures --error CODE --retry` retries a group when the cause is fixed.
Errors of the *database* and of the *host*, the worker's machine, do not count as attempts: they are retried *until
solved*.

| code | cause | meaning | retried | remedy |
| --- | --- | --- | --- | --- |
"""


def page() -> str:
    return _HEADER + "".join(
        f"| `{code}` | {error.cause} | {_first_line(error)} | {_retried(error)} | {error.remedy} |\n"
        for code, error in JOB_ERRORS.items()
    )


def _first_line(error: type) -> str:
    return (inspect.getdoc(error) or "").partition("\n")[0]


def _retried(error: type[JobError]) -> str:
    if not error.cause.is_counted:
        return "until solved"
    if error.retryable:
        return "automatic"
    return "by an operator" if error.retry_helps else "no"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
