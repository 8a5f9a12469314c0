"""Errors with a code and a remedy: all errors of jobs (JobError), and the errors that commands share (ClerkError).

Each class has a `code`, equal to its name, which is stored and shown as `error_code`. An error without a code is a bug
or comes from a library; it is recorded as UnexpectedError.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import ClassVar

EXIT_OK, EXIT_FAILURE, EXIT_USAGE, EXIT_UNKNOWN = 0, 1, 2, 3
"""Exit codes of every command: success; something is wrong; wrong usage; the state could not be determined."""


class ClerkError(Exception):
    """Base of errors of commands. The command prints `what` and `remedy` and exits with `exit_code`."""

    code: str
    exit_code: ClassVar[int] = EXIT_FAILURE
    remedy: str

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}" if remedy.endswith("?") else f"{what}: {remedy}.")
        self.what = what
        self.remedy = remedy


class SettingError(ClerkError):
    """A setting has an invalid value."""

    code = "SettingError"
    exit_code = EXIT_USAGE


class DatabaseUnreachable(ClerkError):
    """The database does not respond."""

    code = "DatabaseUnreachable"
    exit_code = EXIT_UNKNOWN


class DatabaseNotReady(DatabaseUnreachable):
    """A server responds, but accepts no sessions that write: it is starting, stopping or a standby. Soon it may."""

    code = "DatabaseNotReady"


class NoDatabase(DatabaseUnreachable):
    """There is no DATABASE_URL, and no embedded database under CLERK_HOME yet."""

    code = "NoDatabase"


class EmbeddedServerStopped(DatabaseUnreachable):
    """The embedded database exists, and its server does not run: no command and no worker uses it."""

    code = "EmbeddedServerStopped"


class DatabaseRefused(ClerkError):
    """The database rejected a statement: missing privileges, full disk, lock timeout."""

    code = "DatabaseRefused"


class EmbeddedServerError(ClerkError):
    """The embedded Postgres cannot be used. Its folder is left unchanged."""

    code = "EmbeddedServerError"
    exit_code = EXIT_UNKNOWN


class MigrationError(ClerkError):
    """A migration failed and was rolled back."""

    code = "MigrationError"


class ForeignDatabase(MigrationError):
    """The database belongs to another application."""

    code = "ForeignDatabase"


class SchemaMismatch(MigrationError):
    """The schema is not the one that this version of clerk needs."""

    code = "SchemaMismatch"


class PipelineError(ClerkError):
    """The state machine rejected an action. Each subclass has a SQLSTATE of class KL and one remedy."""

    sqlstate: ClassVar[str]

    def __init__(self, what: str, remedy: str | None = None) -> None:
        super().__init__(what, remedy or self.remedy)


class SiteNotFound(PipelineError):
    """There is no site of that name."""

    code = "SiteNotFound"
    sqlstate = "KL001"
    remedy = "`clerk site list` shows the names"
    exit_code = EXIT_USAGE


class RunInProgress(PipelineError):
    """The site's run has not ended."""

    code = "RunInProgress"
    sqlstate = "KL002"
    remedy = "wait for it, or supersede it with --supersede"


class RunSuperseded(PipelineError):
    """The run is not the site's current run."""

    code = "RunSuperseded"
    sqlstate = "KL003"
    remedy = "no action is needed, a newer run replaced it"


class UnknownStage(PipelineError):
    """There is no stage of that name."""

    code = "UnknownStage"
    sqlstate = "KL004"
    remedy = "name one of fetch, ocr, compilation, extraction and deploy"
    exit_code = EXIT_USAGE


PIPELINE_ERRORS = {error.sqlstate: error for error in (SiteNotFound, RunInProgress, RunSuperseded, UnknownStage)}


