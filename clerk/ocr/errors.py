"""Why a document was not taken, or not read. The class names are what people see as `error_code`.

Permanent, since the next attempt would meet the same: what is wrong with the file, and the limits on CPU time and
memory, which do not depend on how busy the machine is. Transient: what the machine did (`ReaderCrashed`,
`ReaderStalled`) and what an operator can mend (`ToolMissing`, see `clerk.ocr.sandbox`). Another attempt goes on
with the pages that are still to be read.
"""

from __future__ import annotations

from clerk.errors import PermanentError


class PdfError(PermanentError):
    """Base of what can be wrong with a document."""


class PdfMissing(PdfError):
    """There is no file where the document should be."""


class PdfAltered(PdfError):
    """The file is not the one that was fetched."""


class PdfEmpty(PdfError):
    """A file or an answer without a byte, or a document without a page."""


class NotAPdf(PdfError):
    """Something else in place of a PDF: an error page, a Word file, a picture."""


class PdfEncrypted(PdfError):
    """It opens only with a password."""


class PdfTruncated(PdfError):
    """The end of the file is missing, and with it too many pages."""


class PdfBroken(PdfError):
    """A PDF that cannot be made sense of, or too many pages of it."""


class PdfTooLarge(PdfError):
    """More bytes than may be fetched, too many pages, or pages too large to be rendered."""


class PdfTimeout(PdfError):
    """Reading it took more CPU time than a document may have."""


class PdfMemory(PdfError):
    """Reading it took more memory than a document may have."""


class LanguageMissing(PdfError):
    """The site's languages are not what tesseract can read."""


class ReaderCrashed(Exception):
    """The reading process ended without a result: killed from outside, out of memory as a whole, a bug. Transient."""


class ReaderStalled(Exception):
    """The reading process said nothing for too long on the wall clock. Transient."""


class ClaimLost(Exception):
    """The job is somebody else's by now: stop, for nothing that is done will count."""


BY_NAME: dict[str, type[Exception]] = {
    error.__name__: error
    for error in (NotAPdf, PdfEmpty, PdfEncrypted, PdfTruncated, PdfBroken, PdfTooLarge, PdfTimeout, PdfMemory)
}
"""What the reading process may report about a document."""
