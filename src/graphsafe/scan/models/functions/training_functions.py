"""Functions that train, and functions that belong to code which trains."""

from __future__ import annotations

import ast
import re

from graphsafe.scan.domain.values import Instance
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.sources.node_memo import inside, memoize_on_node

_TRAINS = re.compile(r"\.(backward|zero_grad)\(")


def is_for_training(frame: Frame) -> bool:
    """Return whether a function trains or belongs to code that trains. Such code is in the function's file, or in a
    file that defines the class of the function's object or a base of this class. Other loops over a data loader may be
    evaluations or calibrations."""
    if frame.depth == 0 and frame.node is not None:
        return trains(frame.node)
    paths = {frame.path}
    if isinstance(frame.self_value, Instance):
        paths |= {ref.partition("::")[0] for ref, _ in frame.project.own_classes(frame.self_value.ref)}
    return any(frame.project.files.search(path, _TRAINS) for path in paths)


@memoize_on_node
def trains(function: ast.AST) -> bool:
    """Return whether a function runs a backward pass or clears gradients."""
    return any(one.attr in ("backward", "zero_grad") for one in inside(function, ast.Attribute))
