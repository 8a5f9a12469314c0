"""Measures the peers alone and prints a table. `bin/bench engine --peers` measures them beside clerk."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from clerk.db.embedded.server import Server
from tests.bench.peers import DEFAULT_CACHE, PEERS, empty_store, measure, prepare_environments
from tests.conftest import Databases, running


def shape(text: str) -> tuple[int, int]:
    sites, units_per_site = text.split("x")
    return int(sites), int(units_per_site)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="PEER", help=f"of {', '.join(PEERS)} (default: all)")
    parser.add_argument(
        "--shape", type=shape, action="append", help="SITESxUNITS, repeatable (default: 20x100 and 1x5000)"
    )
    parser.add_argument("--threads", action="store_true", help="job bodies are plain functions in threads")
    parser.add_argument("--rounds", type=int, default=1, help="how often each is measured (default: 1)")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help=f"environments (default: {DEFAULT_CACHE})")
    arguments = parser.parse_args()
    names = arguments.names or list(PEERS)
    if unknown := set(names) - set(PEERS):
        parser.error(f"unknown peer {', '.join(sorted(unknown))}; known are {', '.join(PEERS)}")
    prepare_environments(arguments.cache, names)
    print(f"{'peer':<16}{'sites':>7}{'units':>8}{'jobs/s':>9}{'worker CPU ms/job':>20}")  # noqa: T201
    with tempfile.TemporaryDirectory() as folder, running(Server(Path(folder) / "postgres")) as url:
        databases = Databases(url)
        for sites, units in arguments.shape or [(20, 100), (1, 5000)]:
            for _ in range(arguments.rounds):
                for name in names:
                    with empty_store(PEERS[name].needs, databases) as store:
                        result = measure(name, store, sites, units, threads=arguments.threads, cache=arguments.cache)
                    print(  # noqa: T201
                        f"{name:<16}{sites:>7}{units:>8}{result.jobs_per_second:>9.0f}"
                        f"{result.worker_cpu_ms_per_job:>20.2f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
