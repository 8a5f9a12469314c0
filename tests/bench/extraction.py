"""Accuracy and speed of the extractor `rules` on a folder of pages labelled by hand.

The format of a page is described in tests/bench/vote_scores.py. Without FOLDER, the project's own pages are
measured. Pages that the rules were written with say little: measure on pages that nobody tuned to.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from clerk.extraction.rules import Rules
from tests.bench.vote_scores import Scores, add_page, load_pages, summarize

OWN_PAGES = Path(__file__).parents[1] / "extraction" / "pages"
_TIMED_ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(prog="bin/bench extraction", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=OWN_PAGES, help="labelled pages (default: our own)")
    parser.add_argument("--only", nargs="+", metavar="PAGE", help="pages to measure, by file name without .json")
    parser.add_argument("--without", nargs="+", metavar="PAGE", default=[], help="pages to leave out")
    parser.add_argument("--differences", action="store_true", help="print every difference from the labels")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    pages = [
        (name, page)
        for name, page in load_pages(options.folder)
        if (not options.only or name in options.only) and name not in options.without
    ]
    if not pages:
        sys.exit(f"bin/bench extraction: no labelled pages in {options.folder}")
    scores, extractor = Scores(), Rules()
    for name, page in pages:
        add_page(scores, name, page, extractor.extract([(1, page["text"])])[1])
    started = time.process_time()
    for _ in range(_TIMED_ROUNDS):
        for _, page in pages:
            extractor.extract([(1, page["text"])])
    milliseconds = (time.process_time() - started) * 1000 / _TIMED_ROUNDS / len(pages)
    characters = sum(len(page["text"]) for _, page in pages) // len(pages)
    figures = list(summarize(scores))
    if options.json:
        rows = [
            {"figure": figure, "value": round(value, 4), "bar": bar, "met": value >= bar, "counts": counts}
            for figure, value, bar, counts in figures
        ]
        result = {"pages": len(pages), "figures": rows, "ms_per_page": round(milliseconds, 2), "characters": characters}
        print(json.dumps(result, indent=1))  # noqa: T201
        return
    if options.differences:
        print("\n".join(scores.differences), end="\n\n")  # noqa: T201
    print(f"{len(pages)} pages of {options.folder}")  # noqa: T201
    for figure, value, bar, counts in figures:
        met = "met" if value >= bar else "MISSED"
        print(f"{figure:32}{value:7.1%}  at least {bar:.0%}  {met:7} {counts}")  # noqa: T201
    motions = scores.motions
    print(f"text of the motion stored for {motions.right} of {motions.right + motions.missing} votes")  # noqa: T201
    print(f"{milliseconds:.2f} ms of CPU per page of {characters} characters")  # noqa: T201


if __name__ == "__main__":
    main()