class Cause(StrEnum):
    """What an error is attributed to. `clerk.error_causes` attributes the exceptions of libraries."""

    DOCUMENT = "document"
    """The unit: its document, its site, a plugin, or a bug."""
    SOURCE = "source"
    """The server that publishes the documents, or the network between it and clerk."""
    DATABASE = "database"
    """The database, or the network between it and the worker."""
    HOST = "host"
    """The worker's machine."""

    @property
    def is_counted(self) -> bool:
        """Whether a failed attempt counts towards the stage's maximum. Otherwise it is repeated until it ends in
        another way, because no number of attempts says anything about the unit."""
        return self in (Cause.DOCUMENT, Cause.SOURCE)


class JobError(Exception):
    """Base of errors that a job can end with. Classes without a `code` are bases and are not raised by clerk."""

    code: str
    cause: ClassVar[Cause] = Cause.DOCUMENT
    remedy: ClassVar[str]
    """What to do, for a person: a sentence without capital and full stop."""
    retryable: ClassVar[bool] = False
    """The worker retries automatically: as often as the stage's policy allows, or without a limit if the attempt is not
    counted."""
    retry_helps: ClassVar[bool] = True
    """An operator's retry can succeed, possibly after the remedy was applied."""


class PermanentError(JobError):
    """For plugins: raise this, or a subclass, for an error that a retry cannot avoid. Recorded as PluginFailed."""


class UnexpectedError(JobError):
    """Any exception without a code. The message starts with the name of its class."""

    code = "UnexpectedError"
    remedy = "see the message and the worker's log; fix the cause, then retry"
    retryable = True


_FIX_AT_SOURCE = "the file is damaged at the source: tell the publisher; a new file is processed automatically"
_NEXT_RUN = "no action is needed: the next run processes it"

# --- OCR of a document. Limits on CPU time and memory do not depend on the load of the machine: permanent.


class PdfError(JobError):
    """Base of errors caused by a document's PDF."""


class PdfMissing(PdfError):
    """The PDF is missing from storage."""

    code = "PdfMissing"
    remedy = "the file is missing from storage: a retry downloads it again"


class PdfAltered(PdfError):
    """The PDF in storage is not the file that was downloaded."""

    code = "PdfAltered"
    remedy = "the file in storage is not the file that was downloaded: a retry downloads it again"


class PdfEmpty(PdfError):
    """The file is empty, or the document has no pages."""

    code = "PdfEmpty"
    remedy = _FIX_AT_SOURCE
    retry_helps = False


class NotAPdf(PdfError):
    """The file is not of its type: a web page or an image instead of a PDF, a login page instead of an agenda …"""

    code = "NotAPdf"
    remedy = (
        "open the file or address at the source: it is not of the type that its name says, perhaps a page that asks for"
        " a login; a new file is processed automatically"
    )
    retry_helps = False


class PdfEncrypted(PdfError):
    """The PDF needs a password."""

    code = "PdfEncrypted"
    remedy = "it needs a password: ask the publisher for an unprotected copy"
    retry_helps = False


class PdfTruncated(PdfError):
    """The end of the file is missing, and too many pages with it."""

    code = "PdfTruncated"
    remedy = "the file is incomplete: retry once; if it fails again it is damaged at the source"


class PdfBroken(PdfError):
    """The PDF, or too many of its pages, cannot be parsed."""

    code = "PdfBroken"
    remedy = _FIX_AT_SOURCE
    retry_helps = False


class PdfTooLarge(PdfError):
    """The file is too large, or has too many or too large pages."""

    code = "PdfTooLarge"
    remedy = "raise CLERK_MAX_DOWNLOAD_MB or CLERK_OCR_MAX_PAGES if documents may be that large, then retry"


class PdfTimeout(PdfError):
    """OCR used more CPU time than a document may use."""

    code = "PdfTimeout"
    remedy = "raise CLERK_OCR_PAGE_SECONDS if pages may take longer, then retry"


class PdfMemory(PdfError):
    """OCR used more memory than a document may use."""

    code = "PdfMemory"
    remedy = "raise CLERK_OCR_MEMORY_MB if the machine has enough memory, then retry"


class LanguageMissing(PdfError):
    """Tesseract has no model for the site's languages."""

    code = "LanguageMissing"
    remedy = (
        "install the model that the message names on the workers' machines, or name other languages: clerk site edit"
        " SITE --languages eng; then retry"
    )


