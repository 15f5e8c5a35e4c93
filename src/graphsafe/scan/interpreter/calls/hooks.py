"""Hooks: functions that torch calls when a module runs or a gradient is computed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from graphsafe.scan.domain.record import HOOK, PASSING_HOOK
from graphsafe.scan.domain.values import Value
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.models.functions import torch_functions
from graphsafe.scan.symbols.overrides import is_of_tests
from graphsafe.scan.symbols.project_files import Files

_FORWARD = frozenset(("register_forward_hook", "register_forward_pre_hook"))
METHODS = _FORWARD | frozenset(
    (
        "register_hook register_full_backward_hook register_full_backward_pre_hook register_post_accumulate_grad_hook"
        " register_step_pre_hook register_step_post_hook"
    ).split()
)
"Methods of torch's modules, tensors and optimizers whose callable arguments run in every step."
_TEXT = re.compile(
    rb"def (?<!\wdef )(\w+)\((?:self, )?module\b[^()]{0,500}\b(?:args|inputs?)\b[^()]{0,500}\boutputs?\b"
)
"Matches a function with the parameters of a forward hook in torch's documentation."
_WORDS = (b"(module", b"(self, module")
_DEBUGS = re.compile(r"(^|[._])debug|Debug")
"Matches names of classes and functions that search for a fault, for example for the module that makes a NaN."
_REMOVES = re.compile(r"\.remove\(\)")
"Matches the call that removes a hook from its module. (A list's `remove` takes an argument.)"


def hooks_in(data: bytes) -> Iterator[str]:
    """Yield the functions that have the parameters of a forward hook."""
    found = _TEXT.finditer(data) if any(word in data for word in _WORDS) else ()
    return (match[1].decode() for match in found)


def forward_hook_reason(files: Files, ref: str) -> str:
    """Return the reason why a forward hook is a root. `ref` is the hook, or the function that registers it.

    Tools that calibrate a model or show its activations register a hook, run the model a few times, and remove the
    hook. Such hooks, and those of tests and debuggers, get a separate reason.
    """
    path, _, name = ref.partition("::")
    passes = is_of_tests(ref) or _DEBUGS.search(name) is not None or files.search(path, _REMOVES)
    return PASSING_HOOK if passes else HOOK


def registered(frame: Frame, method: str, hook: Value | None) -> None:
    """Make a hot root of a registered hook. If a step registers the hook, the step also runs it, unless few steps
    register it."""
    why = HOOK
    if method in _FORWARD and (not frame.hot or frame.unlikely):
        why = forward_hook_reason(frame.project.files, frame.ref)
    torch_functions.handed_over(frame.engine, hook, why)
