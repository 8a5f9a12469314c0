"""The published versions of a site, and a symbolic link to the current one.

CLERK_PUBLISH_DIR/{subdomain}/versions/{time}-{content}/meetings.db      immutable
                                                       publication.json  content hash, pages, time
                              current -> versions/{time}-{content}       switched by rename

A process that has a version open can read it to the end, even after the version is deleted. If publishing is killed at
any point, `current` still names a complete version, the old or the new one.

In a bucket the layout of versions is the same; publication.json is written last. There are no links: the object
`_current/{subdomain}` contains the name of the current version, and is replaced on condition that it is unchanged.
All of them are in one folder, so that one listing tells which sites were published again.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, cast

from clerk.archive import atomic_build, integrity
from clerk.archive.content_hash import check_integrity, count_pages, hash_content
from clerk.documents.sanitize import is_subdomain
from clerk.documents.storage import fsync, install, list_names, local_copy, make_folder, work_folder, write
from clerk.errors import ArchiveMissing, ClerkError
from clerk.object_storage.path import ObjectPath, P_co, StoragePath
from clerk.publish import object_pointers

DATABASE = "meetings.db"
_METADATA = "publication.json"


class NoSuchVersion(ClerkError):
    """There is nothing to roll back to."""

    code = "NoSuchVersion"


@dataclass(frozen=True)
class Version:
    path: StoragePath
    content_hash: str
    pages: int
    published_at: str

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def database(self) -> StoragePath:
        return self.path / DATABASE


@dataclass(frozen=True)
class SiteVersions(Generic[P_co]):
    """The published versions of one site."""

    root: P_co
    subdomain: str

    def __post_init__(self) -> None:
        if not is_subdomain(self.subdomain):
            raise ValueError(f"{self.subdomain!r} is not a subdomain")

    @property
    def folder(self) -> P_co:
        return cast("P_co", self.root / self.subdomain)

    @property
    def versions_folder(self) -> P_co:
        folder = self.folder / "versions"
        return cast("P_co", folder.immutable() if isinstance(folder, ObjectPath) else folder)

    @property
    def link(self) -> P_co:
        """The symbolic link to the current version or, in a bucket, the pointer."""
        if isinstance(self.root, ObjectPath):
            return cast("P_co", self.root / object_pointers.FOLDER / self.subdomain)
        return cast("P_co", self.folder / "current")

    @property
    def current_name(self) -> str | None:
        """The name of the current version. It may be incomplete, if files were lost."""
        link = self.link
        try:
            return link.read_text() if isinstance(link, ObjectPath) else link.readlink().name
        except (FileNotFoundError, NotADirectoryError):
            return None

    @property
    def current(self) -> Version | None:
        name = self.current_name
        return None if name is None else self.read(name)

    def read(self, name: str) -> Version | None:
        """None if the version is incomplete."""
        return _read(self.versions_folder / name)

    @property
    def database(self) -> P_co:
        """The database of the current version. In a folder, by way of the link: it may be switched at any time."""
        if isinstance(self.root, ObjectPath):
            return cast("P_co", self.versions_folder / (self.current_name or "none") / DATABASE)
        return cast("P_co", self.link / DATABASE)

    def find_problem(self, content_hash: str | None, full: bool = True) -> str | None:
        """What is wrong with the current version, as a predicate ("is missing"), or None.

        `content_hash`: the expected content; None if an operator chose the version.
        """
        current = self.current
        if current is None:
            return "is missing"
        if content_hash is not None and current.content_hash != content_hash:
            return "is not the version published last"
        return integrity.find_problem(current.database, current.content_hash, full)

    def versions(self) -> list[Version]:
        """Complete versions, oldest first: names begin with the time."""
        names = sorted(name for name in list_names(self.versions_folder) if not name.startswith("."))
        return [version for name in names if (version := _read(self.versions_folder / name)) is not None]

    def publish(self, database: StoragePath, keep: int, before_switch: Callable[[], None] | None = None) -> Version:
        """Make a copy of the database the current version, unless the current one has the same content.

        `before_switch` may raise to keep the current version, for example if the worker lost its claim.
        """
        self._remove_stale_drafts()
        version = self._add(database)
        self.switch_to(version, before_switch)
        self._prune(keep)
        return version

    def _add(self, database: StoragePath) -> Version:
        with self._draft_folder() as draft:
            copy = draft / DATABASE
            try:
                with local_copy(database) as file:
                    shutil.copyfile(file, copy)
            except FileNotFoundError as error:
                raise ArchiveMissing(f"there is no {database} to publish") from error
            with atomic_build.open_draft(copy) as connection:
                check_integrity(connection)
                content_hash, pages = hash_content(connection), count_pages(connection)
            existing = [
                version
                for version in self.versions()
                if version.content_hash == content_hash
                and integrity.find_problem(version.database, content_hash) is None
            ]
            if existing:  # publishing was killed before the switch, or the content is that of an earlier version
                return existing[-1]
            now = datetime.now(UTC)
            published_at = now.isoformat(timespec="seconds")
            metadata = {"content_hash": content_hash, "pages": pages, "published_at": published_at}
            final = self.versions_folder / f"{self._stamp(now)}-{content_hash[:12]}"
            self._install(draft, final, json.dumps(metadata) + "\n")
            return Version(final, content_hash, pages, published_at)

    @contextlib.contextmanager
    def _draft_folder(self) -> Iterator[Path]:
        folder = self.versions_folder
        parent = work_folder(folder) if isinstance(folder, ObjectPath) else folder
        make_folder(parent)
        draft = Path(tempfile.mkdtemp(prefix=".", suffix=".part", dir=parent))
        try:
            yield draft
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _install(self, draft: Path, final: StoragePath, metadata: str) -> None:
        if isinstance(final, ObjectPath):
            (final / DATABASE).upload(draft / DATABASE)
            write(final / _METADATA, metadata)  # last: a version without it is incomplete
            return
        (draft / DATABASE).chmod(0o644)
        fsync(draft / DATABASE)
        write(draft / _METADATA, metadata)
        draft.chmod(0o755)
        install((draft, final))

    def _stamp(self, now: datetime) -> str:
        """A time stamp that sorts after all existing names, even if the clock was set back."""
        stamp = now.strftime("%Y%m%dT%H%M%S%fZ")
        newest = max((version.name.partition("-")[0] for version in self.versions()), default="")
        return stamp if stamp > newest else f"{newest}a"

    def switch_to(self, version: Version, before_switch: Callable[[], None] | None = None) -> None:
        """Replace the link in one rename, or the pointer in one conditional write: readers see the old version or the
        new one."""
        link = self.link
        if isinstance(link, ObjectPath):
            object_pointers.switch(link, version.name, before_switch)
            return
        if self.current_name == version.name:
            return
        temporary = link.with_name(f".current.{os.getpid()}.{time.monotonic_ns()}.part")
        temporary.symlink_to(f"versions/{version.name}", target_is_directory=True)
        try:
            install((temporary, link), before_rename=before_switch)
        finally:
            temporary.unlink(missing_ok=True)

    def previous(self) -> Version:
        versions, current = self.versions(), self.current
        older = [version for version in versions if current is not None and version.name < current.name]
        if not versions:
            raise NoSuchVersion(
                f"nothing of {self.subdomain} has been published yet under {self.folder}",
                f"`clerk why {self.subdomain}` says what it waits for",
            )
        if not older:
            raise NoSuchVersion(
                f"{self.subdomain} has no version before the current one under {self.folder}",
                f"list the versions with `clerk rollback {self.subdomain} --list`",
            )
        return older[-1]

    def get(self, name: str) -> Version:
        for version in self.versions():
            if version.name == name:
                return version
        raise NoSuchVersion(
            f"{self.subdomain} has no version {name}",
            f"list the versions with `clerk rollback {self.subdomain} --list`",
        )

    def _prune(self, keep: int) -> None:
        current = self.current
        spare = [version for version in self.versions() if current is None or version.name != current.name]
        for version in spare[: max(0, len(spare) - (keep - 1))]:
            path = version.path
            if isinstance(path, ObjectPath):
                (path / _METADATA).unlink(missing_ok=True)  # first: a version without it is not listed
                path.delete_tree()
                continue
            # Renamed first, so that a partly deleted version is not listed.
            obsolete = path.with_name(f".{version.name}.part")
            with contextlib.suppress(FileNotFoundError):
                path.rename(obsolete)
            shutil.rmtree(obsolete, ignore_errors=True)

    def _remove_stale_drafts(self) -> None:
        versions, folder = self.versions_folder, self.folder
        if isinstance(versions, ObjectPath) or isinstance(folder, ObjectPath):
            leftovers = list(work_folder(versions).glob(".*.part"))
        else:
            leftovers = [*versions.glob(".*.part"), *folder.glob(".current.*.part")]
        for leftover in leftovers:
            with contextlib.suppress(FileNotFoundError):
                if time.time() - leftover.lstat().st_mtime > atomic_build.STALE_AFTER:
                    leftover.unlink() if leftover.is_symlink() else shutil.rmtree(leftover, ignore_errors=True)


def current_versions(root: StoragePath, site: str | None = None) -> dict[str, str]:
    """Subdomain → name of the current version. Reads one link per site; in a bucket, what changed since it was read
    last."""
    if isinstance(root, ObjectPath):
        return object_pointers.read_all(root, site)
    versions = {}
    for name in [site] if site else sorted(list_names(root)):
        try:
            target = os.readlink(f"{root}/{name}/current")  # noqa: PTH115 (thousands per search)
        except (FileNotFoundError, NotADirectoryError):
            continue
        if _is_subdomain(name):
            versions[name] = target.rpartition("/")[2]
    return versions


_is_subdomain = functools.lru_cache(100_000)(is_subdomain)


def published_archives(root: StoragePath, site: str | None = None) -> list[tuple[str, StoragePath]]:
    """Subdomain and current database of every published site, or of one."""
    if isinstance(root, ObjectPath):
        current = current_versions(root, site)
        return [(name, version_database(root, name, version)) for name, version in current.items()]
    names = [site] if site else sorted(path.name for path in root.glob("*") if is_subdomain(path.name))
    databases = ((name, SiteVersions(root, name).database) for name in names)
    return [(name, database) for name, database in databases if database.is_file()]


def version_database(root: StoragePath, subdomain: str, version: str) -> StoragePath:
    return SiteVersions(root, subdomain).versions_folder / version / DATABASE


def _read(path: StoragePath) -> Version | None:
    try:
        metadata = json.loads((path / _METADATA).read_bytes())
        # In a bucket, the database was uploaded before the metadata; a loss is found when it is opened.
        if isinstance(path, Path) and not (path / DATABASE).is_file():
            return None
        return Version(path, str(metadata["content_hash"]), int(metadata["pages"]), str(metadata["published_at"]))
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        # Other OS errors mean a failing disk, not a missing version, and are raised.
        return None
