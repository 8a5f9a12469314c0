"""The names of the stages as people see them: on pages, in charts and in the text of commands.

The database, JSON, metrics, queues and options such as `--stage` have the keys of `STAGE_NAMES`.
"""

from __future__ import annotations

STAGE_NAMES = {
    "fetch": "Fetch",
    "ocr": "OCR",
    "compilation": "Compile",
    "extraction": "Extract",
    "deploy": "Publish",
}
COMPLETED = "completed"
"""What `sites.current_stage` is after a run."""


def stage_name(stage: str | None) -> str:
    """Also of what stands in the place of a stage, such as `completed` or the queue `coordinator`; "" for None."""
    if not stage:
        return ""
    if stage == COMPLETED:
        return "Ended"  # whatever the outcome: "Completed" beside "failed" is a contradiction
    return STAGE_NAMES.get(stage, stage[0].upper() + stage[1:])
