"""Makes a copy from pinned memory asynchronous."""

from __future__ import annotations

import ast

from graphsafe.fixes.code import Code, Fix, dotted
from graphsafe.report.model import Finding

_RISK = "a later write to the pinned tensor may overwrite values that the device has not read yet"
_READS = ("shape", "dtype", "device", "size", "numel", "dim", "is_pinned")


def non_blocking(code: Code, finding: Finding) -> Fix | None:
    """Fix `ids.copy_(pinned)` to `ids.copy_(pinned, non_blocking=True)`, and `.to` and `.cuda` in the same way.

    The fix is safe if only this file uses the pinned tensor, and if the file only creates and copies it. Otherwise, a
    later write, perhaps in another file, could overwrite values that the device has not read yet.
    """
    if finding.data.get("memory") != "pinned":
        return None
    for node in code.calls_at(finding.location):
        if isinstance(node.func, ast.Attribute):
            source = _source(node)
            keywords = {each.arg for each in node.keywords}
            # A copy that converts the values uses pageable memory.
            if source is None or len(node.args) > 1 or not keywords <= {"non_blocking", "device"}:
                return None
            edit = code.with_keyword(node, "non_blocking", "True")
            is_safe = _is_own(code, node, source) and _is_only_copied(code, source)
            return Fix("copy without blocking", (edit,), "" if is_safe else _RISK)
    return None


def _source(node: ast.Call) -> str | None:
    """Return the name of the pinned tensor that is copied as a whole, or None."""
    assert isinstance(node.func, ast.Attribute)
    if node.func.attr == "copy_":
        return dotted(node.args[0]) or None if len(node.args) == 1 else None
    if node.func.attr in ("to", "cuda"):
        return dotted(node.func.value) or None
    return None


def _is_own(code: Code, node: ast.Call, source: str) -> bool:
    """Return whether the copied tensor belongs to this file: a local variable of the function, or a private attribute.
    Other files may refill a public attribute, a parameter or a global variable."""
    owner, _, last = source.rpartition(".")
    if owner:
        return last.startswith("_")
    function = code.function(node)
    names = (each for each in ast.walk(function or ast.Module([], [])) if isinstance(each, ast.Name))
    return any(each.id == source and isinstance(each.ctx, ast.Store) for each in names)


def _is_only_copied(code: Code, source: str) -> bool:
    """Return whether the file only creates a tensor, copies it and reads its shape."""
    last = source.rpartition(".")[2]
    for node in ast.walk(code.tree):
        if not isinstance(node, (ast.Name, ast.Attribute)) or isinstance(node.ctx, ast.Store):
            continue
        if dotted(node).rpartition(".")[2] != last:
            continue
        outer = code.parent(node)
        if isinstance(outer, ast.Attribute):
            call = code.parent(outer)
            is_moved = outer.attr in ("to", "cuda") and isinstance(call, ast.Call) and call.func is outer
            if not is_moved and outer.attr not in _READS:
                return False
        elif not isinstance(outer, ast.Call) or getattr(outer.func, "attr", None) != "copy_":
            return False
    return True
