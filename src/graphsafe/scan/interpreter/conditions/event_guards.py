"""Guards of events: conditions that keep a line out of captures, or make it doubtful whether a step runs the line."""

from __future__ import annotations

import ast

from graphsafe.rulebook.vocabulary import EventKind
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards import draws
from graphsafe.scan.state.filled_once import first_step_only, is_filled_here
from graphsafe.scan.state.first_step import FIRST_STEP


def around(frame: Frame, kind: EventKind, how: str, node: ast.AST) -> tuple[str | None, bool, bool]:
    """Return three facts about a line: its guard, whether only a first step runs it, and whether it is doubtful that
    any step runs the line."""
    guard = frame.guard
    once = first_step_only(frame)
    doubtful = bool(frame.unlikely)
    if guard is None and once and (kind == "Rng" or how == "literal-device" or is_filled_here(frame)):
        guard = FIRST_STEP
    if guard is None and how == "host-random" and isinstance(node, ast.Call):
        if draws.only_in_training(frame, node):
            guard = draws.IN_TRAINING
        elif draws.is_for_arrays(frame, node) or draws.is_seeded(frame) or draws.follows_tensor(node):
            doubtful = True
    return guard, once, doubtful
