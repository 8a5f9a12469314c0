from __future__ import annotations

from clerk.pipeline.engine import STAGES
from clerk.stage_names import STAGE_NAMES, stage_name


def test_every_stage_has_a_name() -> None:
    assert tuple(STAGE_NAMES) == tuple(STAGES)
    assert [stage_name(stage) for stage in STAGES] == ["Fetch", "OCR", "Compile", "Extract", "Publish"]
    assert [stage_name(name) for name in ("never run", "completed", None)] == ["Never run", "Ended", ""]
