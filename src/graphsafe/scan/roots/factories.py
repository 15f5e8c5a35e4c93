"""Factories of targets: functions that assemble objects and return a step with its arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator

from graphsafe.config import Config
from graphsafe.scan.domain.arguments import Arguments, Call
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.record import RETURNED, TARGET
from graphsafe.scan.domain.values import (
    DeviceValue,
    Dict,
    Function,
    Instance,
    Passed,
    Sequence,
    Tensor,
    Unknown,
    Value,
    options,
)
from graphsafe.scan.execution.frame import Engine
from graphsafe.scan.interpreter.calls.training_closures import trains
from graphsafe.scan.symbols.blocks import parameters
from graphsafe.scan.symbols.index import FileIndex
from graphsafe.scan.symbols.project import Project, ref_of

_FACTORY = re.compile(rb"^def build\w*\(\s*device\b", re.M)
"Matches the signature of functions that count as factories without a configuration."

ARGUMENT = "an argument"
"A name for the state in a dict, if a factory returns the dict as an argument of its step."


def may_make_step(data: bytes) -> bool:
    """Return whether a file may contain the factory of a step."""
    return b"def build" in data and _FACTORY.search(data) is not None


def configured_factories(project: Project, config: Config) -> Iterator[tuple[str, str]]:
    """Yield the factory of each configured target, with the reason why its result is a root."""
    known = set(project.files.names)
    for target in config.targets.values():
        where, _, factory = target.factory.rpartition(":")
        path = str((config.root / where).resolve()) if where.endswith(".py") else ""
        file = project.files.index(path) if path in known else project.module(where, str(config.root))
        if file is None:
            continue
        ref = f"{file.path}::{factory}"
        if project.function_facts(ref) is None:
            ref = ref_of(project.resolve(file, factory), "function") or ref  # the factory may come from another file
        if project.function_facts(ref) is not None:
            yield ref, f"{TARGET}{target.name}"


def factories_of(project: Project, file: FileIndex) -> Iterator[tuple[str, str]]:
    """Yield a file's functions with the signature `build…(device)`, with the reason why their result is a root."""
    if not may_make_step(project.files.data(file.path) or b""):
        return
    for facts in file.functions.values():
        if facts.owner is None and facts.name.startswith("build"):
            ref = f"{file.path}::{facts.name}"
            node = project.function_node(ref)
            if node is not None and node.args.args and node.args.args[0].arg == "device":
                yield ref, f"{RETURNED}{facts.name}"


def closures_made(engine: Engine, ref: str) -> Iterator[Function]:
    """Yield the closures that a function returns. Training steps are left out, because they become roots when they are
    defined (training_closures.py)."""
    for made in options(engine.read(Call(ref, depth=1))):
        if type(made) is Function and made.node is not None and not trains(made.node):
            yield made


def steps_made(engine: Engine, ref: str, why: str) -> Iterator[tuple[Function, Passed]]:
    """Make roots of the steps that a factory returns. Yield the steps that are closures, with their arguments."""
    value = engine.read(assembling(engine, ref))
    for made in options(value):
        parts = made.items if type(made) is Sequence and made.kind == "tuple" else None
        if parts is None or len(parts) not in (2, 3):
            if why.startswith(TARGET):
                yield from _begun(engine, made, None, why)
            continue
        step, positional, *rest = parts
        keywords = rest[0] if rest else Dict((), Unknown())
        yield from _begun(engine, step, _passed(positional, keywords), why)


def assembling(engine: Engine, ref: str, loops: tuple[int, ...] = ()) -> Call:
    """Return the call with which the scan starts to read code that assembles objects on a device."""
    node = engine.project.function_node(ref)
    names = [one.arg for one in parameters(node)] if node is not None else []
    given: dict[str, Value] = {"device": DeviceValue("device")} if "device" in names else {}
    return Call(ref, arguments=Arguments(keywords=given), depth=1, loops=loops, composes=True)


def _passed(positional: Value, keywords: Value) -> Passed | None:
    """Return the arguments of the step as inputs of a replay, or None if the number of arguments is not known."""
    given = next(iter(options(positional)), None)
    if type(given) is not Sequence or given.items is None:
        return None
    named = keywords.items if type(keywords) is Dict else ()
    return Passed(tuple(map(_as_input, given.items)), tuple((str(name), _as_input(value)) for name, value in named))


def _as_input(value: Value) -> Value:
    """Mark an argument as an input of a step. The values of its tensors change from replay to replay, but their
    addresses do not."""
    if type(value) is Tensor:
        return replace(value, step=True, fresh=False, literal=False, name=None)
    if type(value) is Sequence:
        items = tuple(map(_as_input, value.items)) if value.items is not None else None
        return Sequence(value.kind, items, _as_input(value.elem), names=value.names)
    if type(value) is Dict:
        # The caller keeps the dict and passes it again in the next step.
        return Dict(tuple((key, _as_input(item)) for key, item in value.items), _as_input(value.elem), ARGUMENT)
    return replace(value, step=True, device=True) if type(value) is Unknown else value


def _begun(engine: Engine, step: Value, given: Passed | None, why: str) -> Iterator[tuple[Function, Passed]]:
    for option in options(step):
        if type(option) is Sequence:
            for item in option.items or (option.elem,):
                yield from _begun(engine, item, given if item is (option.items or (item,))[0] else None, why)
        elif type(option) is Function:
            if given is not None:
                keywords = {**dict(option.partial_keywords), **dict(given.keywords)}
                given = Passed((*option.partial, *given.positional), tuple(sorted(keywords.items())))
            if option.node is None:
                engine.add_root(option.ref, option.bound, why, given)
            elif given is not None:
                yield option, given
        elif type(option) is Instance:
            methods = (engine.project.find_method(option.ref, name) for name in ("__call__", "forward"))
            method = next((method for method in methods if method is not None), None)
            if method is not None:
                engine.add_root(method, option, why, given)