class ReaderCrashed(JobError):
    """The OCR process ended without a result: killed, out of memory, or a bug."""

    code = "ReaderCrashed"
    remedy = "check that machine's log for the kernel's out-of-memory killer, then retry"
    retryable = True


class ReaderStalled(JobError):
    """The OCR process wrote no output for too long."""

    code = "ReaderStalled"
    remedy = "the machine was overloaded: run fewer workers on it, then retry"
    retryable = True


class ReaderOutputInvalid(JobError):
    """The OCR process returned something that it cannot return unless the document controls it."""

    code = "ReaderOutputInvalid"
    remedy = "the PDF may exploit an error of poppler or tesseract: update both, and inspect the file before a retry"


class TextLost(JobError):
    """Legacy clerk's text of the document is missing or incomplete, and so is its PDF."""

    code = "TextLost"
    remedy = "no action is needed: it is processed when a fetch downloads its PDF again"
    retry_helps = False


# --- Fetching a site or a document.


_CORRECT_ADDRESS = "correct the address (clerk site edit SITE lists the settings of its source)"


class FetchError(JobError):
    """Base of errors of a source or server: neither clerk nor a plugin is the cause."""

    cause = Cause.SOURCE
    retryable = True


class DownloadFailed(FetchError):
    """The server failed, was busy or slow, or could not be reached."""

    code = "DownloadFailed"
    remedy = (
        "the server or the network was unavailable or busy: retry later; if it fails again, open the address in a"
        " browser on the worker's machine"
    )


class HostNotFound(DownloadFailed):
    """The host name of the address cannot be resolved."""

    code = "HostNotFound"
    remedy = f"{_CORRECT_ADDRESS}, then retry; if a browser on the worker's machine opens it, retry later: DNS failed"


class DownloadRefused(FetchError):
    """The server refused: not found, gone, redirect loop …"""

    code = "DownloadRefused"
    remedy = (
        f"open the address in a browser; if it has moved, {_CORRECT_ADDRESS}, then retry; a document that is gone at"
        " the source cannot be fetched"
    )
    retryable = False


class AccessDenied(DownloadRefused):
    """The server does not give the address to clerk: status 401, 403 or 451."""

    code = "AccessDenied"
    remedy = (
        "if a browser opens it without a login, the server blocks clerk: ask the publisher to allow its User-Agent, set"
        " a contact address in CLERK_USER_AGENT, or fetch from another network; then retry"
    )


class LocalPathMissing(FetchError):
    """The folder or file of a source does not exist on the worker's machine."""

    code = "LocalPathMissing"
    remedy = (
        "name the right folder: clerk site edit SITE --path FOLDER; or create or mount it on every machine with a"
        " worker for the queue fetch; then retry"
    )
    retryable = False


class LocalPathForbidden(FetchError):
    """The worker's user may not read the folder or a file of a source."""

    code = "LocalPathForbidden"
    remedy = "let the user that the message names read it (chmod -R a+rX FOLDER), then retry"
    retryable = False


class AddressForbidden(FetchError):
    """The address is not a public http or https address, or its port is not one of web servers."""

    code = "AddressForbidden"
    remedy = (
        f"{_CORRECT_ADDRESS}, then retry; to fetch from this machine or a private network, set CLERK_ALLOW_LOOPBACK or"
        " CLERK_ALLOW_NETWORKS on the workers"
    )
    retryable = False


class CertificateRefused(FetchError):
    """The server's TLS certificate is invalid."""

    code = "CertificateRefused"
    remedy = (
        "expired or incomplete: tell the publisher, and retry when it is renewed; for another host name:"
        f" {_CORRECT_ADDRESS}; check the worker's clock; behind a proxy that decrypts TLS, set SSL_CERT_FILE to its"
        " certificate"
    )
    retryable = False


class RobotsDisallowed(FetchError):
    """The robots.txt of the server does not allow clerk to request the address."""

    code = "RobotsDisallowed"
    remedy = (
        "ask the publisher to allow clerk in robots.txt, or fetch another address; with the publisher's permission, set"
        " CLERK_ROBOTS=ignore on the workers, then retry"
    )
    retryable = False


