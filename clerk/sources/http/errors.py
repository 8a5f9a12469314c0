"""Why something could not be fetched. The class names are what people see as `error_code`.

What is wrong with a document that did arrive is a PdfError, as it is when one is read: `clerk.ocr.errors`.
"""

from __future__ import annotations

from clerk.errors import PermanentError


class FetchError(Exception):
    """Base of them all: something outside went wrong, not clerk and not a plugin."""


class DownloadFailed(FetchError):
    """It may work another time: the server failed, was busy, slow or out of reach."""


class DownloadRefused(FetchError, PermanentError):
    """The server will not give it: not found, forbidden, a redirect without an end."""


class AddressForbidden(FetchError, PermanentError):
    """The address is not a public http or https one."""


class CertificateRefused(FetchError, PermanentError):
    """The server cannot prove that it is the one we asked for."""


class SourceUnreadable(FetchError, PermanentError):
    """The place that lists the documents is there, but not what the fetcher was made for."""
