"""Makes the job of a child from the request of a command. Also tells whether and how a child has to run again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graphsafe.capture.answers.build import BrokenBy, DeviceMemory, TargetFailure
from graphsafe.capture.parent.supervision.child_process import Child
from graphsafe.capture.request import CaptureRequest
from graphsafe.capture.shared.job import OWN_INPUTS, Job

_SHARE_OF_DEVICE = 0.8
_TRIES = "try "


def broken_by(child: Child) -> str | None:
    """Return the input whose new values broke the process of a build child, or None. The next child leaves this input
    as it is."""
    answers = child.answers.get(BrokenBy)
    broken = None if answers is None else answers.path
    if child.ended.how == "crashed" and child.phase.startswith(_TRIES):
        broken = child.phase.removeprefix(_TRIES)
    return None if broken == OWN_INPUTS else broken


def job_of(request: CaptureRequest, child: str, folder: Path, device: str, axes: Mapping[str, Any], **more: Any) -> Job:
    """Return the job of one child on one device and bucket. `more` has fields that only some children need."""
    return Job(
        child=child,
        folder=str(folder),
        target=request.target,
        device=device,
        axes=dict(axes),
        inputs=request.inputs,
        warmup=request.warmup,
        seed=request.seed,
        shapes=request.shapes,
        **more,
    )


def fits(memory: DeviceMemory, count: int) -> bool:
    """Return whether the device's memory can hold `count` builds of the target at the same time. `memory` describes one
    build."""
    free, peak = memory.free, memory.peak
    return free is None or peak is None or count * peak < _SHARE_OF_DEVICE * (free + peak)


def not_built(children: Sequence[Child]) -> str | None:
    """Return why the factory failed in one of these children, or None. The factory has succeeded in the build child,
    which ran alone. So the reason may be that builds exclude each other: each needs the same port, lock or name in
    shared memory."""
    failures = [child.answers.get(TargetFailure) for child in children]
    lines = [one.line for one in failures if one is not None and one.stage == "build"]
    return f"beside another build, {lines[0]}" if lines else None
