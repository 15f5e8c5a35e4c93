"""Calls of classes: the object that a call makes and, in a step, the effects of the constructor."""

from __future__ import annotations

import ast
import builtins

from graphsafe.scan.domain.arguments import Arguments, Call
from graphsafe.scan.domain.summary import MadeInStep
from graphsafe.scan.domain.values import (
    ClassValue,
    Instance,
    Number,
    Passed,
    RuntimeObject,
    Sequence,
    Tensor,
    Value,
    depends_on_step,
    options,
)
from graphsafe.scan.domain.widening import parts_of, widened
from graphsafe.scan.execution.frame import Engine, Frame
from graphsafe.scan.interpreter.calls import validators
from graphsafe.scan.interpreter.given_values import is_optimizer
from graphsafe.scan.models import distributions, library
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.symbols.blocks import Definition, kept_names, parameters
from graphsafe.scan.symbols.environment_variables import variable_made

MAX_COMPOSED = 4
"The largest nesting depth of objects for which constructor arguments are kept."
MAX_PARTS = 16
"The parts of an `nn.Sequential` are followed only if it has at most this many modules."
_RECORDS = ("NamedTuple", "TypedDict", "dict", "OrderedDict", "UserDict")


def construct(frame: Frame, node: ast.Call, cls: ClassValue, arguments: Arguments) -> Value:
    """Return the object that a call of a class of the project makes."""
    variable = variable_made(frame.project, cls, arguments)
    if variable is not None:
        return variable
    bases = frame.project.mro(cls.ref)
    if any(base.startswith("enum.") for base in bases):
        return Number()
    arguments = validators.validated(frame, node, cls.ref, arguments)
    # An object that the first step makes is kept for later steps.
    step = any(map(depends_on_step, arguments.values()))
    known = None if cls.declared else _known(frame, cls.ref, arguments)
    made = Instance(cls.ref, step, cls.declared, made=frame.hot and not frame.lazy, given=known)
    if any(base.rpartition(".")[2] in _RECORDS for base in bases):
        return made
    if made.made:
        for base in bases:
            if "::" in base:
                frame.engine.note(MadeInStep(base))
    if arguments.keywords and frame.attributes.has_plain_fields(cls.ref):
        frame.attributes.constructed(cls.ref, arguments.keywords)
    method = frame.project.find_method(cls.ref, "__init__")
    if method is not None:
        _note_passed(frame.engine, cls.ref, method, arguments)
        if frame.hot:
            _run(frame, node, method, made, arguments)
    elif frame.hot and not frame.lazy:
        method = frame.project.find_method(cls.ref, "__post_init__")
        if method is not None:
            _run(frame, node, method, made, Arguments())
        validators.check(frame, node, made)
        if distributions.base_of(frame, made) is not None:
            base = next(base for base in bases if base.startswith(distributions.DISTRIBUTIONS))
            library.call(frame, node, base, arguments)  # the class uses the constructor of its base
    return made


def _known(frame: Frame, ref: str, arguments: Arguments) -> Passed | None:
    """Return the constructor arguments to keep with an object, or None if the object shares its attributes with the
    other instances of its class."""
    if not frame.composes or arguments.further:
        return None
    passed = widened(arguments).passed
    return passed if _fits_in(passed, MAX_COMPOSED) and frame.engine.budget.has_room_for(ref, passed) else None


def _fits_in(passed: Passed, room: int) -> bool:
    """Return whether objects are nested at most `room` levels deep."""
    held = [*passed.positional, *(value for _, value in passed.keywords)]
    while held:
        value = held.pop()
        if not isinstance(value, Instance):
            held += parts_of(value)
        elif value.given is not None and not (room and _fits_in(value.given, room - 1)):
            return False
    return True


def _run(frame: Frame, node: ast.AST, method: str, made: Instance, arguments: Arguments) -> None:
    """Read the constructor of an object that a step makes. The constructor binds only attributes of the new object."""
    body = frame.project.function_node(method)
    if body is None or not _works(body) or not frame.engine.budget.holds(method):
        return
    frame.note_call(node, method)
    guarded = frame.guard is not None or bool(frame.unlikely)
    facts = frame.project.function_facts(method)
    # A constructor that captures runs once, before the steps.
    hot = facts is None or not facts.captures
    call = Call(method, Instance(made.ref, True), arguments, hot=hot, depth=1, level=frame.level)
    frame.engine.read(call, guarded)


def _note_passed(engine: Engine, ref: str, method: str, arguments: Arguments) -> None:
    """Record the tensors and objects that a constructor receives, under the attributes in which it stores them."""
    node = engine.project.function_node(method) if any(map(_is_object, arguments.values())) else None
    if node is None or arguments.further:
        return
    names = [parameter.arg for parameter in (*node.args.posonlyargs, *node.args.args)][1:]
    passed = {**dict(zip(names, arguments.positional, strict=False)), **arguments.keywords}
    kept = {attribute: passed[name] for attribute, name in kept_names(node).items() if name in passed}
    engine.attributes.passed(ref, {attribute: value for attribute, value in kept.items() if _is_object(value)})
    undeclared = {one.arg for one in parameters(node) if one.annotation is None}
    facts = engine.project.function_facts(method)
    captures = facts is not None and facts.captures
    shown = {
        name: value
        for name, value in passed.items()
        if name in undeclared or is_optimizer(value) or (captures and type(value) is Instance)
    }
    engine.attributes.given(ref, shown, captures)


def _is_object(value: Value) -> bool:
    """Return whether a value is a tensor, an object of the project, an optimizer, a number, or an `nn.Sequential` with
    objects of the project. If an attribute has such a value, it determines which code a step runs."""
    found = options(value)
    return bool(found) and all(
        type(one) in (Tensor, Instance, Number) or is_optimizer(one) or _is_sequential(one) for one in found
    )


def _is_sequential(value: Value) -> bool:
    """Return whether a value is an `nn.Sequential` or another sequence that holds only modules, with at least one
    module of the project."""
    parts = [option for item in (value.items or ()) for option in options(item)] if type(value) is Sequence else []
    others = [part for part in parts if type(part) is not Instance]
    modules = [part for part in others if type(part) is RuntimeObject and part.kind == "module"]
    return len(others) < len(parts) <= MAX_PARTS and len(modules) == len(others)


@memoize_on_node
def _works(constructor: Definition) -> bool:
    """Return whether a constructor calls anything except Python's builtins."""
    called = (call.func for call in inside(constructor, ast.Call))
    return any(not (isinstance(function, ast.Name) and hasattr(builtins, function.id)) for function in called)
