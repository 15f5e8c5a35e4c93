"""`torch.cond` and `torch.while_loop`, uncompiled: they read their predicate on the host, unless the capture makes them
nodes of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from graphsafe.capture.device.sim import world as worlds
from graphsafe.optable import Argument, Call


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    if not (isinstance(pred, torch.Tensor) and _becomes_node("torch.cond")):
        return true_fn(*operands) if pred else false_fn(*operands)
    worlds.current().limits["torch.cond", "runs both of its branches on the simulated device"] = (
        "in a CUDA graph they are two nodes, of which a replay runs one"
    )
    # Branches neither write nor alias their arguments, so both can run: the choice between them only affects the
    # results.
    return pytree.tree_map(lambda one, other: torch.where(pred, one, other), true_fn(*operands), false_fn(*operands))


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any) -> Any:
    world = worlds.active()
    node = _becomes_node("torch.while_loop")
    if node and world is not None:
        world.cannot_vouch("torch.while_loop as a node of the graph")
    carried = carried_inputs
    while _holds(cond_fn(*carried), node):
        carried = body_fn(*carried)
    return carried


def _holds(pred: Any, node: bool) -> bool:
    if not node:
        return bool(pred)
    with worlds.current().unseen():
        return bool(pred)


def _becomes_node(name: str) -> bool:
    """Return whether this version of PyTorch, under the active dispatch modes, captures the call without reading its
    predicate."""
    world = worlds.active()
    entry = None if world is None else world.table.python(name)
    if world is None or entry is None:
        return False
    modes = [type(mode) for mode in _get_current_dispatch_mode_stack()]
    inside = frozenset(f"{kind.__module__}.{kind.__qualname__}" for kind in modes)
    call = Call((Argument("tensor"),), inside=inside, torch=torch.__version__)
    if any(hit.certain for hit in entry.effects_of(call)):
        return False
    if not world.is_capturing():
        raise RuntimeError(f"{name} becomes a node of a CUDA graph here, and no graph is being captured")
    return True
