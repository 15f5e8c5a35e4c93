"""What parameters are: by the call, by annotations and defaults, and last by their use in the body."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import join, join_all, sequence
from graphsafe.scan.domain.naming import MASK_NAME, bound_to, placed
from graphsafe.scan.domain.values import (
    NONE,
    UNKNOWN,
    ClassValue,
    Dict,
    Instance,
    Number,
    Sequence,
    Tensor,
    Union,
    Unknown,
    Value,
    holds_device,
    of_elements,
    options,
    without_none,
)
from graphsafe.scan.interpreter.annotations import annotated
from graphsafe.scan.interpreter.call_frame import Frame
from graphsafe.scan.interpreter.calls.parameter_usage import is_used_as_tensor
from graphsafe.scan.symbols.declared_fields import declared_in, declared_on_host
from graphsafe.scan.symbols.index import FunctionFacts, is_none

if TYPE_CHECKING:
    from graphsafe.scan.domain.arguments import Arguments
    from graphsafe.scan.interpreter.engine import Engine

ColdTest = Callable[[str, FunctionFacts], bool]


def bind(
    engine: Engine,
    frame: Frame,
    node: ast.FunctionDef | ast.AsyncFunctionDef,
    facts: FunctionFacts | None,
    bound: Value | None,
    arguments: Arguments,
) -> None:
    """Fill `frame.env` with the parameters. `frame.depth` 0 marks a root, whose caller is not known."""
    spec = node.args
    positional = [*spec.posonlyargs, *spec.args]
    given = list(arguments.positional)
    decorators = facts.decorators if facts is not None else ()
    if facts is not None and facts.is_method and positional:
        receiver = positional.pop(0)
        # `Base.method(self, x)` passes the receiver itself.
        passed_receiver = given.pop(0) if bound is None and given else None
        value: Value = bound or (passed_receiver if type(passed_receiver) is Instance else Instance(frame.owner or ""))
        if "classmethod" in decorators and type(value) is Instance:
            value = ClassValue(value.ref)
        frame.env[receiver.arg] = value
        frame.self_value = value
        defaults = spec.defaults[-len(positional) :] if positional else []
    else:
        defaults = spec.defaults
    unknown_caller = frame.depth == 0
    first_default = len(positional) - len(defaults)
    for i, parameter in enumerate(positional):
        passed = given[i] if i < len(given) else arguments.keywords.get(parameter.arg)
        default = defaults[i - first_default] if i >= first_default else None
        frame.env[parameter.arg] = _parameter(
            engine, frame, parameter, passed, default, unknown_caller, arguments, node
        )
    for parameter, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
        passed = arguments.keywords.get(parameter.arg)
        frame.env[parameter.arg] = _parameter(
            engine, frame, parameter, passed, default, unknown_caller, arguments, node
        )
    if spec.vararg is not None:
        rest = given[len(positional) :]
        if rest and not arguments.open:
            frame.env[spec.vararg.arg] = sequence("tuple", rest)
        else:
            frame.env[spec.vararg.arg] = of_elements("tuple", _rest(unknown_caller and frame.hot))
    if spec.kwarg is not None:
        known = {parameter.arg for parameter in (*positional, *spec.kwonlyargs)}
        items = tuple((k, v) for k, v in arguments.keywords.items() if k not in known)
        elem = join_all(v for _, v in items) if items else _rest(unknown_caller and frame.hot)
        if unknown_caller and frame.hot:
            names = sorted(declared_on_host(engine.project, frame.path))
            items = tuple((name, join(Tensor(where="host", step=True, name=name), NONE)) for name in names)
        frame.env[spec.kwarg.arg] = Dict(items, UNKNOWN if arguments.open else elem)


def bind_lambda(engine: Engine, frame: Frame, node: ast.Lambda, arguments: Arguments) -> None:
    spec = node.args
    given = list(arguments.positional)
    for i, parameter in enumerate((*spec.posonlyargs, *spec.args)):
        passed = given[i] if i < len(given) else arguments.keywords.get(parameter.arg)
        frame.env[parameter.arg] = bound_to(passed, parameter.arg) if passed is not None else UNKNOWN
    if spec.vararg is not None:
        frame.env[spec.vararg.arg] = of_elements("tuple", UNKNOWN)
    if spec.kwarg is not None:
        frame.env[spec.kwarg.arg] = Dict((), UNKNOWN)


def _rest(step: bool) -> Value:
    return Unknown(step=step, device=step)


def _parameter(
    engine: Engine,
    frame: Frame,
    parameter: ast.arg,
    passed: Value | None,
    default: ast.expr | None,
    unknown_caller: bool,
    arguments: Arguments,
    function: ast.AST,
) -> Value:
    name = parameter.arg
    if type(passed) is Instance and parameter.annotation is not None and not passed.declared:
        passed = _of_declared_class(engine, frame, passed, parameter.annotation)
    if type(passed) is Tensor and passed.ndim is None and parameter.annotation is not None:
        passed = _of_declared_number(engine, frame, passed, parameter.annotation)
    if parameter.annotation is not None and passed is not None and any(map(_is_mixed, options(passed))):
        passed = _of_declared_numbers(engine, frame, passed, parameter.annotation)
    if passed is not None and type(passed) is not Unknown:
        return bound_to(passed, name)
    if passed is None and not unknown_caller and default is not None and not arguments.open:
        return _default(engine, frame, default, overridable_by=None)
    step = (frame.hot and unknown_caller) or (type(passed) is Unknown and passed.step)
    declared: Value = UNKNOWN
    if parameter.annotation is not None:
        declared = annotated(engine, frame.file, parameter.annotation)
    if type(declared) is Unknown:
        if default is not None and passed is None and not is_none(default):
            return _default(engine, frame, default, overridable_by="default")
        # A result of a call with device tensors is a tensor, if the body uses it like one.
        from_step = unknown_caller or (type(passed) is Unknown and passed.device)
        if (frame.hot or (unknown_caller and not engine.is_cold(frame.ref))) and (
            is_used_as_tensor(function, name, engine.ops, "step-input" if from_step else "parameter")
            or (unknown_caller and MASK_NAME.search(name) is not None)
        ):
            declared = Tensor(where="device" if unknown_caller else "any", certain=from_step)
        elif type(passed) is Unknown:
            return passed
        else:
            device = frame.hot and unknown_caller
            return Unknown(step=step, device=device)
    elif type(declared) is Number and default is not None and passed is None:
        value = _default(engine, frame, default, overridable_by="default")
        return value if type(value) is Number else join(declared, value)
    on_host = type(passed) is Unknown and passed.host
    if unknown_caller and holds_device(declared):
        # Handed on under the name of a field of the step's input.
        on_host = name in declared_in(engine.project, frame.path).on_host
    declared = placed(declared, name, step, "host" if on_host else "device" if frame.hot and unknown_caller else "any")
    if default is not None and passed is None and is_none(default):
        declared = join(declared, NONE)
    return declared


def _of_declared_class(engine: Engine, frame: Frame, passed: Instance, annotation: ast.expr) -> Value:
    """What is passed, unless the parameter is declared to be of another class: then the call means another function."""
    declared = annotated(engine, frame.file, annotation)
    classes = [option for option in options(declared) if type(option) is Instance]
    mro = engine.project.mro
    if not classes or len(classes) < len(options(declared)):
        return passed
    if any(cls.ref in mro(passed.ref) or passed.ref in mro(cls.ref) for cls in classes):
        return passed
    return join_all(replace(cls, step=passed.step) for cls in classes)


def _of_declared_number(engine: Engine, frame: Frame, passed: Tensor, annotation: ast.expr) -> Tensor:
    """A tensor that is handed in for an int or a float is used like one: it has one element and no dimensions.

    Where an annotation alone says that it is a tensor, one of the two is wrong.
    """
    declared = without_none(annotated(engine, frame.file, annotation))
    if type(declared) is not Number or declared.type not in ("int", "float"):
        return passed
    if declared.type == "int" and passed.dtype not in ("int", None):
        # Of several functions that a call may mean it is another one.
        return passed
    sure = passed.certain and (passed.where != "any" or passed.fresh)
    return replace(passed, ndim=0, dtype=passed.dtype or declared.type, certain=sure)


def _is_mixed(value: Value) -> bool:
    return type(value) is Sequence and type(value.elem) is Union


def _of_declared_numbers(engine: Engine, frame: Frame, passed: Value, annotation: ast.expr) -> Value:
    """A list of what may be numbers or tensors, for a parameter that is declared to be one of numbers."""
    declared = annotated(engine, frame.file, annotation)
    if not any(type(option) is Sequence and type(option.elem) is Number for option in options(declared)):
        return passed
    return join_all(_numbers_of(option) if type(option) is Sequence else option for option in options(passed))


def _numbers_of(value: Sequence) -> Sequence:
    numbers = [option for option in options(value.elem) if type(option) is Number]
    return of_elements(value.kind, join_all(numbers)) if numbers else value


def _default(engine: Engine, frame: Frame, node: ast.expr, overridable_by: str | None) -> Value:
    # Most are constants, which mean the same wherever they stand.
    outer = (
        frame
        if type(node) is ast.Constant
        else Frame(frame.file, f"{frame.path}::", {}, hot=False, depth=frame.depth + 1, level=frame.level)
    )
    value = engine.evaluate(outer, node)
    if type(value) is Number and overridable_by is not None:
        return replace(value, overridable_by=overridable_by)
    return value
