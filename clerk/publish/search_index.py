"""One search index over the pages of all published sites, in CLERK_PUBLISH_DIR/.search-index. Optional.

The index is a tantivy index (extra `clerk[index]`). It holds the terms of each page and where the page is, but no text:
that is read from the archives. For each site it also holds a record with the name of the version that was indexed, in
the same commit as its pages. A site whose current version is another one is searched in its archive
(`published_search.py`), so that an index that is out of date never gives wrong results.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clerk.archive import terms
from clerk.archive.query import Query
from clerk.archive.query_nodes import Near, Node, Or, Term
from clerk.archive.search import Matches, SearchRequest, Sort
from clerk.documents.storage import make_folder
from clerk.object_storage.path import ObjectPath, StoragePath
from clerk.publish import index_documents
from clerk.publish.index_documents import IndexUnavailable, UpdateResult, require_tantivy

if TYPE_CHECKING:
    import tantivy

logger = logging.getLogger(__name__)

FOLDER = ".search-index"
_FORMAT = f"2-{terms.VERSION}"
"""Part of the index's folder name: an index of another format is ignored until it is built again."""
_STALE_AFTER = 24 * 3600.0
"""Age in seconds after which the draft of an index belongs to a dead process."""
_OPEN_ATTEMPTS = 3
_REPLACE_TIMEOUT = 600.0
"""Seconds to wait for another process before an index is replaced or removed."""

Progress = Callable[[int, int], object]
"""Called with the number of sites that are done, and of all."""


class SearchIndex:
    """The index of `publish_dir`, if there is one. Instances are kept per process: see `open_index`."""

    def __init__(self, publish_dir: StoragePath) -> None:
        self.publish_dir = publish_dir
        self._root = _local_folder(publish_dir)
        self.folder = self._root / FOLDER / _FORMAT
        self._lock = threading.Lock()
        self._opened: _Reader | None = None

    @property
    def exists(self) -> bool:
        return (self.folder / "meta.json").is_file()

    def versions(self) -> dict[str, str]:
        """Subdomain → name of the indexed version."""
        return self._open()[1]

    def search(self, request: SearchRequest, sites: Iterable[str] | None) -> Matches:
        """The matches in `sites`; None: in all that are indexed."""
        from clerk.publish import index_query

        index, _ = self._open()
        searcher = index.searcher()
        query = index_query.compile_request(index.schema, request, sites)
        facets = index_documents.read_facets(searcher, query)
        total = facets.year.total()
        limit = total if request.end is None else min(request.end, total)
        if not limit:
            return Matches([], total, facets, 0)
        order = "date" if request.sort is Sort.DATE else None
        hits = searcher.search(query, limit, count=False, order_by_field=order).hits
        first = [
            index_documents.read_match(searcher.doc(address), score, rank)
            for rank, (score, address) in enumerate(hits, 1)
        ]
        return Matches(first, total, facets, 0)

    def supports(self, query: Query) -> bool:
        return _supports(query.root)

    def update(
        self,
        wanted: dict[str, str],
        *,
        wait: float,
        forget_others: bool = False,
        progress: Progress = lambda done, of: None,
    ) -> UpdateResult:
        """Index the versions (subdomain → version name) that are not indexed yet.

        `forget_others`: remove sites that are not in `wanted`. `wait`: seconds to wait for another process.
        """
        result = UpdateResult()
        with self._write_lock(wait):
            indexed = self.versions()
            due = {site: version for site, version in wanted.items() if indexed.get(site) != version}
            gone = [site for site in indexed if forget_others and site not in wanted]
            if due or gone:
                import tantivy

                index = tantivy.Index.open(str(self.folder))
                index_documents.write(index, self.folder, self.publish_dir, due, gone, result, progress)
        return result

    def build(self, wanted: dict[str, str], progress: Progress = lambda done, of: None) -> UpdateResult:
        """Build the index again, beside the existing one, and replace it. Searches are not interrupted."""
        result = UpdateResult()
        root = self.folder.parent
        make_folder(root)
        self._remove_stale_drafts()
        draft = Path(tempfile.mkdtemp(prefix=".", suffix=".part", dir=root))
        try:
            draft.chmod(0o755)
            index = index_documents.create(draft)
            index_documents.write(index, draft, self.publish_dir, wanted, [], result, progress)
            del index
            with self._write_lock(_REPLACE_TIMEOUT):
                obsolete = root / f".{_FORMAT}.{time.monotonic_ns()}.part"
                if self.folder.exists():
                    self.folder.rename(obsolete)
                draft.rename(self.folder)
                shutil.rmtree(obsolete, ignore_errors=True)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return result

    def remove(self) -> None:
        with self._write_lock(_REPLACE_TIMEOUT):
            shutil.rmtree(self.folder.parent)

    def _remove_stale_drafts(self) -> None:
        for leftover in self.folder.parent.glob(".*.part"):
            if time.time() - leftover.stat().st_mtime > _STALE_AFTER:
                shutil.rmtree(leftover, ignore_errors=True)

    @contextlib.contextmanager
    def _write_lock(self, wait: float) -> Iterator[None]:
        """Only one process may write. The lock is beside the index, because a build replaces the index's folder."""
        make_folder(self._root)
        with (self._root / f"{FOLDER}.lock").open("w") as file:
            deadline = time.monotonic() + wait
            while True:
                try:
                    fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise IndexUnavailable(
                            f"another process has been writing to the search index for {wait:.0f} seconds",
                            "run `clerk search-index update` later",
                        ) from None
                    time.sleep(0.1)
            yield

    def _open(self) -> tuple[tantivy.Index, dict[str, str]]:
        """The index as of its last commit, for reading, and the indexed versions."""
        with self._lock:
            status = (self.folder / "meta.json").stat()
            identity = (status.st_ino, status.st_mtime_ns)
            if self._opened is None or self._opened.identity != identity:
                self._opened = _open_reader(self.folder, identity)
            return self._opened.index, self._opened.versions


