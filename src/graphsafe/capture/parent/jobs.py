"""Makes the job of a child from the request of a command. Also runs a child again with what its earlier runs have
learned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from graphsafe.capture.request import CaptureRequest
from graphsafe.capture.shared.job import Job

Lesson = TypeVar("Lesson")
Outcome = TypeVar("Outcome")


def until_nothing_is_learned(
    most: int, run: Callable[[Sequence[Lesson]], Outcome], lesson_of: Callable[[Outcome], Lesson | None]
) -> Outcome:
    """Call `run` at most `most` times, each time with all lessons so far. Stop when `lesson_of` returns None for an
    outcome."""
    lessons: list[Lesson] = []
    for _ in range(most - 1):
        outcome = run(lessons)
        lesson = lesson_of(outcome)
        if lesson is None:
            return outcome
        lessons.append(lesson)
    return run(lessons)


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
