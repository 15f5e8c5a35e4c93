"""What keeps the line of an event out of captures, or makes it doubtful that a step runs it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from graphsafe.scan.checks import draws
from graphsafe.scan.checks.filled_once import first_step_only, is_filled_here
from graphsafe.scan.checks.first_step import FIRST_STEP
from graphsafe.scan.domain.events import EventKind

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine


def around(engine: Engine, frame: Frame, kind: EventKind, how: str, node: ast.AST) -> tuple[str | None, bool, bool]:
    """The guard, whether only a first step runs the line, and whether that it runs is doubtful."""
    guard = frame.guard
    once = first_step_only(frame)
    doubtful = bool(frame.unlikely)
    if guard is None and once and (kind == "Rng" or how == "literal-device" or is_filled_here(engine, frame)):
        guard = FIRST_STEP
    if guard is None and how == "host-random" and isinstance(node, ast.Call):
        if draws.only_in_training(frame, node):
            guard = draws.IN_TRAINING
        elif draws.is_seeded(engine, frame):
            doubtful = True
    return guard, once, doubtful