class BudgetExceeded(FetchError):
    """The fetch used as much of its source or disk as one run may. What it fetched is kept, and the run is partial."""

    code = "BudgetExceeded"
    remedy = (
        "no action is needed: the next run continues; to fetch more per run, raise the setting that the message names,"
        " or that of the site: clerk site edit SITE --budget JSON"
    )
    retryable = False


class SourceUnreadable(FetchError):
    """The page or API that lists the documents is too large or complex, or not in the form that the fetcher expects."""

    code = "SourceUnreadable"
    remedy = (
        "open the address in a browser: is it the page with the meetings? If not, correct the scraper or its settings"
        " (clerk site edit SITE lists them), then retry; if it is, its form has changed: update clerk, or correct the"
        " selector in the plugin"
    )
    retryable = False


class EntriesSkipped(SourceUnreadable):
    """Everything that the source lists was skipped, most often because it has no date."""

    code = "EntriesSkipped"
    remedy = (
        "see why: clerk site skipped SITE; give dates: clerk site date SITE FILE DATE, or ignore what is no document:"
        " clerk site ignore SITE FILE; then retry"
    )


class ParserCrashed(JobError):
    """The process that parses the HTML of a source ended without a result: killed, out of memory, or a bug."""

    code = "ParserCrashed"
    remedy = "check that machine's log for the kernel's out-of-memory killer, then retry"
    retryable = True


class NotFetched(JobError):
    """The document was not downloaded, so it cannot be processed. Has the code of the failed download."""

    code = "NotFetched"
    remedy = "a retry downloads it again"

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class DocumentUnknown(JobError):
    """The document's row no longer exists."""

    code = "DocumentUnknown"
    remedy = "no action is needed: the site or document was removed"
    retry_helps = False


# --- A site's configuration.


class SiteConfigError(JobError):
    """The settings of the site are incomplete or invalid."""

    code = "SiteConfigError"
    remedy = "correct the setting that the message names (clerk site edit SITE lists the settings), then retry"


class DeployerUnknown(JobError):
    """The site names a deployer that no plugin provides."""

    code = "DeployerUnknown"
    remedy = "install the plugin, or name another deployer: clerk site edit SITE --deploy local; then retry"


# --- Plugins.


class PluginError(JobError):
    """Base of the errors of a call to a plugin."""


class PluginRaised(PluginError):
    """A plugin raised an exception. The message has the line."""

    code = "PluginRaised"
    remedy = "look at the line that the message names: correct the plugin, or retry when its service is available again"
    retryable = True


class PluginTimeout(PluginError):
    """A plugin did not return in time."""

    code = "PluginTimeout"
    remedy = "raise CLERK_PLUGIN_TIME_LIMIT if the plugin may take longer, then retry"
    retryable = True


class InvalidPluginResult(JobError):
    """A plugin returned a value that its hook does not allow."""

    code = "InvalidPluginResult"
    remedy = "correct the plugin, then retry"


class PluginFailed(PluginError):
    """A plugin raised a PermanentError."""

    code = "PluginFailed"
    remedy = "the plugin reports that a retry is useless: see its message"
    retry_helps = False


class PluginProgrammingError(PluginError):
    """A plugin raised an exception that tells of an error in its code, such as KeyError. The message has the line."""

    code = "PluginProgrammingError"
    remedy = "correct the plugin at the line that the message names, restart the workers, then retry"


class PluginMissing(JobError):
    """No plugin provides the fetcher or extractor that a site or setting names."""

    code = "PluginMissing"
    remedy = "install the plugin that provides it, or name another, then retry"


# --- Compilation, extraction and deployment.


class TextsMissing(JobError):
    """The document's page texts are missing, or differ from its manifest."""

    code = "TextsMissing"
    remedy = "run OCR again: clerk retry SITE --stage ocr, or clerk reconcile-pipeline"
    retry_helps = False


