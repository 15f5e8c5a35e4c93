"""Finds losses: values on which a function calls `backward`. A loss is a tensor, no matter how it is computed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.values import Tensor, Unknown, Value
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.sources.node_memo import inside, memoize_on_node

_RATES = (ast.Constant, ast.Attribute)
"""Expressions that count as numbers. If one factor of a product is such an expression, the other factor may be the
loss: `0.5 * loss`, `self.rate * loss`."""
_KEEPING = frozenset(("mean", "sum", "float", "scale"))
"Methods that return the loss in another form: `loss.mean()`, `scaler.scale(loss)`."


def as_loss(frame: Frame, name: str, value: Value) -> Value:
    """Return the value of a local name. An unknown value is a tensor if the function calls `backward` on it."""
    is_known = type(value) is not Unknown and (type(value) is not Tensor or value.certain)
    if is_known or frame.node is None or name not in _losses(frame.node):
        return value
    return replace(value, certain=True) if type(value) is Tensor else Tensor(where="any", step=True, fresh=True)


@memoize_on_node
def _losses(function: ast.AST) -> frozenset[str]:
    found: set[str] = set()
    for call in inside(function, ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "backward" and len(call.args) < 2:
            # In `accelerator.backward(loss)`, the loss is the argument.
            found.update(_names(call.args[0] if call.args else call.func.value))
    for node in inside(function, ast.Assign) if found else ():
        if any(isinstance(target, ast.Name) and target.id in found for target in node.targets):
            found.update(_names(node.value) if isinstance(node.value, (ast.BinOp, ast.IfExp)) else ())
    return frozenset(found)


def _names(loss: ast.expr) -> Iterator[str]:
    """Yield the names in a loss: `loss / 4`, `scaler.scale(loss)`, `first + self.rate * second`.

    A product of two names gives no name, because either factor may be a number.
    """
    if isinstance(loss, ast.Name):
        yield loss.id
    elif isinstance(loss, ast.BinOp) and isinstance(loss.op, ast.Div):
        yield from _names(loss.left)
    elif isinstance(loss, ast.BinOp) and isinstance(loss.op, (ast.Add, ast.Sub)):
        yield from _names(loss.left)
        yield from _names(loss.right)
    elif isinstance(loss, ast.BinOp) and isinstance(loss.op, ast.Mult):
        factors = (loss.left, loss.right), (loss.right, loss.left)
        yield from (one.id for one, other in factors if isinstance(one, ast.Name) and isinstance(other, _RATES))
    elif isinstance(loss, ast.IfExp):
        yield from _names(loss.body)
        yield from _names(loss.orelse)
    elif isinstance(loss, ast.Call) and isinstance(loss.func, ast.Attribute) and loss.func.attr in _KEEPING:
        yield from _names(loss.args[0] if loss.args else loss.func.value)
