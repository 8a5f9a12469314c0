"""Why something could not be fetched. The class names are what people see as `error_code`.

What is wrong with a document that did arrive is a PdfError, as it is when one is read: `clerk.documents.failures`.
"""

from __future__ import annotations

from clerk.errors import PermanentError


class FetchProblem(Exception):
    """Base of them all: something outside went wrong, not clerk and not a plugin."""


class DownloadFailed(FetchProblem):
    """It may work another time: the server failed, was busy, slow or out of reach."""


class DownloadRefused(FetchProblem, PermanentError):
    """The server will not give it: not found, forbidden, a redirect without an end."""


class AddressForbidden(FetchProblem, PermanentError):
    """The address is not a public http or https one."""


class CertificateRefused(FetchProblem, PermanentError):
    """The server cannot prove that it is the one we asked for."""


class SourceUnreadable(FetchProblem, PermanentError):
    """The place that lists the documents is there, but not what the fetcher was made for."""
