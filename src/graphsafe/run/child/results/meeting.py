"""Finds two results of one graph that are used in one expression: `torch.cat([run(x), run(y)])`.

Both calls return the same memory. The second replay overwrites the first result before the expression uses it. The
first result is reported only if the graph's outputs have more references at the second replay than at the first one. A
copy adds no reference.
"""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from types import CodeType, FrameType

from graphsafe.capture.shared.classify import span_of
from graphsafe.capture.shared.frames import call_site, position_in
from graphsafe.report.model import CallSite, Span
from graphsafe.run.child.records import GraphRecord
from graphsafe.run.child.source import tree_of_code, unchanged
from graphsafe.run.facts import Calls, Overwritten

_KEPT = (ast.Assign, ast.AnnAssign, ast.Expr)
"Statements that only keep the elements of a tuple or a list."
_ENOUGH = 2
"""A result is reported when it has waited for a later one at this many replays.

One replay is not enough, because an attribute that keeps the last result also adds a reference the first time.
"""


class Meetings:
    """For each graph, the replays whose results wait in an expression for the results of other calls."""

    def __init__(self) -> None:
        self._first: dict[GraphRecord, dict[int, tuple[Span, int]]] = {}
        """Graph -> the `id` of a frame -> the position of the frame's call, and the number of references to the graph's
        outputs."""
        self._times: Counter[tuple[GraphRecord, CallSite]] = Counter()

    def replaying(self, record: GraphRecord, frames: Sequence[FrameType], sites: Calls) -> bool:
        """Record the replay. Return whether it overwrites a result that waits in an expression for the new result."""
        before, self._first[record] = self._first.get(record, {}), {}
        held = record.outputs.holders()
        for frame in frames:
            place = position_in(frame.f_code, frame.f_lasti)
            waiting = {} if place is None else _waiting(frame.f_code)
            if place is not None and place in waiting:
                self._first[record][id(frame)] = place, held
            first, holders = before.get(id(frame), (None, held))
            line = waiting[first].get(place) if first in waiting and held > holders else None
            if line is not None:
                read = call_site(frame.f_code, line)
                self._times[record, read] += 1
                if self._times[record, read] == _ENOUGH:
                    record.overwritten = Overwritten(read, sites, record.number)
                    return True
        return False


@functools.lru_cache(maxsize=256)
def _waiting(code: CodeType) -> Mapping[Span | None, Mapping[Span | None, int]]:
    """Find the calls whose results an expression keeps while it calls the same function again.

    Return a mapping from the position of each such call to a second mapping. The second mapping has, for the position
    of each later call, the line of the expression that uses both results.
    """
    tree = tree_of_code(code)
    found: dict[Span | None, dict[Span | None, int]] = {}
    nodes = [] if tree is None else list(ast.walk(tree))
    kept = {id(one.value) for one in nodes if isinstance(one, _KEPT) and isinstance(one.value, (ast.Tuple, ast.List))}
    for node in nodes:
        parts = [] if id(node) in kept else _operands(node)
        for at, part in enumerate(parts):
            later = [one for other in parts[at + 1 :] for one in ast.walk(other) if isinstance(one, ast.Call)]
            for call in unchanged(part):
                same = [one for one in later if ast.unparse(one.func) == ast.unparse(call.func)]
                for one in same:
                    found.setdefault(span_of(call), {})[span_of(one)] = getattr(node, "lineno", 0)
    return found


def _operands(node: ast.AST) -> Sequence[ast.expr]:
    """Return the operands of an expression in the order of their evaluation. Return () if the expression may use an
    operand before all operands are evaluated."""
    if isinstance(node, ast.Call):
        first = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return [*first, *node.args, *(one.value for one in node.keywords)]
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, (ast.Tuple, ast.List)):
        return node.elts
    return [node.left, *node.comparators] if isinstance(node, ast.Compare) and len(node.ops) == 1 else ()
