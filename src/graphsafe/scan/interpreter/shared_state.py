"""The state that all objects share: the globals of modules, and the attributes of classes."""

from __future__ import annotations

from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.values import ClassValue, Dict, Number, ProjectModule, Sequence, Value
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.interpreter.named_attribute import named_attribute
from graphsafe.scan.symbols.project import Binding


def of_name(frame: Frame, name: str, value: Value) -> Value:
    """Return the value of a global name. A container is marked with its global, even in a file that imports the
    global."""
    if not frame.hot or type(value) not in (Sequence, Dict):
        return value
    binding = frame.project.resolve(frame.file, name)
    return value if binding is None else _held(frame, _key(binding), value)


def of_module(frame: Frame, binding: Binding, value: Value) -> Value:
    """Return the value of `module.name`."""
    key = _key(binding)
    if not frame.hot or key is None:
        return value
    frame.engine.note_read(frame, key)
    return replace(value, state=(key,)) if type(value) is Number else _held(frame, key, value)


def of_class(frame: Frame, owner: ClassValue, name: str, value: Value) -> Value:
    """Return the value of `Class.name`, which `self.name` reads too."""
    if not frame.hot or type(value) not in (Sequence, Dict, Number):
        return value
    key = frame.attributes.key(owner.ref, name)
    frame.engine.note_read(frame, key)
    return _held(frame, key, value)


def key_of(frame: Frame, owner: ClassValue | ProjectModule, name: str) -> str | None:
    """Return the key of the state `Class.name` or `module.name`. Return None for a class or function of a module,
    because these are not state."""
    if isinstance(owner, ClassValue):
        return frame.attributes.key(owner.ref, name)
    return _key(binding_of(frame, owner, name))


def binding_of(frame: Frame, owner: ProjectModule, name: str) -> Binding:
    """Return the meaning of `module.name`."""
    file = frame.project.files.index(owner.path)
    binding = frame.project.resolve(file, name) if file is not None else None
    return binding or frame.project.resolve_dotted(f"{owner.name}.{name}", owner.path)


def _key(binding: Binding) -> str | None:
    return binding.ref if binding.kind == "assign" and "." not in binding.name else None


def _held(frame: Frame, key: str | None, value: Value) -> Value:
    if key is None or type(value) not in (Sequence, Dict, Number):
        return value
    return named_attribute(value, key, key, frame.attributes.marked)
