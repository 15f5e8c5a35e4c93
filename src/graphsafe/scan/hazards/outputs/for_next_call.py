"""Methods that keep an output in an attribute for their next call."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set

from graphsafe.scan.hazards.graph_syntax import Function, own, place, viewed
from graphsafe.scan.hazards.graph_tensors import bindings


def kept_for_next(function: Function, first: int, outputs: Set[str]) -> Iterator[ast.Assign]:
    """Yield the lines that assign one of these outputs to an attribute, if the method reads the attribute between the
    line `first` and the assignment. The read then gets the output of the call before, which the replay has
    overwritten."""
    read = [
        (place(one), one.lineno)
        for one in own(function, ast.Attribute)
        if isinstance(one.ctx, ast.Load) and one.lineno > first
    ]
    for made in own(function, ast.Assign):
        for target, value in bindings(made):
            text = place(target)
            is_kept = isinstance(target, ast.Attribute) and viewed(value) in outputs
            if is_kept and any(text == other and line < made.lineno for other, line in read):
                yield made
