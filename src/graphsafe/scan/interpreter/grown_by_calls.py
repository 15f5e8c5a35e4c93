"""Calls that make larger what is too small: `if length > self.cached: self.set_cache(length)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from graphsafe.scan.checks import first_step
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.state_log import Write
from graphsafe.scan.domain.summary import Included
from graphsafe.scan.symbols.index import dotted

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine


def note(engine: Engine, frame: Frame, call: ast.Call, since: int) -> None:
    """Note that what the called method writes grows, where the call stands under a test that it is too small.

    `since`: how many items had been noted before the call.
    """
    if not frame.hot or not frame.lazy or not isinstance(call.func, ast.Attribute):
        return
    owner = dotted(call.func.value)
    for item in engine.effects.items[since:]:
        if type(item) is not Included or owner is None:
            continue
        for write in item.summary.items:
            # What the method calls its own object is here the owner.
            if type(write) is Write and not write.keyed and write.text.count(".") == 1:
                attribute = f"{owner}.{write.text.rpartition('.')[2]}"
                if first_step.too_small(frame, attribute):
                    engine.note(replace(write, grows=True))
