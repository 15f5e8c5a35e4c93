"""Makes a copy from pinned memory asynchronous."""

from __future__ import annotations

import ast

from graphsafe.fixes.code import Code, Fix, dotted
from graphsafe.report.model import Finding

_RISK = "a later write to the pinned tensor may overwrite values that the device has not read yet"
_READS = ("shape", "dtype", "device", "size", "numel", "dim", "is_pinned")


def non_blocking(code: Code, finding: Finding) -> Fix | None:
    """`ids.copy_(pinned)` becomes `ids.copy_(pinned, non_blocking=True)`, and so do `.to` and `.cuda`.

    Safe if the file only makes and copies the pinned tensor. A later write to it could overwrite values that the device
    has not read yet.
    """
    if finding.data.get("memory") != "pinned":
        return None
    for node in code.at(finding.location):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            source = _source(node)
            if source is None or not _may_be_added(node):
                return None
            from graphsafe.fixes import rewriting

            text = rewriting.call_with(code.text(node), "non_blocking", "True")
            risk = "" if _is_only_copied(code, source) else _RISK
            return Fix("copy without blocking", (code.replaced(node, text),), risk)
    return None


def _source(node: ast.Call) -> str | None:
    """Return the name of the pinned tensor that is copied whole."""
    assert isinstance(node.func, ast.Attribute)
    if node.func.attr == "copy_":
        return dotted(node.args[0]) or None if len(node.args) == 1 else None
    if node.func.attr in ("to", "cuda"):
        return dotted(node.func.value) or None
    return None


def _may_be_added(node: ast.Call) -> bool:
    """Return whether the copy converts nothing, since a converting copy goes through pageable memory."""
    assert isinstance(node.func, ast.Attribute)
    keywords = {each.arg for each in node.keywords}
    return len(node.args) <= 1 and keywords <= {"non_blocking", "device"}


def _is_only_copied(code: Code, source: str) -> bool:
    """Return whether the file only makes a tensor, copies it and asks for its shape."""
    last = source.rpartition(".")[2]
    for node in ast.walk(code.tree):
        if not isinstance(node, (ast.Name, ast.Attribute)) or dotted(node).rpartition(".")[2] != last:
            continue
        if isinstance(node.ctx, ast.Store):
            continue
        outer = code.parent(node)
        call = code.parent(outer) if isinstance(outer, ast.Attribute) else outer
        copied = isinstance(outer, ast.Call) and isinstance(outer.func, ast.Attribute) and outer.func.attr == "copy_"
        moved = (
            isinstance(outer, ast.Attribute)
            and outer.attr in ("to", "cuda")
            and isinstance(call, ast.Call)
            and call.func is outer
        )
        read = isinstance(outer, ast.Attribute) and outer.attr in _READS
        if not (copied or moved or read):
            return False
    return True
