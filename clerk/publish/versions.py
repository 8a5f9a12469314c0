"""The published folder of a site: versions side by side, and a link to the one that readers get.

CLERK_PUBLISH_DIR/{subdomain}/versions/{time}-{content}/meetings.db     never changed once it has that name
                                                       publication.json  when, and the content hash
                              current -> versions/{time}-{content}       switched by rename

A reader that has a version open keeps it, even when it is removed. Killed at any point, `current` names a complete
version, the old or the new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from clerk.archive import atomic_build, integrity
from clerk.archive.content_hash import check, hash_content, page_count
from clerk.documents.sanitize import is_subdomain
from clerk.documents.storage import fsync_dir, write
from clerk.errors import ArchiveMissing, ClerkError

DATABASE = "meetings.db"
_FACTS = "publication.json"


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

    def problem(self, content_hash: str | None, thorough: bool = True) -> str | None:
        """What is wrong with the current version, for a person; None if nothing is.

        `content_hash`: what it should be; None if any will do, since somebody chose it by hand.
        """
        current = self.current
        if current is None:
            return "is gone"
        if content_hash is not None and current.content_hash != content_hash:
            return "is another than the one published last"
        return integrity.find_problem(self.link / DATABASE, current.content_hash, thorough)

    def versions(self) -> list[Version]:
        """Oldest first: names begin with the time."""
        if not self.versions_folder.is_dir():
            return []
        found = (_read(path) for path in sorted(self.versions_folder.iterdir()) if not path.name.startswith("."))
        return [version for version in found if version is not None]

    def publish(self, database: Path, keep: int) -> Version:
        """A copy of the database becomes the current version; does nothing if the current one has the same content."""
        self.versions_folder.mkdir(parents=True, exist_ok=True)
        self._remove_abandoned()
        version = self._add(database)
        self.switch_to(version)
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
                check(connection)
                content_hash, pages = hash_content(connection), page_count(connection)
            existing = [
                version
                for version in self.versions()
                if version.content_hash == content_hash
                and integrity.find_problem(version.path / DATABASE, content_hash) is None
            ]
            if existing:  # published before and killed before the switch, or the content is what it once was
                return existing[-1]
            atomic_build.make_durable(copy)
            now = datetime.now(UTC)
            published_at = now.isoformat(timespec="seconds")
            facts = {"content_hash": content_hash, "pages": pages, "published_at": published_at}
            write(draft / _FACTS, json.dumps(facts) + "\n")
            draft.chmod(0o755)
            final = self.versions_folder / f"{self._stamp(now)}-{content_hash[:12]}"
            draft.rename(final)
            fsync_dir(self.versions_folder)
            return Version(final, content_hash, pages, published_at)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _stamp(self, now: datetime) -> str:
        """Later than every name there is, also where a clock was set back."""
        stamp = now.strftime("%Y%m%dT%H%M%S%fZ")
        newest = max((version.name.partition("-")[0] for version in self.versions()), default="")
        return stamp if stamp > newest else f"{newest}a"

    def switch_to(self, version: Version) -> None:
        """One rename: whoever looks sees the old version or the new one."""
        target = f"versions/{version.name}"
        with contextlib.suppress(OSError):
            if self.link.readlink() == Path(target):
                return
        temporary = self.folder / f".current.{os.getpid()}.{time.monotonic_ns()}.part"
        temporary.symlink_to(target, target_is_directory=True)
        temporary.replace(self.link)
        fsync_dir(self.folder)

    def before_current(self) -> Version:
        versions, current = self.versions(), self.current
        older = [version for version in versions if current is not None and version.name < current.name]
        if not older:
            raise NoSuchVersion(
                f"{self.subdomain} has no version before the current one under {self.folder}",
                "see what there is with `clerk rollback SITE --list`",
            )
        return older[-1]

    def named(self, name: str) -> Version:
        for version in self.versions():
            if version.name == name:
                return version
        raise NoSuchVersion(
            f"{self.subdomain} has no version {name}", "see what there is with `clerk rollback SITE --list`"
        )

    def _prune(self, keep: int) -> None:
        current = self.current
        spare = [version for version in self.versions() if current is None or version.name != current.name]
        for version in spare[: max(0, len(spare) - (keep - 1))]:
            # Renamed first: half a version must not pass for one.
            doomed = version.path.with_name(f".{version.name}.part")
            with contextlib.suppress(FileNotFoundError):
                version.path.rename(doomed)
            shutil.rmtree(doomed, ignore_errors=True)

    def _remove_abandoned(self) -> None:
        for leftover in [*self.versions_folder.glob(".*.part"), *self.folder.glob(".current.*.part")]:
            with contextlib.suppress(FileNotFoundError):
                if time.time() - leftover.lstat().st_mtime > atomic_build.STALE_AFTER:
                    leftover.unlink() if leftover.is_symlink() else shutil.rmtree(leftover, ignore_errors=True)


def published_archives(root: Path, site: str | None = None) -> list[tuple[str, Path]]:
    """Subdomain and database of everything, or of one site, that is published under `root`."""
    names = [site] if site else sorted(path.name for path in root.glob("*") if is_subdomain(path.name))
    found = ((name, SiteVersions(root, name).link / DATABASE) for name in names)
    return [(name, database) for name, database in found if database.is_file()]


def _read(path: Path) -> Version | None:
    try:
        facts = json.loads((path / _FACTS).read_bytes())
        if not (path / DATABASE).is_file():
            return None
        return Version(path, str(facts["content_hash"]), int(facts["pages"]), str(facts["published_at"]))
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        # Any other error of the system is a disk that fails, not a version that is gone.
        return None
