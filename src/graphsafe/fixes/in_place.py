"""Fixes code that replaces a state tensor in each step: the fixed code writes to the existing tensor instead."""

from __future__ import annotations

import ast

from graphsafe.fixes.code import Code, Fix, dotted
from graphsafe.report.model import Finding

_METHODS: dict[type[ast.operator], str] = {ast.Add: "add_", ast.Sub: "sub_", ast.Mult: "mul_", ast.Div: "div_"}
_RISK = (
    "it fails where the other side has a larger shape or a wider dtype, and other users of the tensor see the change"
)
_KEEPS_SHAPE = frozenset("add sub mul div clamp clamp_min clamp_max lerp exp sqrt abs neg tanh sigmoid relu".split())
"Methods that have an in-place variant. Their result has the shape of `self` if no argument is larger than `self`."


def update(code: Code, finding: Finding) -> Fix | None:
    """Fix `self.x = self.x + y` to `self.x.add_(y)`, and other arithmetic on `self.x` to `self.x.copy_(…)`.

    The fix is unsafe: `self.x` keeps its dtype and shape, although the arithmetic may promote or broadcast it. Other
    objects that hold the tensor also see the change.
    """
    for node in code.at(finding.location):
        if isinstance(node, ast.Attribute):
            outer = code.parent(node)
            node = outer if isinstance(outer, ast.Assign) else node
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and dotted(node.targets[0]):
            target = node.targets[0]
            text = _update(code, target, node.value)
            if text is None:
                return None
            return Fix("write in place into the existing tensor", (code.replaced(node, text),), _RISK)
    return None


def _update(code: Code, target: ast.expr, value: ast.expr) -> str | None:
    name, at = dotted(target), code.text(target)
    if isinstance(value, ast.BinOp) and type(value.op) in _METHODS:
        method = _METHODS[type(value.op)]
        if dotted(value.left) == name:
            return f"{at}.{method}({code.text(value.right)})"
        if dotted(value.right) == name and isinstance(value.op, (ast.Add, ast.Mult)):
            return f"{at}.{method}({code.text(value.left)})"
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and dotted(value.func.value) == name:
        method = value.func.attr
        if method not in _KEEPS_SHAPE:
            return None
        from graphsafe.fixes import rewriting

        return rewriting.call(code.text(value), lambda call: rewriting.named(call, f"{method}_"))
    return f"{at}.copy_({code.text(value)})" if _computes_with(value, name) else None


def _computes_with(value: ast.expr, name: str) -> bool:
    """Return whether a value is arithmetic with the attribute itself as an operand."""
    if isinstance(value, ast.BinOp) and type(value.op) in _METHODS:
        return any(dotted(side) == name or _computes_with(side, name) for side in (value.left, value.right))
    return False
