"""Functions that torch calls when a module runs, or when a gradient is made."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from graphsafe.scan.domain.record import FORWARD_HOOK, HOOK
from graphsafe.scan.domain.values import Value
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.models import torch_functions

_FORWARD = frozenset(("register_forward_hook", "register_forward_pre_hook"))
METHODS = _FORWARD | frozenset(
    (
        "register_hook register_full_backward_hook register_full_backward_pre_hook register_post_accumulate_grad_hook"
    ).split()
)
"Methods of torch's modules and tensors whose callable arguments run in every step."
_TEXT = re.compile(rb"def (?<!\wdef )(\w+)\((?:self, )?module\b[^()]*\b(?:args|inputs?)\b[^()]*\boutputs?\b")
"Matches a function with the parameters that torch's documentation gives a forward hook."
_WORDS = (b"(module", b"(self, module")


def hooks_in(data: bytes) -> Iterator[str]:
    """Yield the functions that take the arguments of a forward hook."""
    found = _TEXT.finditer(data) if any(word in data for word in _WORDS) else ()
    return (match[1].decode() for match in found)


def registered(frame: Frame, call: ast.Call, method: str, hook: Value | None) -> None:
    """Make a root of a hook that is registered.

    A backward hook is part of training. Forward hooks record activations in calibrations and tools, so what they lead
    to is only possible, unless a step registers the hook, or a module does so on itself.
    """
    on = call.func.value if isinstance(call.func, ast.Attribute) else None
    is_own = type(on) is ast.Name and on.id == "self"
    why = HOOK if frame.hot or is_own or method not in _FORWARD else FORWARD_HOOK
    torch_functions.handed_over(frame.engine, hook, why)
