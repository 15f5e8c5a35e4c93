"""Changes of state that no assignment shows: a call modifies an attribute's value in place, or a clock advances."""

from __future__ import annotations

import ast

from graphsafe.scan.domain.events import span_of
from graphsafe.scan.domain.state_log import Write
from graphsafe.scan.domain.values import Value
from graphsafe.scan.execution.frame import Frame


def own_change(
    frame: Frame,
    node: ast.AST,
    key: str,
    text: str,
    value: Value,
    *,
    reads_self: bool = True,
    keyed: bool = True,
    grows: bool = False,
    outgrown: bool = False,
) -> Write:
    """Return a write that treats the change of the state `text` in `node` like an assignment of `value`."""
    return Write(
        key=key,
        text=text,
        path=frame.path,
        function=frame.function,
        span=span_of(node),
        value=value,
        before=None,
        augmented=reads_self,
        reads_self=reads_self,
        lazy=False,
        keyed=keyed,
        guard=frame.guard,
        compile_test=frame.compile_test,
        grows=grows,
        outgrown=outgrown,
    )
