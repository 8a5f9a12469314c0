"""`python -m tests.guards.frozen_reconciler URL LEASE`: reconciles, and stops with SIGSTOP after its first repair.

LEASE is in seconds; 0 removes the guard.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from datetime import timedelta

from clerk.db.connection import connect_to
from clerk.reconcile import apply
from tests.guards.removal import removed
from tests.guards.test_locks import LEASE


def freeze(done: int, total: int) -> None:
    if done == 1:
        os.kill(os.getpid(), signal.SIGSTOP)


if __name__ == "__main__":
    lease = float(sys.argv[2])
    apply._DATABASE_LEASE = timedelta(seconds=lease)
    with connect_to(sys.argv[1]) as connection, contextlib.nullcontext() if lease else removed(LEASE):
        connection.execute("set application_name = 'frozen reconciler'")
        apply.reconcile(connection, None, threshold=timedelta(0), progress=freeze)
