"""Simulated machines: network namespaces, each connected to this one by a link with latency that can be cut."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.hosts.link import MTU

ROOT = Path(__file__).resolve().parents[2]

NETWORK = f"10.{64 + os.getpid() % 128}"
"""By process, so that two runs at a time do not meet."""


def unsupported() -> str | None:
    """Why this machine cannot simulate others, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "this machine has no /dev/net/tun"
    try:
        with namespace("clerk-probe"):
            return None
    except FileNotFoundError:
        return "ip (Debian: iproute2) is not installed"
    except subprocess.CalledProcessError as error:
        return f"this kernel does not allow network namespaces: {error.stderr.strip()}"


@dataclass
class Host:
    """A network namespace. It reaches this machine, and nothing else, at `gateway`."""

    name: str
    gateway: str
    folder: Path
    """Its own disk: home, cache and temporary files."""
    device: str

    def start(self, *command: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Run a command of clerk on this host. Its output is in `log`."""
        variables = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "CLERK_HOME": str(self.folder),
            "HOME": str(self.folder),
            "TMPDIR": str(self.temporary),
            **environment,
        }
        with self.log.open("ab") as output:
            return subprocess.Popen(
                # unshare --uts gives the host its own name, by which worker_status shows it.
                ["ip", "netns", "exec", self.name, "unshare", "--uts", "sh", "-c",
                 'hostname "$0" && exec "$@"', self.name, sys.executable, "-m", "clerk", *command],
                cwd=self.folder, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip

    @property
    def log(self) -> Path:
        return self.folder / "output.log"

    @property
    def temporary(self) -> Path:
        folder = self.folder / "tmp"
        folder.mkdir(exist_ok=True)
        return folder

    def cut(self) -> None:
        """From now on packets are lost in both directions. Open connections are not closed."""
        _ip("link", "set", self.device, "down")

    def reconnect(self) -> None:
        _ip("link", "set", self.device, "up")


@contextlib.contextmanager
def namespace(name: str) -> Iterator[None]:
    _ip("netns", "add", name)
    try:
        _ip("-netns", name, "link", "set", "lo", "up")
        yield
    finally:
        _ip("netns", "del", name)


@contextlib.contextmanager
def hosts(count: int, folder: Path, round_trip: float = 0.0) -> Iterator[list[Host]]:
    """Machines whose packets take `round_trip` milliseconds to this machine and back."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(_host(number, folder, round_trip)) for number in range(1, count + 1)]


@contextlib.contextmanager
def _host(number: int, folder: Path, round_trip: float) -> Iterator[Host]:
    unique = os.getpid() % 0xFFFF
    name, here, there = f"clerk-{unique:x}-{number}", f"ck{unique:x}h{number}", f"ck{unique:x}g{number}"
    gateway, address = f"{NETWORK}.{number}.1", f"{NETWORK}.{number}.2"
    host = Host(name, gateway, folder / f"host{number}", here)
    host.folder.mkdir(parents=True)
    with namespace(name):
        link = subprocess.Popen(
            [sys.executable, "-m", "tests.hosts.link", here, there, "--delay", str(round_trip / 2)],
            cwd=ROOT, stdout=subprocess.PIPE,
        )  # fmt: skip
        try:
            assert link.stdout is not None
            assert link.stdout.readline() == b"ready\n"
            _ip("link", "set", there, "netns", name)
            for place, device, own in ((("-netns", name), there, address), ((), here, gateway)):
                _ip(*place, "addr", "add", f"{own}/30", "dev", device)
                _ip(*place, "link", "set", device, "mtu", str(MTU), "up")
            yield host
        finally:
            link.kill()
            link.communicate()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
