"""A child process that ends when its parent does, however the parent ended: `kill -9` included.

The parent holds one end of a pipe and never writes to it; the other end is the child's standard input. When the kernel
closes the parent's end, the child sees the end of its input, and asks itself to stop as the parent would have done.
"""

from __future__ import annotations

import os
import signal
import threading

_MARK = "CLERK_LIFELINE"
ENV = {_MARK: "stdin"}
"""For the environment of a child whose standard input is such a pipe."""


def exit_with_parent() -> None:
    """In the child, first of all. What it starts itself is not tied to our parent, hence the mark is taken away."""
    if os.environ.pop(_MARK, None) is not None:
        threading.Thread(target=_end_with_parent, name="lifeline", daemon=True).start()


def _end_with_parent() -> None:
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)
