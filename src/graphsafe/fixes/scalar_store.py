"""Writes a number into one element of a tensor on the device instead of copying it there from the host."""

from __future__ import annotations

import ast

from graphsafe.fixes.code import Code, Fix, argument, dotted, is_literal, is_plain
from graphsafe.fixes.host_numbers import is_integer, overflows_half
from graphsafe.report.model import Finding


def fill(code: Code, finding: Finding) -> Fix | None:
    """Fix `buf[i] = 7` to `buf[i].fill_(7)`.

    The fix is safe if all indices are integers on the host. Then `buf[i]` is a view, and both statements treat a
    negative or invalid `i` in the same way. With a boolean index, `buf[i]` is a copy.
    """
    if finding.data.get("place") != "one element":
        return None
    for node in code.at(finding.location):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
            value = _number(node.value)
            if value is None or not is_plain(node.targets[0].value) or not is_plain(node.targets[0].slice):
                return None
            place = node.targets[0]
            parts = place.slice.elts if isinstance(place.slice, ast.Tuple) else [place.slice]
            unsure = [part for part in parts if not is_integer(code, part)]
            risk = f"nothing is stored where `{code.text(unsure[0])}` is a bool" if unsure else ""
            if overflows_half(value):
                risk = (
                    f"`fill_` raises if `{code.text(place.value)}` is of half precision, which cannot hold this number"
                )
            text = f"{code.text(place)}.fill_({code.text(value)})"
            return Fix("fill the element on the device", (code.replaced(node, text),), risk)
    return None


def _number(value: ast.expr) -> ast.expr | None:
    """Return the number that is stored, without a host tensor around it, or None for any other value."""
    if isinstance(value, ast.Call) and dotted(value.func) == "torch.tensor" and not value.keywords:
        inner = argument(value, 0, "data")
        return inner if inner is not None and is_literal(inner) else None
    return value if is_plain(value) else None
