"""The fork server: started once, shared by concurrent documents, replaced when it fails or is used up."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import psutil
import pytest

from clerk.documents.storage import Document, SiteStorage, write
from clerk.errors import ReaderCrashed
from clerk.ocr import process_document, protocol, reader_client
from clerk.ocr.first_page import read_first_page
from clerk.ocr.process_document import Options
from tests.helpers import until
from tests.ocr import pdfs
from tests.ocr.conftest import ProcessPdf


@pytest.fixture(autouse=True)
def _new_server() -> Iterator[None]:
    reader_client.close()
    yield
    reader_client.close()


def server() -> psutil.Process:
    """The only fork server of this process."""
    (found,) = servers()
    return found


def servers() -> list[psutil.Process]:
    children = psutil.Process().children()
    return [child for child in children if child.status() != "zombie" and child.name() == "clerk-fork"]


def test_it_has_one_thread_and_no_secrets(process_pdf: ProcessPdf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://clerk:secret@localhost/clerk")
    process_pdf(pdfs.digital(1))
    assert server().num_threads() == 1
    assert "secret" not in Path(f"/proc/{server().pid}/environ").read_text()
    assert {"-P", "-s"} <= set(server().cmdline())


def test_each_document_gets_its_own_process(process_pdf: ProcessPdf) -> None:
    seen: list[tuple[int, int]] = []

    def report(done: int, total: int) -> None:
        if done == 0:
            (reader,) = server().children()
            assert os.getsid(reader.pid) == reader.pid
            seen.append((server().pid, reader.pid))

    process_pdf(pdfs.digital(1), report=report)
    process_pdf(pdfs.digital(2), report=report)
    (first_server, first), (second_server, second) = seen
    assert first_server == second_server
    assert first != second


def test_documents_are_processed_concurrently(tmp_path: Path) -> None:
    storage = SiteStorage(tmp_path, "springfield")
    documents = [Document(day, "springfield", "minutes", "Council", date(2024, 1, day)) for day in (1, 2, 3)]
    for document in documents:
        write(storage.pdf(document), pdfs.numbered(2))
    highest = 0

    def process(document: Document) -> int:
        def report(done: int, total: int) -> None:
            nonlocal highest
            highest = max(highest, len(server().children()))
            until(lambda: highest > 1)

        return process_document.process(storage, document, Options(), report, lambda: None).page_count

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(process, documents)) == [2, 2, 2]
    assert highest > 1


def test_the_death_of_the_server_fails_the_document_and_the_next_one_gets_a_new_server(process_pdf: ProcessPdf) -> None:
    descendants: list[psutil.Process] = []

    def kill_server(done: int, total: int) -> None:
        if done == 1:
            descendants.extend(server().children(recursive=True))
            server().kill()

    with pytest.raises(ReaderCrashed, match="fork server has ended"):
        process_pdf(pdfs.numbered(3), report=kill_server)
    assert descendants
    until(lambda: not any(process.is_running() and process.status() != "zombie" for process in descendants))
    assert process_pdf(pdfs.numbered(3)).page_count == 3


def test_a_server_that_died_between_documents_is_replaced(process_pdf: ProcessPdf) -> None:
    process_pdf(pdfs.digital(1))
    killed = server()
    killed.kill()
    until(lambda: killed.status() == "zombie")
    process_pdf(pdfs.digital(2))
    assert server() != killed


def test_a_server_that_does_not_respond_is_replaced(process_pdf: ProcessPdf, monkeypatch: pytest.MonkeyPatch) -> None:
    process_pdf(pdfs.digital(1))
    server().send_signal(signal.SIGSTOP)
    with monkeypatch.context() as patch:
        patch.setattr(reader_client, "_FORK_TIMEOUT", 0.5)
        with pytest.raises(ReaderCrashed, match="did not respond"):
            process_pdf(pdfs.digital(2))
    assert process_pdf(pdfs.digital(2)).page_count == 2


def test_a_server_is_replaced_after_a_number_of_documents(
    process_pdf: ProcessPdf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_client, "_MAX_FORKS", 2)
    used = []
    for pages in (1, 2, 3):
        process_pdf(pdfs.digital(pages))
        used.append(server().pid if len(servers()) == 1 else max(servers(), key=psutil.Process.create_time).pid)
    assert used[0] == used[1] != used[2]
    until(lambda: len(servers()) == 1)


def test_the_environment_of_the_worker_applies_to_the_next_document(
    process_pdf: ProcessPdf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process_pdf(pdfs.digital(1))
    before = server()
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    process_pdf(pdfs.digital(2))
    until(lambda: servers() != [before] and len(servers()) == 1)


def test_a_process_that_exits_while_its_worker_closes_the_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "FORK_SERVER_MODULE", "tests.ocr.coinciding_fork_server")
    (tmp_path / "minutes.pdf").write_bytes(pdfs.digital(1))
    first = read_first_page(tmp_path / "minutes.pdf")
    before = server()
    assert read_first_page(tmp_path / "minutes.pdf") == first
    assert server() == before


def test_models_are_loaded_for_the_first_document_only(process_pdf: ProcessPdf, tmp_path: Path) -> None:
    (tmp_path / "minutes.pdf").write_bytes(pdfs.digital(1))
    read_first_page(tmp_path / "minutes.pdf")
    before, size = server(), server().memory_info().rss
    process_pdf(pdfs.digital(1))
    assert server() == before
    assert server().memory_info().rss > size + (8 << 20)
