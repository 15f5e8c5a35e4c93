"""Builds the target without its own CUDA graphs: `torch.compile` and `make_graphed_callables` are replaced and return
their argument. Both promise the same results as their argument."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import Any

import torch

from graphsafe.capture.shared.replaced import replaced

graphed: list[Any] = []
"Callables that the target gave to `make_graphed_callables` or `torch.compile` since `left_out` was entered."


def left_out() -> AbstractContextManager[None]:
    """Leave out graphs while the target is built.

    The functions' own code is changed, because the target's module may already have imported them by name.
    """
    graphed.clear()
    return replaced((torch.cuda.make_graphed_callables, "__code__", _as_they_are.__code__))


def run_uncompiled() -> None:
    """Make compiled functions run uncompiled from now on."""
    if "torch._dynamo" in sys.modules:
        torch.compiler.set_stance("force_eager")


def _as_they_are(
    callables: Any, sample_args: Any, num_warmup_iters: int = 3, allow_unused_input: bool = False, pool: Any = None
) -> Any:
    from graphsafe.capture.child.own_graphs import plain

    plain.graphed.extend(callables if isinstance(callables, tuple) else (callables,))
    return callables
