"""Numbers in the objects of a step. The factory of a target, or a script, passes such a number to the constructor of an
object."""

from __future__ import annotations

import re

from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.numbers import const_of
from graphsafe.scan.domain.values import UNSET, Instance, Number, Value
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.interpreter.attributes import CONSTRUCTORS


def settled(frame: Frame, owner: Instance, name: str, given: Value, value: Value) -> Value:
    """Return an attribute's value, marked as never changing if it depends only on the constructor's argument `given`. A
    test of the attribute then always has the same result."""
    if owner.given is None or type(given) is not Number or type(value) is not Number or given.const is UNSET:
        return value
    if const_of(frame.attributes.of_instance(Instance(owner.ref), name)) is not UNSET or _is_assigned(
        frame, owner, name
    ):
        return value  # all objects of the class have this value at first, or other code may change the value later
    return replace(value, overridable_by=given.overridable_by)


def _is_assigned(frame: Frame, owner: Instance, name: str) -> bool:
    """Return whether any code except the constructors may assign an attribute."""
    writers = (facts.writers.get(name, ()) for _, facts in frame.project.own_classes(owner.ref))
    if any(method not in CONSTRUCTORS for methods in writers for method in methods):
        return True
    files, word = frame.project.files, name.encode()
    path = owner.ref.partition("::")[0]
    return files.table(f"assigns {name}", lambda: files.any_contains(path, _assigns(word), word))


def _assigns(name: bytes) -> re.Pattern[bytes]:
    """Return a pattern for code that may assign an attribute of another object: `model.flag = True`,
    `setattr(model, "flag", True)`."""
    return re.compile(
        rb"""(?<!\bself)\.%s\s*(?:,[^=\n]*|:[^=\n]*|[^\w\s=!<>()]{1,2})?=(?!=)|["']%s["']""" % (name, name)
    )