class AllTextsMissing(JobError):
    """The texts of all processed documents of a site are missing from storage: probably a disk is not mounted."""

    code = "AllTextsMissing"
    remedy = "mount STORAGE_DIR; if it is mounted: clerk reconcile-pipeline, then retry"
    retryable = True


class PagesWouldVanish(JobError):
    """The new archive would lack pages that are published: their texts and meetings.db are missing."""

    code = "PagesWouldVanish"
    remedy = "restore meetings.db, a published copy or the documents' texts from a backup, then retry"


class ArchiveMissing(JobError):
    """There is no archive to publish."""

    code = "ArchiveMissing"
    remedy = "build it again: clerk rewind SITE --to compilation"
    retry_helps = False


class ArchiveDamaged(JobError):
    """The archive failed its integrity check and is not published."""

    code = "ArchiveDamaged"
    remedy = "build it again: clerk rewind SITE --to compilation"
    retryable = True
    retry_helps = False


class InvalidExtractorOutput(JobError):
    """An extractor returned a value that the schema does not allow."""

    code = "InvalidExtractorOutput"
    remedy = "correct the extractor, then retry"


class SpacyUnavailable(JobError):
    """spaCy or its model is not installed."""

    code = "SpacyUnavailable"
    remedy = "install spaCy and its model, or use the extractor `rules`, then retry"


class CommandFailed(JobError):
    """The deploy command ended with an exit code other than 0."""

    code = "CommandFailed"
    remedy = "see the message: correct the deploy command or what it needs, then retry"
    retryable = True


class CommandTimeout(JobError):
    """The deploy command exceeded CLERK_DEPLOY_TIME_LIMIT."""

    code = "CommandTimeout"
    remedy = "raise CLERK_DEPLOY_TIME_LIMIT, or make the deploy command faster, then retry"
    retryable = True


class CommandUnset(JobError):
    """The site uses the deployer `command`, and CLERK_DEPLOY_COMMAND is not set."""

    code = "CommandUnset"
    remedy = "set CLERK_DEPLOY_COMMAND on the machines that deploy, then retry"


# --- Saved searches (`clerk alert`): deliveries of their matches.

_RETRY_DELIVERY = "then: clerk failures --stage delivery --retry"


class SavedQueryInvalid(JobError):
    """This version of clerk does not understand the query of an alert. The other alerts are matched."""

    code = "SavedQueryInvalid"
    remedy = "remove the alert and add it with a query that `clerk search` accepts"
    retry_helps = False


class MailNotConfigured(JobError):
    """Settings that sending mail needs are missing, or would send the password unencrypted."""

    code = "MailNotConfigured"
    remedy = f"set CLERK_SMTP_HOST, CLERK_SMTP_FROM and what the message names on the workers; {_RETRY_DELIVERY}"


class MailFailed(JobError):
    """The SMTP server could not be reached, or refused the mail for the time being."""

    code = "MailFailed"
    remedy = f"check CLERK_SMTP_HOST and the SMTP server's log; {_RETRY_DELIVERY}"
    retryable = True


class MailRefused(JobError):
    """The SMTP server refused the mail, its recipient, or the login permanently."""

    code = "MailRefused"
    remedy = f"correct the recipient (clerk alert remove and add) or the settings of the SMTP server; {_RETRY_DELIVERY}"


class WebhookFailed(JobError):
    """The receiver of a webhook could not be reached, or did not answer with a status from 200 to 299."""

    code = "WebhookFailed"
    remedy = f"check the receiver's log; {_RETRY_DELIVERY}"
    retryable = True


class WebhookForbidden(JobError):
    """The webhook's address is not public, or its port is not one of web servers."""

    code = "WebhookForbidden"
    remedy = (
        "correct the address (clerk alert remove and add); to allow this machine or a private network, set"
        f" CLERK_ALLOW_LOOPBACK or CLERK_ALLOW_NETWORKS on the workers, {_RETRY_DELIVERY}"
    )


# --- The database, and the worker's machine. These attempts do not count: the job is retried until the cause is gone.

_NO_RETRY_NEEDED = "the jobs continue by themselves"


