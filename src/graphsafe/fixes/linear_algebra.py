"""Replaces solvers such as `torch.linalg.inv`, which check on the host whether they succeeded, by variants without this
check."""

from __future__ import annotations

import ast

from graphsafe.fixes.code import Code, Fix, dotted
from graphsafe.report.model import Finding

_CHECKED = {"inv": "inv_ex", "solve": "solve_ex", "cholesky": "cholesky_ex"}
_SHORT = {"inverse": "torch.linalg.inv_ex", "cholesky": "torch.linalg.cholesky_ex"}
"Function of torch or method of tensors -> the function of torch.linalg without this check."


def without_check(code: Code, finding: Finding) -> Fix | None:
    """Fix `torch.linalg.inv(x)` to `torch.linalg.inv_ex(x)[0]`.

    The second result of `inv_ex` is a tensor on the device that shows whether `inv` would raise.
    """
    for node in code.calls_at(finding.location):
        if not isinstance(node.func, ast.Attribute):
            continue
        if any(each.arg == "out" for each in node.keywords) or any(isinstance(each, ast.Starred) for each in node.args):
            return None
        text = _rewritten(code, node)
        if text is not None:
            return Fix("do the check on the device", (code.replaced(node, text),))
    return None


def _rewritten(code: Code, node: ast.Call) -> str | None:
    from graphsafe.fixes import rewriting

    assert isinstance(node.func, ast.Attribute)
    module, _, name = dotted(node.func).rpartition(".")
    text = code.text(node)
    if module.rpartition(".")[2] == "linalg":
        if name in _CHECKED:
            return rewriting.call(text, lambda call: rewriting.named(call, _CHECKED[name])) + "[0]"
        outer = code.parent(node)
        is_unpacked = isinstance(outer, ast.Assign) and [type(each) for each in outer.targets] == [ast.Tuple]
        if name == "lu_factor" and is_unpacked:
            return rewriting.call(text, lambda call: rewriting.named(call, "lu_factor_ex")) + "[:2]"
        return None
    short = _SHORT.get(node.func.attr)
    if short is None or not code.imports("torch") or node.keywords:
        return None
    if module == "torch" and len(node.args) == 1:
        return rewriting.call(text, lambda call: rewriting.called(call, short)) + "[0]"
    if node.args:
        return None
    return f"{short}({code.text(node.func.value)})[0]"
