"""Calls that switch a module between training and evaluation, or that turn its gradients on or off: `net.eval()`,
`net.requires_grad_(False)`. A graph that trains the module keeps the mode that the module had at the capture."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.naming import BY_MODE
from graphsafe.scan.domain.numbers import const_of
from graphsafe.scan.domain.values import UNSET, Instance, Number, options
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.state.writes import write
from graphsafe.scan.symbols.index import dotted

SWITCHES = {"eval": "training", "train": "training", "requires_grad_": "requires_grad"}
"Method of a module -> the mode that it switches."
ENDS = tuple(f".<{name}>" for name in sorted({*SWITCHES.values()}))
"Suffixes of keys in the state log. A key with such a suffix stands for a mode of modules."


def note_training(frame: Frame, node: ast.Call, ref: str) -> None:
    """Record that a function reads the modes of a module that it calls, if the function computes gradients."""
    calls = inside(frame.node, ast.Call) if frame.node is not None else ()
    name = (dotted(node.func) or "").rpartition(".")[2]
    if any(isinstance(call.func, ast.Attribute) and call.func.attr == "backward" for call in calls):
        for end in ENDS:
            frame.engine.note_read(frame, f"{ref}.{name}{end}")


def note_switch(frame: Frame, node: ast.Call, arguments: Arguments) -> None:
    """Record a call of a module's method that switches a mode. The switch is recorded for the module and for the
    modules that contain it."""
    function = node.func
    if not isinstance(function, ast.Attribute) or not (frame.hot or frame.between):
        return
    name = SWITCHES[function.attr]
    given = arguments.get(0, "requires_grad" if name == "requires_grad" else "mode")
    on = function.attr != "eval" if given is None else const_of(given)
    for ref, called in _modules(frame, function.value):
        if name == "training" and not _depends_on_mode(frame, ref):
            continue
        text = f"{ast.unparse(function.value)}.{name}"
        before = Number(on is False or UNSET)
        write(frame, f"{ref}.{called}.<{name}>", text, Number(on), before, node, None, lasting=True)


def _modules(frame: Frame, node: ast.expr) -> Iterator[tuple[str, str]]:
    """Yield the class and the name of a module of the project. Then yield the same for the modules that contain it: for
    `self.net.body`, the class of `self.net` with the name `net`. The names distinguish objects of one class, such as a
    teacher and its student."""
    while True:
        for option in options(frame.evaluate_quietly(node)):
            if type(option) is Instance and frame.attributes.is_module(option.ref):
                yield option.ref, (dotted(node) or "").rpartition(".")[2]
        if not isinstance(node, ast.Attribute):
            return
        node = node.value


def _depends_on_mode(frame: Frame, ref: str) -> bool:
    """Return whether the file of a class names a layer that behaves differently in training mode."""
    path = ref.partition("::")[0]
    return BY_MODE.search(frame.project.files.source(path).text) is not None
