"""Random numbers: generators that the graph knows, and draws that the host makes."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphsafe.scan.engine import Engine
    from graphsafe.scan.frame import Frame

SEEDED = re.compile(r"\brandom\.seed\(")
TRAINING = re.compile(r"(?<!not self)\.training\b")
REGISTERED = re.compile(r"\bregister_generator_state\(\s*([\w.\[\]]+)")


def is_registered(engine: Engine, frame: Frame, node: ast.Call) -> bool:
    """Whether the generator that a call draws from is given to `register_generator_state` somewhere in this file."""
    given = next((keyword.value for keyword in node.keywords if keyword.arg == "generator"), None)
    if given is None:
        return False
    name = ast.unparse(given).rpartition(".")[2]
    text = engine.project.source(frame.path).text
    return any(known.rpartition(".")[2] == name for known in REGISTERED.findall(text))


def is_seeded(engine: Engine, frame: Frame) -> bool:
    """Whether this file seeds the host's generators: eager steps may then repeat the draw as replays do."""
    return SEEDED.search(engine.project.source(frame.path).text) is not None


def only_in_training(frame: Frame, node: ast.Call) -> bool:
    """Whether the function asks `self.training` before it draws."""
    stack: list[ast.AST] = [frame.node] if frame.node is not None else []
    while stack:
        inner = stack.pop()
        asks = False
        if isinstance(inner, (ast.If, ast.IfExp)):
            asks = TRAINING.search(ast.unparse(inner.test)) is not None
        elif isinstance(inner, ast.BoolOp) and isinstance(inner.op, ast.And):
            asks = any(TRAINING.search(ast.unparse(part)) for part in inner.values)
        first, last = getattr(inner, "lineno", 1), getattr(inner, "end_lineno", None) or 10**9
        if first <= node.lineno <= last:
            if asks:
                return True
            stack.extend(ast.iter_child_nodes(inner))
    return False


__all__ = ["is_registered", "is_seeded", "only_in_training"]
