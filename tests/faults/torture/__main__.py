"""bin/torture: see docs/reliability.md."""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import tempfile
from pathlib import Path

from clerk.cli.progress_reporter import ProgressReporter
from tests.faults.torture.environment import Workload
from tests.faults.torture.injector import KINDS
from tests.faults.torture.run import Options, torture


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bin/torture",
        description="Injects faults into a running pipeline, waits for recovery, checks the invariants I1 to I8 against"
        " an independent record, and compares the archives with an undisturbed run. Exits with 1 if a check fails."
        " docs/reliability.md describes the faults and the checks.",
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="how long faults are injected (default: 1)")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="default: random")  # noqa: S311 (not for secrets)
    parser.add_argument("--only", action="append", choices=KINDS, metavar="KIND", help=f"one of {', '.join(KINDS)}")
    parser.add_argument("--sites", type=int, default=Workload.sites, help=f"default: {Workload.sites}")
    parser.add_argument("--documents", type=int, default=Workload.documents, help=f"per site ({Workload.documents})")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the workers' logs in a new folder")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    arguments = parser.parse_args()
    options = Options(
        minutes=arguments.minutes,
        seed=arguments.seed,
        only=tuple(arguments.only or KINDS),
        workload=Workload(sites=arguments.sites, documents=arguments.documents),
    )
    if arguments.keep is not None:
        arguments.keep.mkdir()
    with contextlib.ExitStack() as stack:
        folder = arguments.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="clerk-torture-")))
        report = torture(folder.resolve(), options, stack.enter_context(ProgressReporter(arguments.quiet)))
    sys.stdout.write((json.dumps(report.as_json(), indent=2) if arguments.json else report.as_text()) + "\n")
    sys.exit(0 if report.passed else 1)


if __name__ == "__main__":
    main()
