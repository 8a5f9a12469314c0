"""What to do about each class of error that a job can end with, by the name that the ledger shows.

Beside the class itself only its meaning stands; what helps is for whoever looks at hundreds of failures at once.
"""

from __future__ import annotations

_WRONG_AT_THE_SOURCE = "nothing helps here: tell the publisher; it is read again by itself once a new file is there"
_BY_ITSELF = "nothing need be done: the next run takes it up by itself"

REMEDIES: dict[str, str] = {
    # Documents, when they are read.
    "PdfMissing": "the file is gone from the storage: a retry fetches it again",
    "PdfAltered": "the file in the storage is not the one that was fetched: a retry fetches it again",
    "PdfEmpty": _WRONG_AT_THE_SOURCE,
    "NotAPdf": "a web page or another format under the name of a PDF: look whether the source wants a login now",
    "PdfEncrypted": "it wants a password: ask the publisher for an open copy",
    "PdfTruncated": "the file ends early: retry once; if it fails again it is broken at the source",
    "PdfBroken": _WRONG_AT_THE_SOURCE,
    "PdfTooLarge": "raise CLERK_MAX_DOWNLOAD_MB or CLERK_OCR_MAX_PAGES if you want it, then retry",
    "PdfTimeout": "raise CLERK_OCR_PAGE_SECONDS if it is worth it, then retry",
    "PdfMemory": "raise CLERK_OCR_MEMORY_MB if the machine has it, then retry",
    "LanguageMissing": "install the language for tesseract or mend `languages` in the site's extra, then retry",
    "ReaderCrashed": "look for the kernel's out-of-memory killer in the log of that machine, then retry",
    "ReaderStalled": "the machine was too busy: fewer workers at once there, then retry",
    "ToolFailed": "look at the message, mend the program that it names, then retry",
    "ToolMissing": "install the program that the message names (bin/setup does), then retry",
    "ModelsMissing": "install tesseract's models for the language that the message names (bin/setup does), then retry",
    "OutOfTime": "the machine was too busy, or the page is hostile: retry once",
    "OutOfMemory": "raise CLERK_OCR_MEMORY_MB if the machine has it, then retry",
    "OutputTooLarge": "a hostile page: leave it",
    "Crashed": "a program crashed on it: retry once, then leave it",
    "PasswordNeeded": "it wants a password: ask the publisher for an open copy",
    "Unreadable": _WRONG_AT_THE_SOURCE,
    "PageFailed": "see the message: a page could not be read",
    "ManifestUnreadable": "the notes on its pages are damaged: clerk reconcile-pipeline has it read again",
    # Fetching.
    "DownloadFailed": "the server was away or busy: retry later; if it lasts, look at the address in a browser",
    "DownloadRefused": "the server says no: look at the address in a browser; mend the site's extra if it moved",
    "AddressForbidden": "mend the address in the site's extra: only public http and https are fetched",
    "CertificateRefused": "the server's certificate is not valid: tell the publisher, retry when it is mended",
    "SourceUnreadable": "the source has changed its form: mend the site's scraper or extra (clerk plugins --fetcher)",
    "NotFetched": "it could not be fetched: a retry tries that again",
    "DocumentUnknown": "the site or document was removed meanwhile: nothing is to be done",
    # What the site's row says.
    "SiteMisconfigured": "mend it with clerk site edit, then retry",
    "SiteMisdescribed": "mend `deploy` in the site's extra with clerk site edit, then retry",
    "DeployerUnknown": "install the plugin, or mend `deploy` in the site's extra, then retry",
    # Plugins.
    "PluginRaised": "see the message and the plugin's own log; retry once its service is back",
    "PluginHung": "the plugin did not answer: raise CLERK_PLUGIN_TIME_LIMIT if it may take longer, then retry",
    "PluginNonsense": "a mistake in the plugin: mend it, then retry",
    "PluginFailed": "the plugin says that trying again is useless: see its message",
    "PluginMissing": "install the plugin that provides it, or name another, then retry",
    # Compiling, extracting, publishing.
    "TextsMissing": "its texts are gone: retry --stage ocr, or clerk reconcile-pipeline",
    "TextsGone": "texts vanished while the archive was made: clerk reconcile-pipeline, then retry",
    "PagesWouldVanish": "put back meetings.db, a published copy or the documents' texts from a backup, then retry",
    "ArchiveMissing": "the archive is gone: clerk rewind SITE --to compilation",
    "ArchiveDamaged": "the archive is damaged: clerk rewind SITE --to compilation",
    "ExtractorNonsense": "a mistake in the extractor: mend it, then retry",
    "ExtractorUnknown": "no such extractor: mend CLERK_EXTRACTOR or the site's extra, then retry",
    "SpacyUnavailable": "install spaCy and its model, or use the extractor `rules`, then retry",
    "CommandFailed": "see the message: mend the deploy command or what it needs, then retry",
    "CommandTimeout": "raise CLERK_DEPLOY_TIME_LIMIT, or make the deploy command quicker, then retry",
    "CommandUnset": "set CLERK_DEPLOY_COMMAND on the machines that deploy, then retry",
    # The job, rather than the document.
    "WorkerLost": "it killed or outlasted its worker at every attempt: look at that machine's log, then retry",
    "TimeLimitExceeded": "raise time_limit in the table stage_policy if it may take longer, then retry",
    "TaskNotFound": "an older worker took it: update the workers, then retry",
    "ClaimLost": "its worker was cut off for a while: retry",
    "JobFailed": "see the log of its worker, then retry",
    "JobAborted": _BY_ITSELF,
    "JobCancelled": _BY_ITSELF,
    "JobDeleted": _BY_ITSELF,
    "JobLost": "reconciliation does it again by itself; if it stays, retry",
    "FilesLost": "the next fetch brings its PDF if the source still has it; otherwise put it back from a backup",
    "RunCancelled": _BY_ITSELF,
    "RunEnded": _BY_ITSELF,
    "Superseded": _BY_ITSELF,
}
_UNKNOWN = "not one of clerk's own: read the message, mend the cause, then retry"


def remedy_for(error_code: str | None) -> str:
    return REMEDIES.get(error_code or "", _UNKNOWN)
