"""Questions of `clerk site add` for what is missing on the command line. Only on a terminal."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from clerk.cli.site_source import check_path
from clerk.errors import ClerkError
from clerk.sources.detection import complete_address
from clerk.sources.site_keys import SITE_KEYS
from clerk.sources.site_validation import InvalidSite, check_subdomain, subdomain_of

_SOURCES = "--path FOLDER, --url ADDRESS, or --scraper NAME with its settings"


@dataclass
class NewSite:
    """A site to add, as far as it is known."""

    subdomain: str
    columns: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    """Key of `extra` → texts, or a truth value."""
    url: str | None = None
    is_asked: bool = False
    """Whether a question was answered."""

    @property
    def has_source(self) -> bool:
        return bool(self.url or self.columns.get("scraper") or set(self.settings) - set(SITE_KEYS))

    @property
    def can_ask_again(self) -> bool:
        """Whether there is somebody to ask, and the source is a folder or an address without further settings."""
        has_place = self.url is not None or "path" in self.settings
        return self.is_asked and has_place and "scraper" not in self.columns


def ask_source_again(new: NewSite) -> None:
    """Ask for another place of the documents, because the one that was given cannot be used."""
    new.url = None
    new.settings.pop("path", None)
    _ask_source(new)


def ask_missing(new: NewSite) -> None:
    """Ask for the name and the source if they are missing. Raises InvalidSite if there is nobody to ask."""
    if new.subdomain or not _is_terminal():
        _require(new)
    if new.url is not None:
        new.url = check_address(new.url)
    if not new.subdomain:
        _ask_name(new)
    if not new.has_source:
        _ask_source(new)


def _require(new: NewSite) -> None:
    if new.subdomain:
        check_subdomain(new.subdomain)
    if _is_terminal():
        return
    if not new.subdomain and not new.has_source:
        problem = "the name of the site and the place of its documents are missing"
        raise InvalidSite(problem, f"give SUBDOMAIN and {_SOURCES}")
    if not new.subdomain:
        raise InvalidSite("the name of the site is missing", "give SUBDOMAIN, such as springfield")
    if not new.has_source:
        raise InvalidSite(f"{new.subdomain}: the place of its documents is missing", f"give {_SOURCES}")


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _ask_name(new: NewSite) -> None:
    default = str(new.columns.get("name") or "")
    if not default and (path := new.settings.get("path")):
        default = Path(path[-1]).expanduser().absolute().name
    name = new.columns.get("name") or click.prompt("Name of the town", default=default or None, err=True)
    new.columns["name"] = str(name).strip()
    new.subdomain = click.prompt(
        "Short name, for folders and addresses",
        default=subdomain_of(new.columns["name"]) or None,
        value_proc=_as_prompt_error(check_subdomain),
        err=True,
    )
    new.is_asked = True


def _ask_source(new: NewSite) -> None:
    where = click.prompt(
        "Where are the documents? Folder or web address",
        value_proc=_as_prompt_error(_check_source),
        err=True,
    )
    if _is_address(where):
        new.url = check_address(where)
    else:
        new.settings["path"] = (where,)
    new.is_asked = True


def _check_source(answer: str) -> str:
    answer = answer.strip()
    if _is_address(answer):
        check_address(answer)
    else:
        check_path(Path(answer).expanduser(), is_folder=True)
    return answer


def _is_address(text: str) -> bool:
    """An address has a scheme, or begins with a host name: `www.springfield.gov/minutes`."""
    host = text.partition("/")[0]
    return "://" in text or ("." in host.strip(".") and not Path(text).expanduser().exists() and text[:1] not in "/~.")


def check_address(url: str) -> str:
    """The address with a scheme; raises InvalidSite if it is none."""
    address = complete_address(url)
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
        is_valid = parts.scheme in ("http", "https") and ("." in host or ":" in host or host == "localhost")
        is_valid = is_valid and parts.port != 0 and not any(each.isspace() for each in address)
    except ValueError:
        is_valid = False
    if not is_valid:
        is_path = url.startswith(("/", "~", "./", "../"))
        remedy = f"for a folder, give --path {url}" if is_path else "write it as https://www.springfield.gov"
        raise InvalidSite(f"{url[:200]} is not an address of a web page", remedy)
    return address


def _as_prompt_error(check: Any) -> Any:
    """The check as click.prompt wants it: it asks again after a UsageError."""

    def convert(value: str) -> str:
        try:
            return str(check(value))
        except ClerkError as error:
            raise click.UsageError(str(error)) from error

    return convert
