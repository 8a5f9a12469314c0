"""The restrictions of processes that read untrusted files, and what is said about a kernel without them."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from clerk.ocr import landlock, restrictions, seccomp
from clerk.sources.link_parser import LinkParser

ROOT = Path(__file__).parents[2]
HEADERS = {"x86_64": "x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "asm-generic/unistd.h"}


def python(code: str, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, **options
    )


@pytest.mark.parametrize("machine", HEADERS)
def test_numbers_of_system_calls(machine: str) -> None:
    header = Path("/usr/include", HEADERS[machine])
    if not header.exists():
        pytest.skip(f"{header} is not installed (linux-libc-dev)")
    lines = [line.split() for line in header.read_text().splitlines() if line.startswith("#define __NR")]
    known = {cells[1].removeprefix("__NR3264_").removeprefix("__NR_"): cells[2] for cells in lines if len(cells) > 2}
    architecture = seccomp.ARCHITECTURES[machine]
    numbers = {**architecture.denied, "clone": architecture.clone, "prlimit64": architecture.prlimit64, "clone3": 435}
    wrong = {name: number for name, number in numbers.items() if known.get(name, str(number)) != str(number)}
    assert not wrong
    assert len(set(numbers) & set(known)) > 80


@pytest.mark.skipif(not seccomp.is_supported(), reason="this kernel has no seccomp")
def test_processes_and_threads_can_still_be_started() -> None:
    code = (
        "from clerk.ocr.restrictions import restrict_process; restrict_process()\n"
        "import subprocess, threading, resource\n"
        "thread = threading.Thread(target=print, args=['thread']); thread.start(); thread.join()\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "subprocess.run(['/bin/echo', 'process'], check=True)"
    )
    completed = python(code)
    assert (set(completed.stdout.split()), completed.stderr) == ({"thread", "process"}, "")


@pytest.mark.skipif(not seccomp.is_supported(), reason="this kernel has no seccomp")
def test_new_namespaces_are_denied() -> None:
    """In a new user namespace a process has capabilities, which the kernel's errors are often reached with."""
    code = (
        "import ctypes, os, sys\n"
        "from clerk.ocr import restrictions, seccomp\n"
        "if sys.argv[1:]: restrictions.restrict_process()\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "number = seccomp.ARCHITECTURES[os.uname().machine].clone\n"
        "pid = libc.syscall(number, 0x10000000 | 17, None, None, None, None)\n"
        "if pid == 0: os._exit(0)\n"
        "print('started' if pid > 0 else os.strerror(ctypes.get_errno()))"
    )
    if python(code).stdout.strip() != "started":
        pytest.skip("this machine does not allow user namespaces")
    assert python(f"import sys; sys.argv.append('restricted')\n{code}").stdout.strip() == "Operation not permitted"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_the_process_that_parses_html_is_restricted() -> None:
    with LinkParser() as parser:
        assert parser.parse("https://example.org/", "<a href='/1.pdf'>Minutes</a>").links
        assert parser._process is not None
        status = Path(f"/proc/{parser._process.popen.pid}/status").read_text().splitlines()
    fields = {name: value.strip() for name, _, value in (line.partition(":") for line in status)}
    assert fields["NoNewPrivs"] == "1"
    assert fields["Seccomp"] == ("2" if seccomp.is_supported() else "0")


def test_the_folder_of_the_package_is_not_readable_as_a_whole() -> None:
    """In a checkout it contains the .env file and perhaps the storage."""
    readable = list(restrictions._find_system())
    assert ROOT / "clerk" in readable
    assert not [folder for folder in readable if ROOT.is_relative_to(folder)]
    assert any(Path(sysconfig.get_path("purelib")).is_relative_to(folder) for folder in readable)


def test_a_program_outside_of_usr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "prefix" / "bin" / "pdftotext"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    readable = list(restrictions._find_system())
    assert {program.parent, tmp_path / "prefix" / "lib", tmp_path / "prefix" / "share"} <= set(readable)
    assert tmp_path / "prefix" not in readable


def test_a_kernel_without_support_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "version", lambda: 7)
    monkeypatch.setattr(seccomp, "is_supported", lambda: True)
    assert restrictions.describe() == "Landlock 7, seccomp"
    assert restrictions.find_problem() is None
    monkeypatch.setattr(landlock, "version", lambda: 0)
    assert restrictions.describe() == "seccomp"
    assert restrictions.find_problem() == (
        "this machine's kernel lacks Landlock: OCR processes can read the files of their user"
    )
    monkeypatch.setattr(seccomp, "is_supported", lambda: False)
    assert restrictions.describe() == "none"
    assert "lacks Landlock and seccomp" in (restrictions.find_problem() or "")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
@pytest.mark.parametrize("is_protected", [False, True])
def test_the_environment_of_a_worker_is_unreadable_for_its_user(is_protected: bool) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to start two processes of another user")
    # Python itself may be unreadable for other users. Changing the user protects a process, which is undone.
    code = (
        "import os; from clerk.process import prctl; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        f"prctl._prctl(prctl._PR_SET_DUMPABLE, 1); {'prctl.disable_dumps()' if is_protected else ''}\n"
        "print(flush=True); input()"
    )
    worker = subprocess.Popen(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT), "DATABASE_URL": "secret"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"\n"
        command = ["cat", f"/proc/{worker.pid}/environ"]
        environ = subprocess.run(command, user=65534, group=65534, capture_output=True, check=False)
        worker.kill()
    assert (b"secret" in environ.stdout) is not is_protected
