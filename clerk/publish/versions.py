"""The published versions of a site, and a symbolic link to the current one.

CLERK_PUBLISH_DIR/{subdomain}/versions/{time}-{content}/meetings.db      immutable
                                                       publication.json  content hash, pages, time
                              current -> versions/{time}-{content}       switched by rename

A process that has a version open can read it to the end, even after the version is deleted. If publishing is killed at
any point, `current` still names a complete version, the old or the new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from clerk.archive import atomic_build, integrity
from clerk.archive.content_hash import check_integrity, count_pages, hash_content
from clerk.documents.sanitize import is_subdomain
from clerk.documents.storage import fsync, install, make_folder, write
from clerk.errors import ArchiveMissing, ClerkError

DATABASE = "meetings.db"
_METADATA = "publication.json"


class NoSuchVersion(ClerkError):
    """There is nothing to roll back to."""

    code = "NoSuchVersion"


@dataclass(frozen=True)
class Version:
    path: Path
    content_hash: str
    pages: int
    published_at: str

    @property
    def name(self) -> str:
        return self.path.name


@dataclass(frozen=True)
class SiteVersions:
    """The published folder of one site."""

    root: Path
    subdomain: str

    def __post_init__(self) -> None:
        if not is_subdomain(self.subdomain):
            raise ValueError(f"{self.subdomain!r} is not a subdomain")

    @property
    def folder(self) -> Path:
        return self.root / self.subdomain

    @property
    def versions_folder(self) -> Path:
        return self.folder / "versions"

    @property
    def link(self) -> Path:
        return self.folder / "current"

    @property
    def current(self) -> Version | None:
        try:
            target = self.link.readlink()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return _read(self.versions_folder / target.name)

    def find_problem(self, content_hash: str | None, full: bool = True) -> str | None:
        """What is wrong with the current version, as a predicate ("is missing"), or None.

        `content_hash`: the expected content; None if an operator chose the version.
        """
        current = self.current
        if current is None:
            return "is missing"
        if content_hash is not None and current.content_hash != content_hash:
            return "is not the version published last"
        return integrity.find_problem(self.link / DATABASE, current.content_hash, full)

    def versions(self) -> list[Version]:
        """Complete versions, oldest first: names begin with the time."""
        if not self.versions_folder.is_dir():
            return []
        paths = (path for path in sorted(self.versions_folder.iterdir()) if not path.name.startswith("."))
        return [version for path in paths if (version := _read(path)) is not None]

    def publish(self, database: Path, keep: int, before_switch: Callable[[], None] | None = None) -> Version:
        """Make a copy of the database the current version, unless the current one has the same content.

        `before_switch` may raise to keep the current version, for example if the worker lost its claim.
        """
        make_folder(self.versions_folder)
        self._remove_stale_drafts()
        version = self._add(database)
        self.switch_to(version, before_switch)
        self._prune(keep)
        return version

    def _add(self, database: Path) -> Version:
        draft = Path(tempfile.mkdtemp(prefix=".", suffix=".part", dir=self.versions_folder))
        try:
            copy = draft / DATABASE
            try:
                shutil.copyfile(database, copy)
            except FileNotFoundError as error:
                raise ArchiveMissing(f"there is no {database} to publish") from error
            with atomic_build.open_draft(copy) as connection:
                check_integrity(connection)
                content_hash, pages = hash_content(connection), count_pages(connection)
            existing = [
                version
                for version in self.versions()
                if version.content_hash == content_hash
                and integrity.find_problem(version.path / DATABASE, content_hash) is None
            ]
            if existing:  # publishing was killed before the switch, or the content is that of an earlier version
                return existing[-1]
            copy.chmod(0o644)
            fsync(copy)
            now = datetime.now(UTC)
            published_at = now.isoformat(timespec="seconds")
            metadata = {"content_hash": content_hash, "pages": pages, "published_at": published_at}
            write(draft / _METADATA, json.dumps(metadata) + "\n")
            draft.chmod(0o755)
            final = self.versions_folder / f"{self._stamp(now)}-{content_hash[:12]}"
            install((draft, final))
            return Version(final, content_hash, pages, published_at)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _stamp(self, now: datetime) -> str:
        """A time stamp that sorts after all existing names, even if the clock was set back."""
        stamp = now.strftime("%Y%m%dT%H%M%S%fZ")
        newest = max((version.name.partition("-")[0] for version in self.versions()), default="")
        return stamp if stamp > newest else f"{newest}a"

    def switch_to(self, version: Version, before_switch: Callable[[], None] | None = None) -> None:
        """Replace the link in one rename: readers see the old version or the new one."""
        target = f"versions/{version.name}"
        with contextlib.suppress(OSError):
            if self.link.readlink() == Path(target):
                return
        temporary = self.folder / f".current.{os.getpid()}.{time.monotonic_ns()}.part"
        temporary.symlink_to(target, target_is_directory=True)
        try:
            install((temporary, self.link), before_rename=before_switch)
        finally:
            temporary.unlink(missing_ok=True)

    def previous(self) -> Version:
        versions, current = self.versions(), self.current
        older = [version for version in versions if current is not None and version.name < current.name]
        if not older:
            raise NoSuchVersion(
                f"{self.subdomain} has no version before the current one under {self.folder}",
                "list the versions with `clerk rollback SITE --list`",
            )
        return older[-1]

    def get(self, name: str) -> Version:
        for version in self.versions():
            if version.name == name:
                return version
        raise NoSuchVersion(
            f"{self.subdomain} has no version {name}", "list the versions with `clerk rollback SITE --list`"
        )

    def _prune(self, keep: int) -> None:
        current = self.current
        spare = [version for version in self.versions() if current is None or version.name != current.name]
        for version in spare[: max(0, len(spare) - (keep - 1))]:
            # Renamed first, so that a partly deleted version is not listed.
            obsolete = version.path.with_name(f".{version.name}.part")
            with contextlib.suppress(FileNotFoundError):
                version.path.rename(obsolete)
            shutil.rmtree(obsolete, ignore_errors=True)

    def _remove_stale_drafts(self) -> None:
        for leftover in [*self.versions_folder.glob(".*.part"), *self.folder.glob(".current.*.part")]:
            with contextlib.suppress(FileNotFoundError):
                if time.time() - leftover.lstat().st_mtime > atomic_build.STALE_AFTER:
                    leftover.unlink() if leftover.is_symlink() else shutil.rmtree(leftover, ignore_errors=True)


def published_archives(root: Path, site: str | None = None) -> list[tuple[str, Path]]:
    """Subdomain and current database of every published site, or of one."""
    names = [site] if site else sorted(path.name for path in root.glob("*") if is_subdomain(path.name))
    databases = ((name, SiteVersions(root, name).link / DATABASE) for name in names)
    return [(name, database) for name, database in databases if database.is_file()]


def _read(path: Path) -> Version | None:
    try:
        metadata = json.loads((path / _METADATA).read_bytes())
        if not (path / DATABASE).is_file():
            return None
        return Version(path, str(metadata["content_hash"]), int(metadata["pages"]), str(metadata["published_at"]))
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        # Other OS errors mean a failing disk, not a missing version, and are raised.
        return None