class DatabaseFailed(JobError):
    """A statement of the job failed because of the database: a restart, a lost connection, a full disk there …"""

    code = "DatabaseFailed"
    cause = Cause.DATABASE
    remedy = f"see the message and the server's log; when the database works again, {_NO_RETRY_NEEDED}"
    retryable = True


class HostError(JobError):
    """Base of errors of the worker's machine. The worker takes no jobs of the queue until the problem is solved."""

    cause = Cause.HOST
    retryable = True


class DiskFull(HostError):
    """A disk of the worker's machine is full, or the user's quota on it."""

    code = "DiskFull"
    remedy = f"free space on the disk that the message names; then {_NO_RETRY_NEEDED}"


class DiskReadOnly(HostError):
    """A disk of the worker's machine is mounted read-only."""

    code = "DiskReadOnly"
    remedy = f"check the disk that the message names and mount it writable; then {_NO_RETRY_NEEDED}"


class DiskFailed(HostError):
    """A disk or network file system of the worker's machine fails: input/output error, lost connection …"""

    code = "DiskFailed"
    remedy = f"check the disk that the message names and the machine's log; then {_NO_RETRY_NEEDED}"


class DiskForbidden(HostError):
    """The worker's user may not read or write in a folder of clerk."""

    code = "DiskForbidden"
    remedy = f"correct owner and mode of the folder that the message names; then {_NO_RETRY_NEEDED}"


class StorageUnmounted(HostError):
    """STORAGE_DIR has no folder of any site, although documents are stored: probably a disk is not mounted."""

    code = "StorageUnmounted"
    remedy = (
        f"mount STORAGE_DIR on the worker's machine, or correct it; then {_NO_RETRY_NEEDED};"
        " if all files are lost, create the folder of a site there (in a bucket, an object below its name):"
        " the next fetch downloads what it can"
    )


class StorageError(JobError, OSError):
    """Base of errors of object storage. Also an OSError, like the errors of a disk: what handles unreadable files
    handles these."""

    remedy_of_command: ClassVar[str] = "run the command again"
    """If it ended a command, which no worker repeats."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.strerror = message


class StorageUnavailable(HostError, StorageError):
    """Base of errors of object storage that every job of the worker would meet."""


class StorageUnreachable(StorageUnavailable):
    """Object storage does not respond, or responds that it is overloaded (503 Slow Down), after several attempts."""

    code = "StorageUnreachable"
    remedy = (
        "check the endpoint in STORAGE_DIR or CLERK_PUBLISH_DIR and the network of the worker's machine; then"
        f" {_NO_RETRY_NEEDED}"
    )
    remedy_of_command = "check the endpoint in STORAGE_DIR or CLERK_PUBLISH_DIR and the network of this machine"


class StorageRefused(StorageUnavailable):
    """Object storage refused a request: no credentials, wrong ones, or a missing permission."""

    code = "StorageRefused"
    remedy = (
        "correct the credentials in the worker's environment (AWS_ACCESS_KEY_ID …) or their permissions, and restart"
        f" the worker; then {_NO_RETRY_NEEDED}"
    )
    remedy_of_command = "correct the credentials in the environment (AWS_ACCESS_KEY_ID …) or their permissions"


class BucketMissing(StorageUnavailable):
    """The bucket of STORAGE_DIR or CLERK_PUBLISH_DIR does not exist. No file counts as lost because of that."""

    code = "BucketMissing"
    remedy = f"create the bucket, or correct STORAGE_DIR or CLERK_PUBLISH_DIR; then {_NO_RETRY_NEEDED}"
    remedy_of_command = "create the bucket, or correct STORAGE_DIR or CLERK_PUBLISH_DIR"


class UploadDamaged(StorageUnavailable):
    """Object storage has other content than was sent to it: the upload was truncated or altered on its way."""

    code = "UploadDamaged"
    remedy = f"check the network and the proxies between the worker and the storage; then {_NO_RETRY_NEEDED}"
    remedy_of_command = "check the network and the proxies between this machine and the storage; run the command again"


class StorageConflict(StorageError):
    """Another process replaced the same object at the same time."""

    code = "StorageConflict"
    remedy = "no action is needed: the job is tried again"
    retryable = True


class ToolMissing(HostError):
    """A program or model is not installed."""

    code = "ToolMissing"
    remedy = f"install the program that the message names (bin/setup does); then {_NO_RETRY_NEEDED}"


class HostOutOfMemory(HostError):
    """The worker's machine, or its container, ran out of memory."""

    code = "HostOutOfMemory"
    remedy = f"run fewer workers on that machine, or lower CLERK_OCR_MEMORY_MB; then {_NO_RETRY_NEEDED}"


