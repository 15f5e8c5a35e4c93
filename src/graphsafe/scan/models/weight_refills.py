"""Records lines that write new values into the weights of a module (state/refilled_weights.py)."""

from __future__ import annotations

import ast

from graphsafe.scan.domain.events import span_of
from graphsafe.scan.domain.held import weights
from graphsafe.scan.domain.state_log import Refill
from graphsafe.scan.domain.values import Instance, Tensor, options
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards.weights import other_weights
from graphsafe.scan.symbols.index import dotted


def note(frame: Frame, node: ast.Call, tensor: Tensor) -> None:
    """Record a call such as `layer.weight.copy_(new)`, or `p.copy_(new)` for all parameters `p` of a module."""
    if tensor.attr is not None:
        _note(frame, node, tensor.attr)
    elif frame.node is not None and isinstance(node.func, ast.Attribute):
        held = dotted(node.func.value) or ""
        module = other_weights.turned_over(frame.node).get(held.removesuffix(".data"))
        if module is not None:
            note_all(frame, node, ast.parse(module, mode="eval").body)


def note_all(frame: Frame, node: ast.Call, module: ast.expr) -> None:
    """Record new values for all weights of a module: `self.net.load_state_dict(state)`. They are weights of the
    module's class, and of the attribute that holds the module."""
    if not (frame.hot or frame.between):
        return
    for option in options(frame.evaluate_quietly(module)):
        if type(option) is Instance and frame.attributes.is_module(option.ref):
            _note(frame, node, weights(option.ref))
    for owner in options(frame.evaluate_quietly(module.value)) if isinstance(module, ast.Attribute) else ():
        if type(owner) is Instance and isinstance(module, ast.Attribute):
            _note(frame, node, frame.attributes.key(owner.ref, module.attr))


def _note(frame: Frame, node: ast.Call, key: str) -> None:
    frame.engine.note(Refill(key, ast.unparse(node.func), frame.path, frame.function, span_of(node)))
