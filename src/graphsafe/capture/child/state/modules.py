"""Lists the contents of modules: parameters, buffers, submodules and hooks."""

from __future__ import annotations

from typing import Any

import torch

from graphsafe.capture.child.state.containers import Variables
from graphsafe.capture.child.state.objects import attributes_of
from graphsafe.capture.child.state.walk import Item, ObjectWalk, below, variables_in

_MACHINERY = frozenset(torch.nn.Module().__dict__)
"The attributes in which a module holds its parameters, hooks and the like."
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


def each_hook(path: str, hooks: dict[int, Any]) -> list[Item]:
    """Return the hooks of a module or a tensor, as items to visit."""
    return [(f"{path}[{at}]", hook, None, None) for at, hook in enumerate(dict.values(hooks))]


def take_module(walk: ObjectWalk, path: str, value: Any) -> None:
    """Visit the parameters, buffers, submodules, hooks and other attributes of a module."""
    dot = below(path)
    attributes = attributes_of(value) or {}
    walk.reach.containers.append(attributes)
    for store in (attributes.get(name) for name in ("_parameters", "_buffers", "_modules")):
        if isinstance(store, dict):
            walk.reach.containers.append(store)
            walk.enqueue(variables_in(dot, store))
    for name in _HOOKS:
        if hooks := attributes.get(name):
            walk.enqueue(each_hook(f"{dot}{name}", hooks))
    walk.enqueue(item for item in variables_in(dot, attributes) if item[3] not in _MACHINERY)
    walk.take_class(path, type(value))


def take_script_module(walk: ObjectWalk, path: str, value: Any) -> None:
    """Visit the state inside a TorchScript module, and the Python modules that it contains."""
    of_torch: Any = torch._C
    dot = below(path)
    attributes = attributes_of(value) or {}
    script = attributes.get("_c")
    if script is None:
        walk.enqueue([(path, attributes.get("_actual_script_module"), None, None)])
        return
    kept = of_torch.ConcreteModuleType.from_jit_type(script._type()).get_attributes()
    tensors = [*of_torch.ParameterDict(script).items(), *of_torch.BufferDict(script).items()]
    for name, tensor in tensors:
        walk.enqueue([(f"{dot}{name}", tensor, None, None)])
    others = {name: script.getattr(name) for name in kept.keys() - dict(tensors).keys()}
    walk.reach.containers.append(Variables(script, tuple(sorted(others))))
    for name, item in sorted(others.items()):
        walk.enqueue([(f"{dot}{name}", item, script, name)])
    modules = attributes.get("_modules")
    walk.enqueue((f"{dot}{name}", item, None, None) for name, item in getattr(modules, "_python_modules", {}).items())
