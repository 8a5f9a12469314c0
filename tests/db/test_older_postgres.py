"""The tests of functions, views, pages and reports again, with an older Postgres.

Postgres checks much of a query only when it runs it: an interval can be infinite since version 17, for example.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import Url

_ROOT = Path(__file__).parents[2]
_SQL = ("every_function_runs", "views", "site_views", "repairs", "turns")
_WEB = (
    "failures",
    "sites",
    "site",
    "overview",
    "queues",
    "log",
    "job",
    "run_progress",
    "votes",
    "skipped_form",
    "pages",
)
_TESTS = [
    *(f"tests/sql/test_{name}.py" for name in _SQL),
    *(f"tests/web/test_{name}.py" for name in _WEB),
    *(f"tests/monitoring/test_{name}.py" for name in ("alerts", "reasons", "metrics", "database_health")),
    *(f"tests/cli/test_{name}.py" for name in ("failures", "json_schemas")),
    "tests/engine/test_turns.py",
]


def test_functions_views_pages_and_reports_work(older_server: Url) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *_TESTS]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["CLERK_TEST_DATABASE_URL"] = older_server
    result = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-10_000:] + result.stderr
