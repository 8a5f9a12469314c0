"""bin/setup creates a complete .venv or none, and never deletes a foreign folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.setup.conftest import Prepared
from tests.setup.machine import PYTHON, Machine, copy_checkout

NO_NETWORK = {
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "ALL_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "",
    "PIP_RETRIES": "0",
    "UV_HTTP_RETRIES": "0",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return copy_checkout(tmp_path / "a checkout")


@pytest.fixture(scope="module")
def own(prepared: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set-up checkout that was copied to another folder, with its .venv."""
    root = tmp_path_factory.mktemp("moved") / "checkout"
    shutil.copytree(prepared.root, root, symlinks=True, copy_function=os.link)
    return root


def test_help_and_wrong_usage(machine: Machine, checkout: Path) -> None:
    help_ = machine.run(checkout / "bin/setup", "--help")
    assert help_.code == 0
    assert "--for-tests" in help_.out
    wrong = machine.run(checkout / "bin/setup", "--for-test")
    assert wrong.code == 2
    assert wrong.err == "bin/setup: unknown option --for-test; bin/setup --help lists them\n"


def test_two_concurrent_setups_after_a_killed_one(prepared: Prepared) -> None:
    assert [run.code for run in prepared.runs] == [0, 0], prepared.runs
    assert sum("setup: create .venv" in run.err for run in prepared.runs) == 1
    assert sum("waiting for another bin/setup" in run.err for run in prepared.runs) == 1
    assert all(run.out == "" for run in prepared.runs)


def test_a_second_run_prints_nothing(prepared: Prepared, machine: Machine, tmp_path: Path) -> None:
    """From another folder, through a symbolic link, and without a network."""
    link = tmp_path / "setup"
    link.symlink_to(prepared.root / "bin/setup")
    assert machine.run(link, cwd=tmp_path, environment=NO_NETWORK).silent


def test_installed_packages_match_the_lock(prepared: Prepared) -> None:
    venv = prepared.root / ".venv/bin"
    exported = subprocess.check_output(
        [venv / "uv", "export", "--frozen", "--quiet", "--all-groups", "--no-emit-project", "--no-hashes",
         "--no-annotate", "--no-header", "--project", prepared.root],
        text=True,
    )  # fmt: skip
    locked = {line.split(" ;")[0].strip() for line in exported.splitlines()}
    frozen = subprocess.check_output([venv / "uv", "pip", "freeze", "--python", venv / "python"], text=True)
    installed = {line for line in frozen.splitlines() if not line.startswith(("-e ", "pip==", "setuptools=="))}
    assert installed <= locked
    assert {line.split("==")[0] for line in installed} >= {"click", "procrastinate", "pytest", "uv"}
    assert f"-e file://{prepared.root}" in frozen


def test_a_moved_checkout_is_set_up_again_and_a_stale_one_updated(own: Path, machine: Machine) -> None:
    """One test, because each step needs a .venv: moved, stale in several ways, no network, updated in place."""
    for name in ("tesseract", "pdftoppm"):
        (machine.bin / name).unlink()
    machine.put_user()
    machine.put_installer("apt-get")

    moved = machine.run(own / "bin/setup", "--if-needed")
    assert moved.code == 0
    assert "setup: create .venv" in moved.err
    assert "clerk needs tesseract-ocr tesseract-ocr-spa poppler-utils, which pat may not install" in moved.last_line
    assert f"#!{own}/.venv/bin/python" in (own / ".venv/bin/clerk").read_text()
    assert machine.run(own / "bin/setup", "--if-needed").silent

    machine.put_programs()
    check_staleness(own, machine)

    # An update that fails without a network changes nothing.
    lock = own / "uv.lock"
    before = lock.read_text()
    ruff = re.search(r'name = "ruff"\nversion = "(.+)"', before)
    assert ruff
    rewrite(lock, before.replace(ruff[1], "99.0.0"))
    offline = machine.run(own / "bin/setup", environment=NO_NETWORK)
    assert offline.code == 1
    assert 'the step "install the packages of uv.lock" failed: no connection' in offline.last_line
    rewrite(lock, before)
    assert machine.run(own / "bin/setup").silent

    # A new entry point of clerk: installed in place, offline.
    rewrite(own / "pyproject.toml", with_script((own / "pyproject.toml").read_text(), "clerk-too"))
    updated = machine.run(own / "bin/setup", environment={"UV_OFFLINE": "1"})
    assert updated.code == 0, updated.err
    assert "create .venv" not in updated.err
    assert (own / ".venv/bin/clerk-too").exists()
    assert machine.run(own / "bin/setup").silent


