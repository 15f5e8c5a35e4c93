"""Finds methods that are passed to a function which calls them in a loop, to time or to drive them:
`bench(solver.sweep)`."""

from __future__ import annotations

import ast
import re

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.record import HANDED
from graphsafe.scan.domain.values import Function, options
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.sources.node_memo import inside, memoize_on_node

LOOPER = re.compile(
    rb"def (?<![^\n]def )(?=\w*(?:bench|timeit|time_|_time|measure|latency|throughput|profile|loop|drive|repeat))"
    rb"(\w+)\((?:fn|func|function|step|step_fn|callable|body|op)\b"
)
"""Matches a module-level function that calls its first parameter in a loop, judging by the names of both.

The pattern begins with fixed characters, and looks back from there to the start of the line.
"""


def note(frame: Frame, function: Function, arguments: Arguments) -> None:
    """Make roots of the methods that cold code passes to a function which calls them in a loop."""
    handed = options(arguments.positional[0]) if arguments.positional and not frame.hot else ()
    methods = [one for one in handed if type(one) is Function and one.bound is not None and one.node is None]
    node = frame.project.function_node(function.ref) if methods else None
    if node is not None and _calls_first_in_loop(node):
        for method in methods:
            if not frame.engine.is_cold(method.ref):
                frame.engine.add_root(method.ref, method.bound, HANDED)


@memoize_on_node
def _calls_first_in_loop(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    first = function.args.args[0].arg if function.args.args else ""
    if LOOPER.match(f"def {function.name}({first}".encode()) is None:
        return False
    loops = [inner for inner in ast.walk(function) if isinstance(inner, (ast.For, ast.While))]
    calls = [call.func for loop in loops for call in inside(loop, ast.Call)]
    return any(isinstance(called, ast.Name) and called.id == first for called in calls)
