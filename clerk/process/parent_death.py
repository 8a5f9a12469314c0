"""Parent-death pipe: a child process exits when its parent ends, even if the parent was killed with SIGKILL.

The child's stdin is a pipe whose write end the parent holds and never writes to. When the parent ends, the child reads
end-of-file and sends itself SIGTERM.
"""

from __future__ import annotations

import os
import signal
import threading

_VARIABLE = "CLERK_PARENT_DEATH_PIPE"
ENV = {_VARIABLE: "stdin"}
"""Environment of a child whose stdin is a parent-death pipe."""
_is_child = False


def exit_with_parent() -> None:
    """Call first in the child. Removes the variable, because processes that it starts do not have that stdin."""
    global _is_child
    if os.environ.pop(_VARIABLE, None) is not None:
        _is_child = True
        threading.Thread(target=_wait_for_parent_death, name="parent-death", daemon=True).start()


def is_child() -> bool:
    """Whether a supervisor of clerk started this process."""
    return _is_child


def _wait_for_parent_death() -> None:
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)
