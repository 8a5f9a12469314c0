"""Text report of tests/bench/ocr.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

OCRMYPDF = "OCRmyPDF -j2"


def report(results: dict[str, Any]) -> Iterator[str]:
    yield f"{results['cores']} cores, load {results['load_before']} before and {results['load_after']} after"
    if "clerk" in results:
        yield f"\n{results['pages']} scanned pages, {results['pages at higher dpi']} of them at a higher resolution"
        yield f"{'':20}{'pages':>6}{'pages/s':>9}{'CPU s/page':>12}{'errors %':>10}"
        for name in ("clerk", OCRMYPDF, "tesseract alone", "naive loop"):
            row = results[name]
            yield (
                f"{name:20}{row['pages']:6}{row['pages_per_second']:9.2f}"
                f"{row['cpu_seconds_per_page']:12.2f}{row['errors']:10.2f}"
            )
        for target in results["targets"]:
            result = {True: "met", False: "MISSED", None: ""}[target["met"]]
            yield f"{target['what']:45}{target['is']:8.2f}  {target['wanted']:14}{result}"
    if "born-digital" in results:
        row = results["born-digital"]
        yield f"\n{row['pages']} born-digital pages, {row['share_of_text_layer']:.1%} taken from the text layer"
        yield f"{row['pages_not_rendered']} pages of {row['documents_not_rendered']} documents that were not rendered:"
        yield from _rounds(row["rounds"])
        yield f"{'pdftotext':20}{row['cpu_milliseconds_per_page_pdftotext']:13.1f}"
    if "large" in results:
        yield f"\none scan of {results['large']['pages']} pages:"
        yield from _rounds(results["large"]["rounds"])
    if "resumed" in results:
        row = results["resumed"]
        yield (
            f"\n{row['pages']} pages, killed half way and resumed: {row['seconds_killed_half_way_and_resumed']} s,"
            f" uninterrupted {row['seconds_uninterrupted']} s ({row['overhead_percent']:+} %)"
        )
    yield f"\npeak memory of a worker with its child processes: {results['peak_megabytes']} MB"


def _rounds(rounds: dict[str, Any]) -> Iterator[str]:
    yield f"{'':20}{'CPU ms/page':>13}{'seconds':>9}{'peak MB':>9}"
    for which, row in rounds.items():
        yield f"{which:20}{row['cpu_milliseconds_per_page']:13.1f}{row['seconds']:9.1f}{row['peak_megabytes']:9}"
