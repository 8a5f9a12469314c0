"""bin/setup installs missing programs if it may, and otherwise prints the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.setup.conftest import Prepared
from tests.setup.machine import Machine

PACKAGES = "tesseract-ocr tesseract-ocr-spa poppler-utils"
APT = "apt-get update && apt-get install -y --no-install-recommends"


@pytest.fixture
def bare(machine: Machine) -> Machine:
    """A machine with Python and without the OCR programs."""
    for name in ("tesseract", "pdftoppm"):
        (machine.bin / name).unlink()
    return machine


@pytest.mark.parametrize("sudo", [True, False])
def test_without_rights_the_command_is_printed(bare: Machine, prepared: Prepared, sudo: bool) -> None:
    bare.put_user()
    log = bare.put_installer("apt-get")
    if not sudo:
        (bare.bin / "sudo").unlink()
    result = bare.run(prepared.root / "bin/setup")
    assert result.code == 1
    command = f"{'sudo sh' if sudo else 'su'} -c '{APT} {PACKAGES}'"
    assert result.last_line == f"bin/setup: clerk needs {PACKAGES}, which pat may not install; type: {command}"
    assert not log.exists()


def test_only_missing_programs_are_named(bare: Machine, prepared: Prepared) -> None:
    bare.put_user()
    bare.put_installer("apt-get")
    bare.put("tesseract", "exit 0")
    assert "clerk needs poppler-utils, which" in bare.run(prepared.root / "bin/setup").err


@pytest.mark.parametrize("user", ["root", "sudo"])
def test_with_rights_programs_are_installed(bare: Machine, prepared: Prepared, user: str) -> None:
    bare.put("id", "echo 0")
    if user == "sudo":
        bare.put_user(may_sudo=True)
    log = bare.put_installer("apt-get")
    result = bare.run(prepared.root / "bin/setup")
    assert result.code == 0, result.err
    assert result.last_line == f"setup: install {PACKAGES} with apt-get"
    update, install = log.read_text().splitlines()
    assert update.split()[-1] == "update"
    assert install.startswith("noninteractive /dev/null ")
    assert install.endswith(f" install -y --no-install-recommends {PACKAGES}")
    assert bare.run(prepared.root / "bin/setup").silent


def test_a_package_manager_that_fails(bare: Machine, prepared: Prepared) -> None:
    bare.put("id", "echo 0")
    bare.put("apt-get", "echo \"E: Failed to fetch x  Temporary failure resolving 'mirror'\" >&2; exit 100")
    result = bare.run(prepared.root / "bin/setup")
    assert result.code == 1
    assert "  | E: Failed to fetch x" in result.err
    assert f'the step "install {PACKAGES} with apt-get" failed: no connection' in result.last_line


def test_the_browser_and_systemd_are_for_tests_only(machine: Machine, prepared: Prepared) -> None:
    machine.put_user()
    machine.put_installer("apt-get")
    assert machine.run(prepared.root / "bin/setup").silent
    result = machine.run(prepared.root / "bin/setup", "--for-tests")
    assert result.code == 1
    assert "clerk needs chromium systemd" in result.err
    if not list(Path("/usr/lib/postgresql").glob("*/bin/initdb")):
        assert " postgresql, which" in result.err


def test_on_a_mac_homebrew_is_used_or_recommended(bare: Machine, prepared: Prepared) -> None:
    bare.put("uname", "echo Darwin")
    without = bare.run(prepared.root / "bin/setup")
    assert without.code == 1
    assert without.last_line.endswith("install Homebrew, then type: brew install tesseract poppler")
    log = bare.put_installer("brew")
    assert bare.run(prepared.root / "bin/setup").code == 0
    assert log.read_text().endswith(" install tesseract poppler\n")
    assert bare.run(prepared.root / "bin/setup").silent


def test_a_system_without_a_known_package_manager(bare: Machine, prepared: Prepared) -> None:
    result = bare.run(prepared.root / "bin/setup")
    assert result.code == 1
    assert result.last_line.endswith(f"install the equivalents of {PACKAGES}")


def test_no_system_installs_nothing(bare: Machine, prepared: Prepared) -> None:
    bare.put("id", "echo 0")
    log = bare.put_installer("apt-get")
    assert bare.run(prepared.root / "bin/setup", "--no-system").silent
    assert not log.exists()
