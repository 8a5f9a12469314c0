"""Why something could not be fetched. The class names are what people see as `error_code`."""

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


class PdfTooLarge(FetchProblem, PermanentError):
    """More bytes than allowed, as received or as decompressed."""


class PdfEmpty(FetchProblem, PermanentError):
    """An answer without any content."""


class NotAPdf(FetchProblem, PermanentError):
    """An answer with other content than a PDF: an error page, a login page, a picture."""


class SourceUnreadable(FetchProblem, PermanentError):
    """The place that lists the documents is there, but not what the fetcher was made for."""
