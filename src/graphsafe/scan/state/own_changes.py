"""Changes of state that no assignment shows: a call modifies an attribute's value in place, or a clock advances."""

from __future__ import annotations

import ast

from graphsafe.scan.domain.events import span_of
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.state_log import Write
from graphsafe.scan.domain.summary import Included
from graphsafe.scan.domain.values import Value
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.state.filled_once import is_past_maximum
from graphsafe.scan.state.first_step import too_small
from graphsafe.scan.symbols.index import dotted


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


def note_growth(frame: Frame, call: ast.Call, since: int) -> None:
    """Record the growth of attributes that the called method writes, if the call runs only when these attributes are
    too small: `if length > self.cached: self.set_cache(length)`.

    `since` is the number of items that were recorded before the call.
    """
    if not frame.hot or not frame.lazy or not isinstance(call.func, ast.Attribute):
        return
    owner = dotted(call.func.value)
    for item in frame.engine.effects.items[since:]:
        if type(item) is not Included or owner is None:
            continue
        for write in item.summary.items:
            # The method's `self` is the object that the caller names `owner`.
            if type(write) is Write and not write.keyed and write.text.count(".") == 1:
                attribute = f"{owner}.{write.text.rpartition('.')[2]}"
                if too_small(frame, attribute):
                    frame.engine.note(replace(write, grows=True, outgrown=True, past_maximum=is_past_maximum(frame)))
