"""Finds callables that are passed to a function which calls them in a loop, for example to time or profile them:
`bench(solver.sweep)`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Set

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.record import HANDED
from graphsafe.scan.domain.values import Function, options
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards.graph_syntax import is_short
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.symbols.blocks import Definition
from graphsafe.scan.symbols.project_files import Files

LOOPER = re.compile(
    rb"def (?<![^\n]def )(?=\w*(?:bench|timeit|time_|_time|measure|latency|throughput|profile|loop|drive|repeat))"
    rb"(\w+)\((?:fn|func|function|step|step_fn|callable|body|op)\b"
)
"""Matches a module-level function that calls its first parameter in a loop, judging by the names of the function and
the parameter.

The pattern begins with fixed characters, which makes the search fast. A lookbehind checks the start of the line.
"""
_ROUNDS = b" in range("
_DEFINED = re.compile(rb"def (?<![^\n]def )(\w+)\((\w+)\b")
"Matches the definition of a module-level function, with its first parameter."


def loopers_in(data: bytes) -> Set[str]:
    """Return the functions of a file that may call their first parameter in a loop, as far as a text search shows."""
    found = {match.decode() for match in LOOPER.findall(data)}
    defined = _DEFINED.finditer(data) if _ROUNDS in data else ()
    for match in defined:
        end = data.find(b"\ndef ", match.end())
        body = data[match.end() : end if end >= 0 else len(data)]
        if _ROUNDS in body and re.search(rb"\n[ \t]+(?:\w+ = )?%s\(" % match[2], body) is not None:
            found.add(match[1].decode())
    return found


def all_loopers(files: Files) -> Set[str]:
    """Return the names of the project's functions that may call their first parameter in a loop."""
    found = (loopers_in(data) for path in files.names if (data := files.data(path)) is not None)
    return files.table("loopers", lambda: frozenset().union(*found))


def note(frame: Frame, function: Function, arguments: Arguments) -> None:
    """Make roots of the callables that cold code passes to a function which calls them in a loop."""
    handed = options(arguments.positional[0]) if arguments.positional and not frame.hot else ()
    callables = [one for one in handed if type(one) is Function]
    node = frame.project.function_node(function.ref) if callables else None
    if node is None or not node.args.args:
        return
    repeats = _repeats_first(node)
    for one in callables:
        is_method = one.bound is not None and one.node is None
        # A lambda counts as part of the function around it, which may be cold (a test, for example).
        defined = one.ref if one.node is None else frame.ref
        if (repeats or (is_method and _calls_first_in_loop(node))) and not frame.engine.is_cold(defined):
            frame.engine.add_root(one.ref, one.bound if one.node is None else one, HANDED)


@memoize_on_node
def _calls_first_in_loop(function: Definition) -> bool:
    first = function.args.args[0].arg
    if LOOPER.match(f"def {function.name}({first}".encode()) is None:
        return False
    loops = [inner for inner in ast.walk(function) if isinstance(inner, (ast.For, ast.While))]
    calls = [call.func for loop in loops for call in inside(loop, ast.Call)]
    return any(isinstance(called, ast.Name) and called.id == first for called in calls)


@memoize_on_node
def _repeats_first(function: Definition) -> bool:
    """Return whether a function calls its first parameter in many identical iterations: `for _ in range(rounds):
    work(batch)`.

    A loop that keeps the results is excluded, because it builds something. A loop that may be left early is excluded
    too, because it retries until a call succeeds.
    """
    first = function.args.args[0].arg
    loops = [one for one in ast.walk(function) if isinstance(one, ast.For) and ast.unparse(one.iter)[:6] == "range("]
    return any(not is_short(loop) and _only_repeats(loop, first) for loop in loops)


def _only_repeats(loop: ast.For, first: str) -> bool:
    inner = [one for statement in loop.body for one in ast.walk(statement)]
    if any(isinstance(one, (ast.Return, ast.Break, ast.Try)) for one in inner):
        return False
    targets = [one.target for one in (loop, *inner) if isinstance(one, ast.For)]
    turned = {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}
    calls = [one for one in inner if isinstance(one, ast.Call) and ast.unparse(one.func) == first]
    own = {id(name) for call in calls for name in ast.walk(call)}
    read = [one for one in inner if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)]
    kept = {one.id for one in read if id(one) not in own}
    for statement in (one for one in inner if isinstance(one, (ast.Expr, ast.Assign)) and one.value in calls):
        given = {one.id for one in ast.walk(statement.value) if isinstance(one, ast.Name)}
        assigned = statement.targets if isinstance(statement, ast.Assign) else []
        results = {one.id if isinstance(one, ast.Name) else "" for one in assigned}
        if turned.isdisjoint(given) and results.isdisjoint({*kept, ""}):
            return True
    return False
