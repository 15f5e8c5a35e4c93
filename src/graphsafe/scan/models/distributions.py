"""Distributions of `torch.distributions`. Their methods check values unless the checks are turned off, and each check
waits for the device."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from graphsafe.scan.domain.values import Instance, RuntimeObject, number
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.symbols.index import ClassFacts

DISTRIBUTIONS = "torch.distributions."
UNCHECKED = "[validate_args=False]"
"The suffix of a distribution's name if its methods do not check values."
CHECKS_OFF = dict.fromkeys(("validate_args", "set_default_validate_args"), number(False))
"The keywords that turn off the checks of a distribution, and those of all distributions that it makes itself."
ON_HOST = "[on the host]"
"""The suffix of a distribution's name if its parameters are on the host. Its methods wait only to check values that are
on the device."""
_TURNS_CHECKS_OFF = re.compile(r"\.set_default_validate_args\((?:value=)?False\)")
_SETS_CHECKS = re.compile(rb"\.set_default_validate_args\((?!(?:value=)?True\))")


def base_of(frame: Frame, owner: Instance) -> RuntimeObject | None:
    """Return the torch distribution that is the base of an object's class, if the object's parameters derive from the
    step's inputs.

    The methods' checks count as turned off if the class, or any call that makes such an object, names `validate_args`.
    """
    bases = (base.rpartition(".")[2] for base in frame.project.mro(owner.ref) if base.startswith(DISTRIBUTIONS))
    name = next((base for base in bases if frame.ops.python(f"{DISTRIBUTIONS}{base}") is not None), None)
    if name is None or not owner.step:
        return None
    files = frame.project.files

    def read() -> tuple[bytes, ...]:
        texts = (files.data(path) or b"" for path in files.names)
        return tuple(text for text in texts if b"validate_args" in text)

    own = re.escape(owner.ref.rpartition("::")[2].rpartition(".")[2]).encode()
    made = re.compile(rb"\b%s\((?:[^()]|\([^()]*\)){0,1000}?(?:validate_args|\*\*)" % own)
    lines = (line for base, facts in frame.project.own_classes(owner.ref) for line in _lines_of(frame, base, facts))
    is_told = any(made.search(text) for text in files.table("files that name the checks", read))
    is_told = is_told or any("validate_args" in line for line in lines)
    return RuntimeObject("library", f"{DISTRIBUTIONS}{name}{UNCHECKED if is_told or checks_are_off(frame) else ''}")


def _lines_of(frame: Frame, ref: str, cls: ClassFacts) -> Iterator[str]:
    """Yield the lines of the body of a class of the project."""
    methods = filter(None, map(frame.project.function_facts, frame.project.own_methods(ref)))
    source = frame.project.files.source(ref.partition("::")[0])
    for first, last in (*((one.line, one.end_line) for one in methods), *cls.fields.values()):
        yield from source.lines_of(first, last)


def checks_are_off(frame: Frame) -> bool:
    """Return whether the checks of distributions are turned off. This is so in two cases: the file itself turns the
    checks off, or other code calls `set_default_validate_args` with anything but a literal True. The other code is a
    module of the same package, or a script in a folder above."""
    files = frame.project.files

    def read() -> frozenset[str]:
        setting = (path for path in files.names if _SETS_CHECKS.search(files.data(path) or b""))
        return frozenset(_scope(path, *files.names[path]) for path in setting)

    if files.search(frame.path, _TURNS_CHECKS_OFF):
        return True
    scopes = files.table("folders whose checks are set", read)
    return bool(scopes) and any(str(folder) in scopes for folder in PurePath(frame.path).parents)


def _scope(path: str, module: str, is_package: bool) -> str:
    """Return the folder of a module's topmost package, or the folder of a script."""
    return str(PurePath(path).parents[max(module.count(".") + is_package, 1) - 1])