def check_staleness(root: Path, machine: Machine) -> None:
    """Without Python on PATH setup cannot create .venv, so its exit code shows whether it found .venv stale."""
    (machine.bin / "python3").unlink()
    stamp = root / ".venv/clerk-setup"
    lock, project, link = root / "uv.lock", root / "pyproject.toml", root / ".venv/bin/python"

    def other_version() -> None:
        path, _version, *rest = stamp.read_text().splitlines(keepends=True)
        rewrite(stamp, "".join([path, "3.10\n", *rest]))

    def python_gone() -> None:
        link.unlink()
        link.symlink_to("/nowhere/python3")

    stale: dict[str, tuple[Path, Callable[[], object]]] = {
        "interrupted": (stamp, stamp.unlink),
        "of another Python": (stamp, other_version),
        "Python uninstalled": (link, python_gone),
        "command missing": (root / ".venv/bin/clerk", (root / ".venv/bin/clerk").unlink),
        "lock changed": (lock, lambda: rewrite(lock, lock.read_text() + "#")),
        "command added": (project, lambda: rewrite(project, with_script(project.read_text(), "clerk-too"))),
    }
    for what, (path, damage) in stale.items():
        kept = path.with_name("kept")
        shutil.copy2(path, kept, follow_symlinks=False)
        damage()
        result = machine.run(root / "bin/setup")
        assert result.code == 1, f"{what}: not detected"
        assert "clerk needs Python 3.11 or newer and found none" in result.last_line
        kept.replace(path)
        assert machine.run(root / "bin/setup").silent, f"{what}: setup changed something"

    rewrite(project, project.read_text() + "\n[tool.other]\nx = 1\n")
    assert machine.run(root / "bin/setup").silent, "settings of other tools must not trigger an installation"
    machine.put_python()


def rewrite(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)  # it may be a hard link
    path.write_text(text)


def with_script(project: str, name: str) -> str:
    return project.replace("[project.scripts]\n", f'[project.scripts]\n{name} = "clerk.cli:main"\n')


def test_no_network_names_the_step(machine: Machine, checkout: Path, tmp_path: Path) -> None:
    result = machine.run(checkout / "bin/setup", environment={**NO_NETWORK, "PIP_CACHE_DIR": str(tmp_path / "cache")})
    assert result.code == 1
    assert result.last_line == (
        'bin/setup: the step "fetch uv" failed: no connection to the package index; check the network, HTTPS_PROXY'
        " and PIP_INDEX_URL, then run bin/setup again"
    )
    assert not (checkout / ".venv/clerk-setup").exists()


def test_a_full_disk_is_named(machine: Machine, checkout: Path) -> None:
    machine.put(
        "python3",
        "case $* in\n"
        '  *_base_executable*) echo "$0" ;;\n'
        "  *--prompt*) echo 'OSError: [Errno 28] No space left on device' >&2; exit 1 ;;\n"
        f'  *) exec {PYTHON} "$@" ;;\n'
        "esac",
    )
    result = machine.run(checkout / "bin/setup")
    assert result.code == 1
    assert "failed: the disk is full; free about 1 GB for" in result.last_line
    assert "  | OSError: [Errno 28]" in result.err


@pytest.mark.parametrize(
    ("python", "found"),
    [(None, "none"), ("case $1 in --version) echo Python 3.9.18 ;; *) exit 1 ;; esac", "Python 3.9.18")],
)
def test_no_python(machine: Machine, checkout: Path, python: str | None, found: str) -> None:
    (machine.bin / "python3").unlink()
    machine.put("python3.12", "echo 'pyenv: python3.12: command not found' >&2; exit 127")
    if python:
        machine.put("python3", python)
    result = machine.run(checkout / "bin/setup")
    assert result.code == 1
    assert result.err.startswith(f"bin/setup: clerk needs Python 3.11 or newer and found {found}; install one")
    assert len(result.err.splitlines()) == 1


def test_a_python_without_ensurepip(machine: Machine, checkout: Path) -> None:
    """Debian's, before python3-venv is installed."""
    machine.put("python3", f'case $* in *ensurepip*) exit 1 ;; esac\nexec {PYTHON} "$@"')
    machine.put_user()
    machine.put_installer("apt-get")
    result = machine.run(checkout / "bin/setup")
    assert result.code == 1
    assert f"install -y --no-install-recommends {PYTHON.name}-venv', then run bin/setup again" in result.last_line


def test_a_folder_that_is_not_a_venv_is_kept(machine: Machine, checkout: Path) -> None:
    (checkout / ".venv").mkdir()
    (checkout / ".venv/diary.txt").write_text("mine")
    result = machine.run(checkout / "bin/setup")
    assert result.code == 1
    assert result.err == (
        f"bin/setup: {checkout}/.venv is not a Python environment; move it away, then run bin/setup again\n"
    )
    assert (checkout / ".venv/diary.txt").read_text() == "mine"


@pytest.fixture
def readable() -> Iterator[Path]:
    """A folder that other users may read, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_checkout_of_another_user(readable: Path) -> None:
    machine = Machine(readable / "bin")
    root = copy_checkout(readable / "checkout")
    root.chmod(0o555)
    setup: list[str | Path] = [root / "bin/setup"]
    if os.geteuid() == 0:
        setup = ["setpriv", "--reuid=65534", "--clear-groups", *setup]
    result = machine.run(*setup)
    root.chmod(0o755)
    assert result.code == 1
    assert f"may not write to {root}; become its owner (sudo chown -R " in result.last_line
    assert len(result.err.splitlines()) == 1
