"""The loop around a call that takes a step, and loops whose iterations are steps."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from graphsafe.scan.hazards.graph_syntax import LOOPS, is_short
from graphsafe.scan.symbols.index import dotted


def loop_of(call: ast.Call, parents: Mapping[ast.AST, ast.AST]) -> ast.stmt | None:
    """Return the innermost loop around a call. `for g in graphs: g.replay()` is skipped, because its iterations form
    one step. `for _ in range(4): graph.replay()` is returned only if there is no other loop around it."""
    receiver = (dotted(call.func) or "").partition(".")[0]
    repeated: ast.stmt | None = None
    child: ast.AST = call
    while child in parents:
        around = parents[child]
        if isinstance(around, LOOPS) and child is not getattr(around, "iter", None):
            target = getattr(around, "target", None)
            turned = {node.id for node in ast.walk(target) if isinstance(node, ast.Name)} if target is not None else ()
            if receiver not in turned and (
                repeated is not None or not (is_short(around) and only_repeats(around, call))
            ):
                return around
            repeated = repeated or (around if receiver not in turned else None)
        child = around
    return repeated


def only_repeats(loop: ast.stmt, call: ast.Call) -> bool:
    """Return whether a loop only repeats one call, with nothing new in each iteration. Such a loop is a part of one
    step."""
    body = loop.body if isinstance(loop, LOOPS) else []
    return len(body) == 1 and isinstance(body[0], ast.Expr) and body[0].value is call


def has_steps(loop: ast.stmt | None) -> bool:
    """Return whether a loop has many iterations, and each iteration is a step. A few micro-batches or graphs form one
    step together, so the result is False for a loop over them."""
    return loop is not None and not is_short(loop)
