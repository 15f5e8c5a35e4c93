"""Finds results that one method copies to pinned memory and another method reads, without any wait of the host."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphsafe.scan.hazards.graph_syntax import Function, Line, called_name, calls_in, own, place, written
from graphsafe.scan.hazards.graph_tensors import Tables, targets
from graphsafe.scan.hazards.owners import class_of
from graphsafe.scan.sources.node_memo import inside

_READS = frozenset("tolist item numpy clone sum mean max min".split())
"Methods with which the host reads a tensor in its own memory."
_WAITS = frozenset("synchronize query elapsed_time float bool".split())
"Functions and methods after which the host may know that a copy is complete. So may those with `sync` in their names."
_WAITING_READS = frozenset("tolist item cpu numpy".split())
"Methods that make the host wait if the tensor is on the device."


def lines(found: Tables) -> Iterator[Line]:
    """Yield reads of pinned memory, if no line of the file can make the host wait for the copy into this memory.

    The file must call both the method that copies and the method that reads. Otherwise, the code of another file may
    wait between these calls.
    """
    called = {called_name(call) for call in calls_in([found.tree])}
    pinned = {text for _, function, _ in found.functions for text in _pinned(function)}
    methods: dict[str, dict[str, Function]] = {}
    for name, function, _ in found.functions:
        if function.name in called:
            methods.setdefault(class_of(found, name), {})[name] = function
    for owner, functions in methods.items() if not _waits(found.tree) else ():
        copied = {text for node in functions.values() for text in _copied(node) if owner}
        for text in sorted(copied & pinned):
            if all(_holder(call) == text for call in _waiting_reads(found.tree)):
                yield from _read(text, {name: node for name, node in functions.items() if text not in _copied(node)})


def _waits(tree: ast.Module) -> bool:
    names = {called_name(call) for call in calls_in([tree])}
    return not names.isdisjoint(_WAITS) or any("sync" in name for name in names)


def _waiting_reads(tree: ast.Module) -> list[ast.Call]:
    return [call for call in calls_in([tree]) if called_name(call) in _WAITING_READS]


def _copied(function: Function) -> set[str]:
    """Return the attributes into which a function copies without a wait: `self.host.copy_(y, non_blocking=True)`."""
    calls = [call for call in own(function, ast.Call) if called_name(call) == "copy_"]
    calls = [call for call in calls if any(word.arg == "non_blocking" for word in call.keywords)]
    return {text for call in calls if (base := written(call)) is not None and (text := _attribute(base)) is not None}


def _pinned(function: Function) -> set[str]:
    """Return the attributes to which a function assigns pinned memory."""
    made = [node for node in own(function, ast.Assign) if any(map(_pins, inside(node.value, ast.Call)))]
    return {text for node in made for target in targets(node) if (text := _attribute(target)) is not None}


def _pins(call: ast.Call) -> bool:
    given = [word.value for word in call.keywords if word.arg == "pin_memory"]
    return called_name(call) == "pin_memory" or any(ast.unparse(value) != "False" for value in given)


def _read(text: str, functions: dict[str, Function]) -> Iterator[Line]:
    for name, function in functions.items():
        for call in own(function, ast.Call):
            if called_name(call) in _READS and _holder(call) == text:
                yield Line(name, "host-read-early", call, text)


def _holder(call: ast.Call) -> str | None:
    return _attribute(call.func.value) if isinstance(call.func, ast.Attribute) else None


def _attribute(node: ast.expr) -> str | None:
    """Return the attribute of `self` of which an expression is an entry or a part: `self.host` for `self.host[k]`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    text = place(node)
    return text if text is not None and text.startswith("self.") else None
