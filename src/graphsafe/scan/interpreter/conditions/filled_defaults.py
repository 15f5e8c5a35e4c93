"""Names that are None or a caller's value: `if x is None: x = torch.zeros(…)` shows that a caller's `x` is a tensor."""

from __future__ import annotations

import ast
from collections.abc import Callable

from graphsafe.scan.domain.values import Tensor, Unknown, Value
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.symbols.index import is_none


def use_kind(frame: Frame, test: ast.expr, made_for: Callable[[str], Value | None]) -> None:
    """If `test` compares an unknown value with None, and the code replaces None by a device tensor, put a tensor into
    `frame.env` for the value. `made_for` returns the value that replaces None."""
    name = _asked_for_none(test)
    value = frame.env.get(name) if name is not None else None
    if name is None or type(value) is not Unknown or value.host:
        return
    made = made_for(name)
    if type(made) is Tensor and made.where != "host" and made.certain:
        # The caller's tensor may have another dtype and other dimensions.
        frame.env[name] = Tensor(where="any", step=value.step, name=name)


def is_kept(node: ast.IfExp) -> bool:
    """Return whether `b` in `a if x is None else b` is `x`, or a result computed from `x` such as `x.to(device)`."""
    kept = node.orelse
    while isinstance(kept, (ast.Call, ast.Attribute)):
        kept = kept.func if isinstance(kept, ast.Call) else kept.value
    return isinstance(kept, ast.Name) and kept.id == _asked_for_none(node.test)


def _asked_for_none(test: ast.expr) -> str | None:
    """Return `x` for the test `x is None`, and None for another test."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is) and is_none(test.comparators[0]):
        return test.left.id if isinstance(test.left, ast.Name) else None
    return None
