"""Turns the request of a command into the job of a child."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphsafe.capture.request import CaptureRequest
from graphsafe.capture.shared.job import Job


def job_of(request: CaptureRequest, child: str, folder: Path, device: str, axes: Mapping[str, Any], **more: Any) -> Job:
    """Return the job of one child on one device and bucket; `more` has the fields that only some children need."""
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
