"""A process that uses the embedded Postgres of a folder until its standard input is closed or it is killed."""

from __future__ import annotations

import sys
from pathlib import Path

from clerk.db.embedded.postgres import running
from clerk.errors import EmbeddedServerError

if __name__ == "__main__":
    try:
        with running(Path(sys.argv[1]), float(sys.argv[2])) as url:
            sys.stdout.write(f"{url}\n")
            sys.stdout.flush()
            sys.stdin.read()
    except EmbeddedServerError as error:
        sys.stdout.write(f"refused: {error}\n")
        sys.exit(error.exit_code)
