"""Calls that enlarge a buffer which is too small: `if length > self.cached: self.set_cache(length)`."""

from __future__ import annotations

import ast

from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.state_log import Write
from graphsafe.scan.domain.summary import Included
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.state import first_step
from graphsafe.scan.state.filled_once import is_past_maximum
from graphsafe.scan.symbols.index import dotted


def note(frame: Frame, call: ast.Call, since: int) -> None:
    """Record the growth of attributes that the called method writes, if the call runs only when these attributes are
    too small.

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
                if first_step.too_small(frame, attribute):
                    frame.engine.note(replace(write, grows=True, outgrown=True, past_maximum=is_past_maximum(frame)))
