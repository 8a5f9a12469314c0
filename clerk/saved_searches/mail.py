"""Mails by SMTP."""

from __future__ import annotations

import smtplib
import ssl
from email.message import EmailMessage
from email.utils import format_datetime

from clerk.config import Settings
from clerk.errors import MailFailed, MailNotConfigured, MailRefused
from clerk.saved_searches.notification import Notification


def compose(notification: Notification, sender: str, recipient: str) -> EmailMessage:
    """The mail. EmailMessage refuses headers with line breaks."""
    domain = sender.rpartition("@")[2]
    message = EmailMessage()
    message["From"] = sender
    message["To"] = recipient
    message["Subject"] = notification.subject
    message["Date"] = format_datetime(notification.created_at)
    # The same at every attempt: mail programs show a repeated message once.
    message["Message-ID"] = f"<{notification.key}@{domain}>"
    message["Auto-Submitted"] = "auto-generated"
    message["List-Id"] = f"clerk alert {notification.name} <{notification.name}.clerk.{domain}>"
    message.set_content(notification.as_text())
    return message


def send(settings: Settings, notification: Notification, recipient: str) -> None:
    if settings.smtp_host is None or settings.smtp_from is None:
        missing = "CLERK_SMTP_HOST" if settings.smtp_host is None else "CLERK_SMTP_FROM"
        raise MailNotConfigured(f"{missing} is not set")
    if settings.smtp_password is not None and settings.smtp_tls == "none":
        raise MailNotConfigured("CLERK_SMTP_TLS is none, and CLERK_SMTP_PASSWORD would be sent unencrypted")
    message = compose(notification, settings.smtp_from, recipient)
    server = f"{settings.smtp_host}:{settings.smtp_port}"
    try:
        with _connect(settings, settings.smtp_host) as smtp:
            smtp.send_message(message, settings.smtp_from, [recipient])
    except smtplib.SMTPRecipientsRefused as error:
        code, text = next(iter(error.recipients.values()))
        raise _refusal(server, code, text) from error
    except smtplib.SMTPResponseException as error:
        raise _refusal(server, error.smtp_code, error.smtp_error) from error
    except smtplib.SMTPNotSupportedError as error:
        raise MailRefused(f"{server}: {error}") from error
    except (smtplib.SMTPException, OSError) as error:
        raise MailFailed(f"{server}: {str(error) or type(error).__name__}") from error


def _connect(settings: Settings, host: str) -> smtplib.SMTP:
    """An open connection, encrypted and logged in as the settings say."""
    timeout, port = settings.request_timeout, settings.smtp_port
    if settings.smtp_tls == "implicit":
        smtp: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=timeout, context=ssl.create_default_context())
    else:
        smtp = smtplib.SMTP(host, port, timeout=timeout)
    try:
        if settings.smtp_tls == "starttls":
            smtp.starttls(context=ssl.create_default_context())
        if settings.smtp_user is not None:
            smtp.login(settings.smtp_user, settings.smtp_password or "")
    except BaseException:
        smtp.close()
        raise
    return smtp


def _refusal(server: str, code: int, text: bytes | str) -> MailFailed | MailRefused:
    answer = text.decode(errors="replace") if isinstance(text, bytes) else text
    message = f"{server} answered {code} {' '.join(answer.split())}"[:300]
    return MailFailed(message) if 400 <= code < 500 else MailRefused(message)
