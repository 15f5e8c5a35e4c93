"""Runs a child again with the lessons of its earlier runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Lesson = TypeVar("Lesson")
Outcome = TypeVar("Outcome")


def until_nothing_is_learned(
    most: int, run: Callable[[Sequence[Lesson]], Outcome], lesson_of: Callable[[Outcome], Lesson | None]
) -> Outcome:
    """Run at most `most` times, each time with all lessons so far; return the last outcome.

    `lesson_of` returns the lesson of an outcome, or None if another run would not help.
    """
    lessons: list[Lesson] = []
    for _ in range(most - 1):
        outcome = run(lessons)
        lesson = lesson_of(outcome)
        if lesson is None:
            return outcome
        lessons.append(lesson)
    return run(lessons)
