"""Fills a tensor with one number on the device instead of copying the number there."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphsafe.fixes.code import Code, Fix, argument, dotted, is_literal
from graphsafe.fixes.host_numbers import is_python_number, overflows_half
from graphsafe.report.model import Finding

if TYPE_CHECKING:
    from libcst import Call

_MAKERS = {"tensor": "full", "as_tensor": "full", "scalar_tensor": "full", "new_tensor": "new_full"}
_DEVICES = ("device", "dev")
_WIDE = frozenset(
    f"torch.{name}" for name in ("float", "float32", "double", "float64", "bfloat16", "int", "int32", "long", "int64")
)


def full(code: Code, finding: Finding) -> Fix | None:
    """Fix `torch.tensor(3.0, device=d)` to `torch.full((), 3.0, device=d)`. For `[0.0, 0.0]`, the arguments are `(2,),
    0.0`."""
    for node in code.calls_at(finding.location):
        made = _moved(node)
        inner, device = made if made is not None else (node, None)
        text = _full(code, inner, device, is_number="number" in finding.data.get("data", ""))
        if text is not None:
            return Fix("fill it on the device with full", (code.replaced(node, text),), _risk(code, inner))
    return None


def _moved(node: ast.Call) -> tuple[ast.Call, ast.expr | None] | None:
    """Return the tensor that `.to(device)` or `.cuda()` moves, and the device. Return None for other calls."""
    if not isinstance(node.func, ast.Attribute) or not isinstance(node.func.value, ast.Call):
        return None
    given = [*node.args, *(each.value for each in node.keywords)]
    if node.func.attr == "cuda" and not given:
        return node.func.value, ast.Constant("cuda")
    named = [each.arg for each in node.keywords]
    if node.func.attr == "to" and len(given) == 1 and named in ([], ["device"]) and (named or _is_device(given[0])):
        return node.func.value, given[0]
    return None


def _is_device(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    return dotted(node).rpartition(".")[2].endswith(_DEVICES) or (
        isinstance(node, ast.Attribute) and node.attr == "device"
    )


def _full(code: Code, node: ast.Call, device: ast.expr | None, is_number: bool) -> str | None:
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in _MAKERS:
        return None
    keywords = {each.arg for each in node.keywords}
    data = argument(node, 0, "data")
    if len(node.args) != 1 or data is None or not keywords <= {"dtype", "device", "requires_grad"}:
        return None
    if device is not None and "device" in keywords:
        return None
    shape, value = _filled(data)
    if value is None or not (is_literal(value) or (is_number and not shape)):
        return None
    from graphsafe.fixes import rewriting

    sizes = ", ".join(map(str, shape)) + "," * (len(shape) == 1)
    name = _MAKERS[node.func.attr]

    def change(call: Call) -> Call:
        made = rewriting.with_first(rewriting.named(call, name), f"({sizes})", code.text(value))
        if device is None:
            return made
        return rewriting.with_keyword(made, "device", code.text(device) if hasattr(device, "lineno") else '"cuda"')

    return rewriting.call(code.text(node), change)


def _risk(code: Code, node: ast.Call) -> str:
    """Return the risk of the fix, or an empty string. There is a risk if the value may not be a Python number, or if
    the tensor may have half precision, which cannot represent the value."""
    value = _filled(node.args[0])[1]
    if value is not None and not (is_literal(value) or is_python_number(code, value)):
        return "`full` takes no list, and does not keep the dtype of a NumPy number"
    named = next((each.value for each in node.keywords if each.arg == "dtype"), None)
    is_method = isinstance(node.func, ast.Attribute) and node.func.attr == "new_tensor"
    is_wide = not is_method if named is None else dotted(named) in _WIDE
    if value is None or is_wide or not overflows_half(value):
        return ""
    return "`full` raises if the dtype is half precision, which cannot hold this number"


def _filled(node: ast.expr) -> tuple[Sequence[int], ast.expr | None]:
    """Return the shape of nested lists, and the number to which all their elements are equal. The number is None if the
    elements differ."""
    if not isinstance(node, (ast.List, ast.Tuple)):
        return (), node
    if not node.elts or len({ast.dump(each) for each in node.elts}) > 1:
        return (), None
    inner, value = _filled(node.elts[0])
    return (len(node.elts), *inner), value
