"""Finds the module of the target to which an operation belongs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from graphsafe.capture.child.targets import Subject
from graphsafe.capture.plan.child.values import cells_of


class ModuleStack:
    """Follows which `forward` calls of modules are running."""

    def __init__(self, subject: Subject) -> None:
        self._names = names_of(subject)
        self._running: list[str] = []

    @property
    def current(self) -> str:
        """The name of the innermost running module of the target. The name is empty outside of all modules."""
        return self._running[-1] if self._running else ""

    @contextmanager
    def watched(self) -> Iterator[None]:
        def enter(module: Any, args: Any) -> None:
            self._running.append(self._names.get(id(module), self.current))

        def leave(module: Any, args: Any, result: Any) -> None:
            if self._running:
                self._running.pop()

        self._running.clear()
        hooks = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave, always_call=True)]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


def names_of(subject: Subject) -> dict[int, str]:
    """Return the name of each module, by `id`. The name is the one in `named_modules`. If the root has a name, this
    name comes first."""
    found: dict[int, str] = {}
    for prefix, root in _roots(subject):
        for name, module in root.named_modules():
            found.setdefault(id(module), ".".join(part for part in (prefix, name) if part))
    return found


def _roots(subject: Subject) -> Iterator[tuple[str, torch.nn.Module]]:
    fn: Any = subject.fn
    owner = getattr(fn, "__self__", None)
    shared = cells_of(fn) if getattr(fn, "__closure__", None) else {}
    named = {**getattr(owner, "__dict__", {}), **{name: cell.read() for name, cell in shared.items()}}
    named |= {f"args[{index}]": value for index, value in enumerate(subject.args)} | dict(subject.kwargs)
    for name, value in (("", fn), ("", owner), *named.items()):
        if isinstance(value, torch.nn.Module):
            yield str(name), value
