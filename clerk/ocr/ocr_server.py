"""Loop of an OCR server process: reads one `Request` per line from standard input, writes one `Response` per line.

The sandbox limits the process and the programs it runs; the process itself limits the CPU time of each request. It does
not handle errors: it exits, and its traceback names the cause.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clerk.ocr.sandbox import set_own_cpu_limit
from clerk.ocr.tesseract import Request, Response


class ModelsMissing(Exception):
    """The message is the list of languages whose models could not be loaded."""


def serve(handle: Callable[[Request], Any]) -> None:
    # Output of libraries goes to standard error, so that it cannot be mistaken for a response.
    responses = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = Request(**json.loads(line))
        # A program that it runs has the same limit, and begins to count at zero.
        set_own_cpu_limit(_cpu_seconds(resource.RUSAGE_SELF) + request.cpu_seconds)
        result, missing_languages = None, None
        try:
            result = handle(request)
        except ModelsMissing as error:
            missing_languages = str(error)
        responses.write(json.dumps(vars(Response(result, missing_languages, *_usage()))) + "\n")
        responses.flush()


def _usage() -> tuple[float, int]:
    """CPU seconds of this process and of the programs that it ran, and its own peak memory: theirs is free again."""
    cpu_seconds = _cpu_seconds(resource.RUSAGE_SELF) + _cpu_seconds(resource.RUSAGE_CHILDREN)
    return cpu_seconds, _peak_memory()


def _peak_memory() -> int:
    """Bytes. After exec, getrusage reports at least the peak of the process that started this one; /proc does not. A
    forked process cannot read /proc, and does not need it."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def _cpu_seconds(whose: int) -> float:
    usage = resource.getrusage(whose)
    return usage.ru_utime + usage.ru_stime
