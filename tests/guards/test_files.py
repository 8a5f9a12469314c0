"""For each writer of files: a power failure at any time leaves no incomplete file, and loses no file that was written.

FILE_GUARDS lists what each writer does for that. Without any one of these, the test of the writer fails.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from clerk.archive import atomic_build, build_all
from clerk.archive.compile import compile_site
from clerk.archive.selection import select
from clerk.db.embedded.server import Server
from clerk.documents import legacy_backup, manifest, storage
from clerk.documents.storage import Document, SiteStorage
from clerk.extraction import cache
from clerk.legacy import disk, import_texts
from clerk.ocr import journal, process_document
from clerk.publish.versions import SiteVersions
from tests.archive.helpers import SiteDocuments, rows
from tests.guards.observer import observe, survives_power_failure
from tests.guards.removal import Guard, removed
from tests.guards.writers import find_writers
from tests.legacy.legacy_system import LegacyDisk
from tests.ocr import pdfs

DOCUMENT = Document(7, "town", "minutes", "Council", date(2024, 3, 5))
PAGE = manifest.Page(1, manifest.TEXT_LAYER, 3, None, 1, 0, manifest.digest(b"one"))

# The writers


def test_pdf_download(tmp_path: Path) -> None:
    town = SiteStorage(tmp_path, "town")
    for content in (b"%PDF first", b"%PDF second"):
        with survives_power_failure(tmp_path), storage.pending_download(town.folder) as pending:
            pending.file.write(content)
            pending.move_to(town.pdf(DOCUMENT))
        assert town.pdf(DOCUMENT).read_bytes() == content


def test_ocr(tmp_path: Path) -> None:
    """Page texts, page images and the manifest."""
    town = SiteStorage(tmp_path, "town")
    storage.write(town.pdf(DOCUMENT), pdfs.digital(2))
    options = process_document.Options(images="all")
    with survives_power_failure(tmp_path):
        process_document.process(town, DOCUMENT, options, lambda done, total: None, lambda: None)
    assert {path.name for path in town.texts(DOCUMENT).iterdir()} == {"1.txt", "2.txt", "manifest.json"}
    assert town.page_image(DOCUMENT, 2).is_file()


def test_journal(tmp_path: Path) -> None:
    town = SiteStorage(tmp_path, "town")
    storage.write(town.page_text(DOCUMENT, 1), "one")
    checkpoints = journal.Journal(town, DOCUMENT, "0" * 64, "eng")
    with survives_power_failure(tmp_path):
        checkpoints.begin({})
    with survives_power_failure(tmp_path):
        checkpoints.add([PAGE])
    assert checkpoints.pages(None) == {1: PAGE}
    with survives_power_failure(tmp_path):
        checkpoints.begin({1: PAGE})
    with observe(tmp_path) as observer:
        checkpoints.end()
    assert observer.events == [("remove", checkpoints.path), ("fsync", checkpoints.path.parent)]


def test_extraction_cache(tmp_path: Path) -> None:
    path = SiteStorage(tmp_path, "town").extracted(DOCUMENT)
    storage.make_folder(path.parent)
    with survives_power_failure(tmp_path):
        cache.save(path, cache.CachedFindings("builtin", "1", "0" * 64, {}))
    assert cache.load(path) is not None


def test_meetings_db(tmp_path: Path) -> None:
    town = SiteDocuments(tmp_path, "town")
    for text in ("one", "two"):  # from scratch, then from a copy
        town.add(text, number=1)
        with survives_power_failure(tmp_path):
            compile_site(town.storage, select(town.storage, list(town.candidates.values())))
        assert rows(town.storage.database, "select text from minutes") == [(text,)]


def test_build_all(tmp_path: Path) -> None:
    with survives_power_failure(tmp_path):
        build_all.build_all(tmp_path, [], tmp_path / "all.db")
    assert rows(tmp_path / "all.db", "select count(*) from minutes") == [(0,)]


def test_version(tmp_path: Path) -> None:
    """A version folder, and the switch of `current` from one version to another."""
    town, published = SiteDocuments(tmp_path / "storage", "town"), SiteVersions(tmp_path / "published", "town")
    for text in ("one", "two"):
        town.add(text, number=1)
        compile_site(town.storage, select(town.storage, list(town.candidates.values())))
        with survives_power_failure(tmp_path):
            published.publish(town.storage.database, keep=2)
        assert rows(published.link / "meetings.db", "select text from minutes") == [(text,)]


def test_legacy_import(tmp_path: Path) -> None:
    """Links to the texts and the PDF of legacy clerk, the list of these links, and a manifest."""
    legacy = LegacyDisk(tmp_path)
    legacy.text("town", "City Council", "2020-01-01", "one", "two", padded=True)
    legacy.pdf("town", "City Council", "2020-01-01", pages=2)
    town = SiteStorage(tmp_path, "town")
    ((document, source),) = import_texts.place(town, disk.scan(town.folder).documents)
    with survives_power_failure(tmp_path) as observer:
        import_texts.import_document(town, document, source)
    names = town.folder / "before-clerk" / "second-names.txt"
    texts = [town.page_text(document, number) for number in (1, 2)]
    assert names.read_text().splitlines() == [
        str(path.relative_to(town.folder)) for path in (town.pdf(document), *texts)
    ]
    for link in (town.pdf(document), *texts):
        before = observer.events[: observer.events.index(("link", link))]
        assert before[-1] != ("open", names), f"{link.name} was linked before the list was synced"
        assert ("fsync", names) in before, f"{link.name} was linked before it was listed"


def test_legacy_backup(tmp_path: Path) -> None:
    town = SiteStorage(tmp_path, "town")
    storage.write(town.page_text(DOCUMENT, 1), "one")
    storage.write(town.database, "archive")
    with survives_power_failure(tmp_path):
        legacy_backup.back_up_files(town, DOCUMENT)
        legacy_backup.back_up_database(town)
    assert (town.folder / "before-clerk/txt/Council/2024-03-05/1.txt").read_text() == "one"
    assert (town.folder / "before-clerk/meetings.db").read_text() == "archive"


def test_quarantine(tmp_path: Path) -> None:
    storage.write(tmp_path / "1.pdf", "damaged")
    with survives_power_failure(tmp_path):
        storage.quarantine(tmp_path / "1.pdf", "damaged")
    assert (tmp_path / "1.pdf.damaged").read_text() == "damaged"


def test_embedded_data_directory(tmp_path: Path) -> None:
    """initdb, which is another process, syncs what it writes."""
    tmp_path.chmod(0o755)
    data = tmp_path / "postgres"
    with observe(tmp_path) as observer:
        Server(data).initialise()
    events = [event for event in observer.events if event[1] in (data, tmp_path)]
    assert events == [("rename", data), ("fsync", tmp_path)]


# The guards

Writer = Callable[..., None]
WRITERS: dict[str, Writer] = {
    "PDF download": test_pdf_download,
    "OCR": test_ocr,
    "journal": test_journal,
    "extraction cache": test_extraction_cache,
    "meetings.db": test_meetings_db,
    "build-all": test_build_all,
    "version": test_version,
    "legacy backup": test_legacy_backup,
}
_FINAL_NAME = "for writing under its final name"
_NOT_SYNCED = "was renamed before its content was synced|was not synced"
_FOLDER = "is new in a folder that was not synced"
_SYNC_FOLDER = "    for folder in {final.parent for _, final in files}:\n        fsync(folder)\n"
_INSTALL_LINK = "install((temporary, link), before_rename=before_switch)"


def _written_directly(name: str, function: Callable[..., object], text: str, instead: str, test: Writer) -> Guard:
    return Guard(f"temporary name and rename: {name}", function, text, instead, test, _FINAL_NAME)


FILE_GUARDS = (
    *(
        Guard(
            f"fsync before the rename: {name}",
            storage.install,
            "        fsync(temporary)\n",
            "        pass\n",
            writer,
            _NOT_SYNCED,
        )
        for name, writer in WRITERS.items()
        if name not in ("version", "legacy backup")  # folders: below
    ),
    *(
        Guard(
            f"fsync of the folder after the rename: {name}",
            storage.install,
            _SYNC_FOLDER,
            "",
            writer,
            _FOLDER,
        )
        for name, writer in WRITERS.items()
    ),
    *(
        Guard(
            f"fsync of the parent of a new folder: {name}",
            storage.make_folder,
            "fsync(folder.parent)",
            "pass",
            writer,
            _FOLDER,
        )
        for name, writer in (WRITERS | {"legacy import": test_legacy_import}).items()
        if name in ("PDF download", "OCR", "version", "legacy import", "legacy backup")  # the others find their folders
    ),
    _written_directly(
        "PDF download",
        storage.PendingDownload.move_to,
        "install((self.path, final))",
        "final.write_bytes(self.path.read_bytes())",
        test_pdf_download,
    ),
    _written_directly(
        "page texts",
        process_document._store,
        "write_files(storage.texts(document), texts)",
        "[(storage.texts(document) / name).write_bytes(text) for name, text in texts.items()]",
        test_ocr,
    ),
    _written_directly(
        "page images",
        process_document._store,
        "write_files(storage.images(document), images)",
        "storage.images(document).mkdir(parents=True, exist_ok=True), "
        "[(storage.images(document) / name).write_bytes(image) for name, image in images.items()]",
        test_ocr,
    ),
    _written_directly("manifest", manifest.save, "write(path, ", "path.write_text(", test_ocr),
    _written_directly("journal", journal.Journal.begin, "write(self.path, ", "self.path.write_text(", test_journal),
    Guard(
        "fsync of an added line: journal",
        journal.Journal.add,
        "os.fsync(file.fileno())",
        "pass",
        test_journal,
        "jsonl was not synced",
    ),
    Guard(
        "fsync of the folder after the removal: journal",
        journal.Journal.end,
        "fsync(self.path.parent)",
        "pass",
        test_journal,
        "fsync",
    ),
    _written_directly("extraction cache", cache.save, "write(path, ", "path.write_text(", test_extraction_cache),
    *(
        _written_directly(
            name,
            atomic_build._build,
            "install((draft, final), before_rename=prepare)",
            "shutil.copyfile(draft, final)",
            test,
        )
        for name, test in (("meetings.db", test_meetings_db), ("build-all", test_build_all))
    ),
    Guard(
        "temporary name and rename: version folder",
        SiteVersions._draft_folder,
        'draft = Path(tempfile.mkdtemp(prefix=".", suffix=".part", dir=parent))',
        'draft = parent / "2024"; draft.mkdir()',
        test_version,
        _FINAL_NAME,
    ),
    Guard(
        "fsync of the copy: version folder",
        SiteVersions._install,
        "fsync(draft / DATABASE)",
        "pass",
        test_version,
        _NOT_SYNCED,
    ),
    Guard(
        "version folder before the link: version switch",
        SiteVersions._install,
        "install((draft, final))",
        "draft.rename(final)",
        test_version,
        "current was renamed before",
    ),
    Guard(
        "one rename: version switch",
        SiteVersions.switch_to,
        _INSTALL_LINK,
        'link.unlink(missing_ok=True), link.symlink_to(f"versions/{version.name}"), fsync(self.folder)',
        test_version,
        "current was removed before its replacement was in place",
    ),
    Guard(
        "links are listed before they exist: legacy import",
        import_texts._link,
        "    fsync(names)\n",
        "",
        test_legacy_import,
        "second-names.txt was not synced|before it was listed",
    ),
    Guard(
        "fsync of the list's folder: legacy import",
        import_texts._link,
        "    fsync(names.parent)\n",
        "",
        test_legacy_import,
        f"second-names.txt {_FOLDER}",
    ),
    Guard(
        "fsync of the folder of the links: legacy import",
        import_texts._link,
        "        fsync(folder)\n",
        "        pass\n",
        test_legacy_import,
        f"pdf {_FOLDER}",
    ),
    Guard(
        "fsync before the rename: legacy backup",
        legacy_backup._back_up,
        "install((draft,",
        "Path.rename(*(draft,",
        test_legacy_backup,
        _NOT_SYNCED,
    ),
    Guard(
        "fsync of the folder of a link: legacy backup",
        legacy_backup.back_up_database,
        "fsync(target.parent)",
        "pass",
        test_legacy_backup,
        f"meetings.db {_FOLDER}",
    ),
    Guard(
        "fsync of the folder after the rename: quarantine",
        storage.quarantine,
        "fsync(path.parent)",
        "pass",
        test_quarantine,
        _FOLDER,
    ),
    Guard(
        "fsync of the folder after the rename: embedded data directory",
        Server.initialise,
        "os.fsync(descriptor)",
        "pass",
        test_embedded_data_directory,
        "fsync",
    ),
)


@pytest.mark.parametrize("guard", FILE_GUARDS, ids=lambda guard: guard.name)
def test_without_the_guard_the_test_fails(guard: Guard, tmp_path: Path) -> None:
    with removed(guard), pytest.raises(AssertionError, match=guard.failure):
        guard.test(tmp_path)


# Every writer is known

_OWN_WRITERS = {
    "clerk/documents/storage.py atomic_write": "writes the temporary file",
    "clerk/documents/storage.py install": "the rename",
    "clerk/documents/storage.py pending_download": "creates the temporary file",
    "clerk/documents/storage.py quarantine": "guarded above",
    "clerk/documents/storage.py temporary_file": "creates the temporary file",
    "clerk/documents/storage.py write_files": "writes the temporary files",
    "clerk/archive/atomic_build.py _build": "writes the temporary file",
    "clerk/archive/atomic_build.py _build_object": "a scratch folder, from which the file is uploaded",
    "clerk/object_storage/cache.py _add": "the temporary file of a copy, which can be downloaded again",
    "clerk/publish/deployers/command.py deploy_municipality": "a scratch folder with a copy for the command",
    "clerk/publish/versions.py _add": "the copy in the draft folder",
    "clerk/publish/versions.py _draft_folder": "guarded above",
    "clerk/publish/versions.py _prune": "hides a version that is then deleted",
    "clerk/publish/versions.py switch_to": "guarded above",
    "clerk/publish/search_index.py _open_reader": "links that are deleted after the index is open",
    "clerk/publish/search_index.py _write_lock": "a lock",
    "clerk/publish/search_index.py build": "an index that tantivy syncs; without it, the archives are searched",
    "clerk/documents/legacy_backup.py _back_up": "guarded above",
    "clerk/documents/legacy_backup.py hardlink_or_copy": "guarded above",
    "clerk/legacy/import_texts.py _link": "guarded above",
    "clerk/ocr/journal.py add": "guarded above",
    "clerk/db/embedded/server.py initialise": "guarded above",
    "clerk/db/embedded/server.py start": "a log",
    "clerk/db/embedded/daemon.py _detach": "a log",
    "clerk/db/embedded/daemon.py _run": "a lock",
    "clerk/db/embedded/daemon.py main": "a lock",
    "clerk/db/embedded/postgres.py _start_daemon": "a lock",
    "clerk/db/embedded/postgres.py is_used": "a lock",
    "clerk/db/embedded/postgres.py prepare": "a lock",
    "clerk/db/embedded/postgres.py running": "a lock",
    "clerk/cli/db.py start": "an empty file",
    "clerk/cli/up.py _open_log": "a log",
    "clerk/cli/demo.py _workers": "messages of the workers, which are deleted",
    "clerk/cli/plugins_new.py new": "a plugin's first files, which can be written again",
    "clerk/sources/recording.py _write_answer": "a recording, which can be repeated",
    "clerk/sources/recording.py write": "a recording, which can be repeated",
    "clerk/cli/votes.py export": "an export, which can be repeated",
    "clerk/ocr/layer_words.py _write_words": "the scratch folder of a limited process",
    "clerk/ocr/limited_child.py run_child": "the scratch folder of a limited process",
    "clerk/ocr/searchable_pdf.py searchable_pdf": "the scratch folder of a limited process",
    "clerk/ocr/cores.py _take": "a lock",
    "clerk/ocr/reader_client.py __init__": "messages of the fork server",
    "clerk/ocr/reader_client.py __enter__": "the scratch folder of the OCR process",
    "clerk/db/embedded/server.py _replace": "written again at every start",
    "clerk/db/embedded/server_user.py reachable_binaries": "a copy of binaries, made again if it is missing",
    "clerk/host.py disk_problem": "a probe that is deleted",
    "clerk/ocr/scratch.py scratch_folder": "the scratch folder of the OCR process",
    "clerk/cli/site_list.py export": "a file that the user names; a failed export is repeated",
    "clerk/sources/link_parser.py __init__": "the scratch folder of the parser process",
    "clerk/ocr/sandbox.py run": "the scratch folder of the OCR process",
}


def test_every_writer_is_known() -> None:
    """A function that writes files by other means than those of `clerk.documents.storage` needs a guard, or a reason
    here why it needs none."""
    assert find_writers() == set(_OWN_WRITERS)


def test_names_of_guards_are_distinct() -> None:
    names = sorted(guard.name for guard in FILE_GUARDS)
    assert [name for name, group in itertools.groupby(names) if len(list(group)) > 1] == []
