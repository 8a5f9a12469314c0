"""Checks of the settings: unknown variables, and values that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from clerk import config
from clerk.config import Settings
from clerk.doctor.finding import Finding, problem
from clerk.errors import SettingError
from clerk.suggestions import near_names

NAME = "settings"


def load_settings(
    environ: Mapping[str, str] = config.ENVIRON, folder: Path | None = None
) -> tuple[Settings | None, list[Finding]]:
    """The settings, None if one of them is invalid, and what was found."""
    try:
        settings = config.load(environ, folder)
        findings = [*_unknown(environ, folder), *_contradictions(settings)]
    except SettingError as error:
        return None, [problem(NAME, error)]
    changed = [name for name, origin in settings.origins.items() if origin != "default"]
    summary = f"{len(changed)} set ({', '.join(changed)})" if changed else "all have their defaults"
    return settings, findings or [Finding(NAME, summary)]


def _unknown(environ: Mapping[str, str], folder: Path | None) -> Iterator[Finding]:
    # Compared without the prefix that all have.
    known = {setting.name.removeprefix(config.PREFIX): setting.name for setting in config.SETTINGS}
    for name, origin in config.unknown_variables(environ, folder):
        near = near_names(name.removeprefix(config.PREFIX), known, 1)
        remedy = f"rename it to {known[near[0]]}" if near else "remove it; `clerk config` lists the settings"
        yield Finding(NAME, f"there is no setting {name} (from {origin})", remedy)


def _contradictions(settings: Settings) -> Iterator[Finding]:
    """Values that are valid each and do not work together."""
    if settings.smtp_host is not None and settings.smtp_from is None:
        yield Finding(NAME, "CLERK_SMTP_HOST is set without CLERK_SMTP_FROM: no mail is sent", "set CLERK_SMTP_FROM")
    if settings.smtp_host is None and (settings.smtp_from or settings.smtp_user):
        what = "CLERK_SMTP_FROM or CLERK_SMTP_USER is set without CLERK_SMTP_HOST: no mail is sent"
        yield Finding(NAME, what, "set CLERK_SMTP_HOST, or remove the others")
    if (settings.smtp_user is None) != (settings.smtp_password is None):
        given, missing = ("PASSWORD", "USER") if settings.smtp_user is None else ("USER", "PASSWORD")
        what = f"CLERK_SMTP_{given} is set without CLERK_SMTP_{missing}"
        yield Finding(NAME, what, "set both, or neither for a server without a login")
    if settings.smtp_password is not None and settings.smtp_tls == "none":
        what = "CLERK_SMTP_TLS=none with a password, which is never sent without TLS: no mail is sent"
        yield Finding(NAME, what, "set CLERK_SMTP_TLS to starttls or implicit")
    if settings.storage_dir == settings.publish_dir:
        what = f"STORAGE_DIR and CLERK_PUBLISH_DIR are the same ({settings.storage_dir})"
        yield Finding(NAME, what, "name different folders; without CLERK_PUBLISH_DIR it is one in STORAGE_DIR")