class HostOutOfResources(HostError):
    """The worker's machine allows no more open files, processes or threads."""

    code = "HostOutOfResources"
    remedy = f"run fewer workers on that machine, or raise the limit that the message names; then {_NO_RETRY_NEEDED}"


# --- The job itself. SQL functions write most of these codes.


class WorkerLost(JobError):
    """The job's worker ended, or its lease expired, in every attempt."""

    code = "WorkerLost"
    remedy = "check the log of that machine, then retry"
    retryable = True


class TimeLimitExceeded(JobError):
    """The job ran longer than its stage allows."""

    code = "TimeLimitExceeded"
    remedy = "raise time_limit in the table stage_policy if it may take longer, then retry"
    retryable = True


class TaskNotFound(JobError):
    """The worker has no task of that name."""

    code = "TaskNotFound"
    remedy = "a worker of an older version took it: update the workers, then retry"


class ClaimLost(JobError):
    """The job's claim now belongs to another worker or to none: its result will be rejected."""

    code = "ClaimLost"
    remedy = "its worker was disconnected: retry"
    retryable = True


class JobFailed(JobError):
    """The job failed and reported no reason."""

    code = "JobFailed"
    remedy = "see the log of its worker, then retry"
    retryable = True


class JobAborted(JobError):
    """The job was asked to stop."""

    code = "JobAborted"
    remedy = _NEXT_RUN
    retry_helps = False


class JobCancelled(JobError):
    """The job was cancelled before it started."""

    code = "JobCancelled"
    remedy = _NEXT_RUN
    retry_helps = False


class JobDeleted(JobError):
    """The job's row was deleted before the job ended."""

    code = "JobDeleted"
    remedy = _NEXT_RUN
    retry_helps = False


class JobLost(JobError):
    """The unit's job or state was lost, and its phase has ended."""

    code = "JobLost"
    remedy = "reconciliation processes it again; if it stays failed, retry"


class FilesLost(JobError):
    """Files of a processed unit are missing from storage."""

    code = "FilesLost"
    remedy = "the next fetch downloads its PDF if the source still has it; otherwise restore it from a backup"
    retry_helps = False


class NoDocuments(JobError):
    """The source listed no document, and none is known from before. The run ends as `no_documents`."""

    code = "NoDocuments"
    remedy = "is it the right address or folder? clerk site edit SITE lists the settings of its source"
    retry_helps = False


class RunCancelled(JobError):
    """An operator cancelled the run."""

    code = "RunCancelled"
    remedy = _NEXT_RUN
    retry_helps = False


class RunEnded(JobError):
    """The run ended before the unit did."""

    code = "RunEnded"
    remedy = _NEXT_RUN
    retry_helps = False


class Superseded(JobError):
    """A newer run replaced this one."""

    code = "Superseded"
    remedy = _NEXT_RUN
    retry_helps = False


JOB_ERRORS: dict[str, type[JobError]] = {
    error.code: error
    for error in list(vars().values())
    if isinstance(error, type) and issubclass(error, JobError) and "code" in vars(error)
}


def remedy_for(code: str | None, subdomain: str) -> str:
    """The remedy with the site's name in its commands."""
    return re.sub(r"\bSITE\b", lambda _: subdomain, job_error_class(code).remedy)


def job_error_class(code: str | None) -> type[JobError]:
    """The class with this code. A code that this version does not know counts as unexpected."""
    return JOB_ERRORS.get(code or "", UnexpectedError)