@dataclass(frozen=True)
class _Reader:
    identity: tuple[int, int]
    """Inode and time of meta.json, which every commit replaces."""
    index: tantivy.Index
    versions: dict[str, str]


def _open_reader(folder: Path, identity: tuple[int, int]) -> _Reader:
    """Open the index through a temporary folder of links to its files.

    tantivy creates a lock file in the folder even to read, but the dashboard and `clerk serve` may have no right to
    write there. It has all files open afterwards, so the links are not needed any longer.
    """
    import tantivy

    for attempt in range(_OPEN_ATTEMPTS):
        try:
            with tempfile.TemporaryDirectory(prefix="clerk-search-index-") as mirror:
                for file in folder.iterdir():
                    copy = Path(mirror) / file.name
                    if file.suffix == ".json":
                        shutil.copyfile(file, copy)
                    elif file.suffix != ".lock":
                        copy.symlink_to(file.absolute())
                index = tantivy.Index.open(mirror)
                return _Reader(identity, index, index_documents.read_versions(index))
        except (OSError, ValueError):  # a commit removed files meanwhile
            if attempt == _OPEN_ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def _local_folder(publish_dir: StoragePath) -> Path:
    """Where the index is. Archives in a bucket have an index on each machine that searches them."""
    return publish_dir.cache.folder if isinstance(publish_dir, ObjectPath) else publish_dir


_indexes: dict[StoragePath, SearchIndex] = {}


def open_index(publish_dir: StoragePath) -> SearchIndex | None:
    """The index of `publish_dir`; None if there is none, or if tantivy is not installed."""
    index = _indexes.setdefault(publish_dir, SearchIndex(publish_dir))
    if not index.exists:
        return None
    try:
        require_tantivy()
    except IndexUnavailable as error:
        logger.warning("the search index under %s is not used: %s", publish_dir, error)
        return None
    return index


def _supports(node: Node) -> bool:
    """Whether the index finds exactly what the archives find.

    It does not for phrases that end with a prefix, and for NEAR with phrases, prefixes or more than two words: tantivy
    limits the words that a prefix expands to, and its slop differs from the distance of FTS5.
    """
    if isinstance(node, Term):
        return not (node.is_prefix and len(node.tokens) > 1)
    if isinstance(node, Near):
        return len(node.terms) == 2 and all(len(term.tokens) == 1 and not term.is_prefix for term in node.terms)
    if isinstance(node, Or):
        return all(map(_supports, node.nodes))
    return all(map(_supports, (*node.required, *node.excluded)))
