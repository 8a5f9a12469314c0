"""Programs that a document controls: stand-ins for poppler on PATH that attempt attacks. Each is refused, and the
document fails with the reason. The same attack succeeds outside of the reader process, so the tests can fail."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clerk.documents.storage import Document, SiteStorage
from clerk.errors import PdfBroken, PdfTooLarge, ReaderOutputInvalid, ReaderStalled
from clerk.ocr import document_readers, first_page, landlock, page_render, poppler, seccomp
from tests.ocr import pdfs
from tests.ocr.conftest import ProcessPdf

needs_landlock = pytest.mark.skipif(landlock.version() == 0, reason="this kernel has no Landlock")
needs_scopes = pytest.mark.skipif(landlock.version() < 6, reason="this kernel's Landlock does not restrict signals")
needs_seccomp = pytest.mark.skipif(not seccomp.is_supported(), reason="this kernel has no seccomp")

SUCCEEDED = "the attack succeeded"
STAND_IN = """#!{python} -S
import ctypes, os, socket, sys
TARGET, WORKER = {target!r}, {worker}
libc = ctypes.CDLL(None, use_errno=True)
def system_call(*arguments):
    arguments = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    if libc.syscall(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
def attack():
    {attack}
try:
    attack()
    print("{succeeded}", file=sys.stderr)
except OSError as error:
    print("refused:", error, file=sys.stderr)
sys.exit(1)
"""
DAMAGED = b"%PDF-1.4\n%%EOF\n"
"""Only poppler could find pages in it, so its message is in the error."""

Install = Callable[[str, str], Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """A function that puts a stand-in for poppler's programs on PATH and returns its path."""

    def install(attack: str, target: str = "") -> Path:
        folder = tmp_path / "stand-ins"
        folder.mkdir()
        content = STAND_IN.format(
            python=sys.executable, target=target, worker=os.getpid(), attack=attack, succeeded=SUCCEEDED
        )
        for program in poppler.PROGRAMS:
            (folder / program).write_text(content)
            (folder / program).chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        return folder / "pdfinfo"

    return install


@pytest.fixture
def other_file(tmp_path: Path) -> Path:
    """A file of another site."""
    path = tmp_path / "storage" / "shelbyville" / "meetings.db"
    path.parent.mkdir(parents=True)
    path.write_text("secret")
    return path


@pytest.fixture
def unix_socket(tmp_path: Path) -> Iterator[Path]:
    """A listening socket, like that of Postgres."""
    path = tmp_path / ".s.PGSQL.5432"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        yield path


def assert_refused(
    process_pdf: ProcessPdf, stand_in: Path, folder: Path, reason: str, restore: Callable[[], object] = lambda: None
) -> None:
    outside = subprocess.run([stand_in], cwd=folder, stderr=subprocess.PIPE, text=True, check=False)
    assert SUCCEEDED in outside.stderr
    restore()
    with pytest.raises(PdfBroken, match=rf"refused: .*({reason})"):
        process_pdf(DAMAGED)


@needs_landlock
@pytest.mark.parametrize(
    "attack",
    [
        "open(TARGET).read()",
        "open(TARGET, 'a').write('x')",
        "os.listdir(os.path.dirname(TARGET))",
        "os.unlink(TARGET)",
        "os.link(TARGET, '1.png')",
        "os.symlink(TARGET, '1.png')",
        "os.mkfifo('1.png')",
        "os.rename(TARGET, TARGET + '.old')",
        "open(os.path.dirname(TARGET) + '/new', 'w')",
        "open('/etc/passwd').read()",
        "open(f'/proc/{WORKER}/environ').read()",
        "open('/proc/self/maps').read()",
        "os.listdir('/proc')",
    ],
)
def test_other_files(process_pdf: ProcessPdf, install: Install, other_file: Path, tmp_path: Path, attack: str) -> None:
    stand_in = install(attack, str(other_file))
    reason = "Permission denied|cross-device"
    assert_refused(process_pdf, stand_in, tmp_path, reason, lambda: other_file.write_text("secret"))
    assert other_file.read_text() == "secret"


@needs_landlock
def test_a_program_that_was_written_to_the_scratch_folder(
    process_pdf: ProcessPdf, install: Install, tmp_path: Path
) -> None:
    attack = (
        "descriptor = os.open('program', os.O_CREAT | os.O_WRONLY, 0o755);"
        " os.write(descriptor, open('/bin/true', 'rb').read()); os.close(descriptor);"
        " os.posix_spawn('program', ['program'], {})"
    )
    assert_refused(process_pdf, install(attack, ""), tmp_path, "Permission denied")


@needs_seccomp
@pytest.mark.parametrize("kind", ["AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK"])
def test_sockets(process_pdf: ProcessPdf, install: Install, tmp_path: Path, kind: str) -> None:
    attack = f"socket.socket(socket.{kind}, socket.SOCK_DGRAM)"
    assert_refused(process_pdf, install(attack, ""), tmp_path, "Operation not permitted")


@needs_seccomp
def test_the_socket_of_postgres(process_pdf: ProcessPdf, install: Install, unix_socket: Path, tmp_path: Path) -> None:
    attack = "socket.socket(socket.AF_UNIX).connect(TARGET)"
    assert_refused(process_pdf, install(attack, str(unix_socket)), tmp_path, "Operation not permitted")


@needs_seccomp
def test_tcp(process_pdf: ProcessPdf, install: Install, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        attack = f"socket.create_connection(('127.0.0.1', {listener.getsockname()[1]}))"
        assert_refused(process_pdf, install(attack, ""), tmp_path, "Operation not permitted")


@needs_seccomp
@pytest.mark.parametrize(
    "attack",
    [
        "os.chmod(TARGET, 0o777)",
        "os.utime(TARGET)",
        "system_call({ptrace}, 0, 0, 0, 0)",
        "system_call({process_vm_readv}, os.getpid(), None, 0, None, 0, 0)",
        "system_call({io_uring_setup}, 1, ctypes.byref((ctypes.c_uint32 * 30)()))",
        "system_call({keyctl}, 0, -3, 1)",
        "system_call({shmget}, 0, 4096, 0o1600)",
        "system_call({prlimit64}, WORKER, 7, None, ctypes.byref((ctypes.c_uint64 * 2)()))",
        "system_call({pidfd_open}, WORKER, 0)",
    ],
)
def test_other_processes_and_kernel_interfaces(
    process_pdf: ProcessPdf, install: Install, other_file: Path, tmp_path: Path, attack: str
) -> None:
    architecture = seccomp.ARCHITECTURES[os.uname().machine]
    for name, number in {**architecture.denied, "prlimit64": architecture.prlimit64}.items():
        attack = attack.replace(f"{{{name}}}", str(number))
    assert_refused(process_pdf, install(attack, str(other_file)), tmp_path, "Operation not permitted")


@needs_scopes
def test_signals_to_the_worker(process_pdf: ProcessPdf, install: Install, tmp_path: Path) -> None:
    assert_refused(process_pdf, install("os.kill(WORKER, 0)", ""), tmp_path, "Operation not permitted")


def test_no_descriptor_of_the_reader_process_is_inherited(process_pdf: ProcessPdf, install: Install) -> None:
    """Its standard output is the channel of results."""
    install("[os.fstat(descriptor) for descriptor in range(3, 64)]", "")
    with pytest.raises(PdfBroken, match=r"refused: .*Bad file descriptor"):
        process_pdf(DAMAGED)


def test_unbounded_output(process_pdf: ProcessPdf, install: Install) -> None:
    install("[sys.stdout.write('x' * (1 << 20)) for _ in iter(int, 1)]", "")
    with pytest.raises(PdfTooLarge, match="size limit"):
        process_pdf(DAMAGED)


def test_unbounded_number_of_files(process_pdf: ProcessPdf, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_readers, "_MAX_SCRATCH_FILES", 50)
    install("import time, itertools; [(open(str(n), 'w').close(), time.sleep(0.01)) for n in itertools.count()]", "")
    with pytest.raises(ReaderOutputInvalid, match="50 files"):
        process_pdf(DAMAGED)


def test_unbounded_waiting(process_pdf: ProcessPdf, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_readers, "_WALL_PER_CPU_SECOND", 0.1)
    install("import time; time.sleep(600)", "")
    with pytest.raises(ReaderStalled, match=r"within 3 s|no output for 3 s"):
        process_pdf(DAMAGED)


@needs_landlock
def test_rendering_a_page_on_demand(install: Install, other_file: Path, tmp_path: Path) -> None:
    (tmp_path / "minutes.pdf").write_bytes(pdfs.digital(1))
    install("open(TARGET).read()", str(other_file))
    with pytest.raises(page_render.RenderFailed, match=r"refused: .*Permission denied"):
        page_render.render_page(tmp_path / "minutes.pdf", 1)


@needs_landlock
@needs_seccomp
@pytest.mark.parametrize(
    ("attack", "reason"),
    [
        ("open(TARGET).read()", "Permission denied"),
        ("os.unlink(TARGET)", "Permission denied"),
        ("open(f'/proc/{WORKER}/environ').read()", "Permission denied"),
        ("socket.socket(socket.AF_INET)", "Operation not permitted"),
    ],
)
def test_reading_the_first_page_at_fetch(
    install: Install, other_file: Path, tmp_path: Path, attack: str, reason: str
) -> None:
    (tmp_path / "minutes.pdf").write_bytes(pdfs.digital(1))
    stand_in = install(attack, str(other_file))
    outside = subprocess.run([stand_in], cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False)
    assert SUCCEEDED in outside.stderr
    other_file.write_text("secret")
    with pytest.raises(first_page.FirstPageUnreadable, match=rf"refused: .*{reason}"):
        first_page.read_first_page(tmp_path / "minutes.pdf")
    assert other_file.read_text() == "secret"


@pytest.mark.parametrize(
    ("attack", "message"),
    [
        ("b = bytearray(600 << 20)", "ran out of memory"),
        ("open('1.txt', 'wb').write(bytes(5 << 20))", "refused: .*File too large|exceeded the size limit"),
        ("import resource; raise OSError(str(resource.getrlimit(resource.RLIMIT_CPU)))", r"refused: \(5, 6\)"),
        ("import time; time.sleep(600)", "did not finish within 2 s"),
    ],
)
def test_the_limits_of_a_first_page(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attack: str, message: str
) -> None:
    if "sleep" in attack:
        monkeypatch.setattr(first_page, "_TIMEOUT", 2.0)
    (tmp_path / "minutes.pdf").write_bytes(pdfs.digital(1))
    install(attack, "")
    with pytest.raises(first_page.FirstPageUnreadable, match=message):
        first_page.read_first_page(tmp_path / "minutes.pdf")


@needs_landlock
def test_the_pdf_itself_cannot_be_changed(
    process_pdf: ProcessPdf, install: Install, storage: SiteStorage[Path], document: Document
) -> None:
    install("open(TARGET, 'a').write('x')", str(storage.pdf(document).absolute()))
    with pytest.raises(PdfBroken, match=r"refused: .*Permission denied"):
        process_pdf(DAMAGED)
    assert storage.pdf(document).read_bytes() == DAMAGED
