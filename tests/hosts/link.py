"""A network link with latency, in user space: forwards packets between two TUN devices after a delay.

Used because netem, the kernel's own simulation, is a module that many kernels lack. `ip link set DEVICE down` cuts the
link: packets are lost in both directions, and neither end is told.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import select
import struct
import sys
import time
from collections import deque

_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
MTU = 60_000
"""Large, because each packet costs time in Python."""


def open_device(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH", name.encode(), _IFF_TUN | _IFF_NO_PI))
    return device


def forward(left: int, right: int, delay: float) -> None:
    """Forward for ever; `delay` in seconds, per direction."""
    waiting: deque[tuple[float, int, bytes]] = deque()
    other = {left: right, right: left}
    while True:
        timeout = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        readable, _, _ = select.select([left, right], [], [], timeout)
        now = time.monotonic()
        for device in readable:
            with contextlib.suppress(BlockingIOError):
                for _ in range(64):
                    waiting.append((now + delay, other[device], os.read(device, MTU + 100)))
        while waiting and waiting[0][0] <= time.monotonic():
            _, device, packet = waiting.popleft()
            # The device is down or its queue is full: the packet is lost, as on a real link.
            with contextlib.suppress(OSError):
                os.write(device, packet)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("left")
    parser.add_argument("right")
    parser.add_argument("--delay", type=float, default=0.0, help="milliseconds per direction")
    given = parser.parse_args()
    devices = open_device(given.left), open_device(given.right)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    forward(*devices, given.delay / 1000)


if __name__ == "__main__":
    main()
