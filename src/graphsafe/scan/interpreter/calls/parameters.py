"""The values of parameters. A value comes from the call, from an annotation or default, or from the use in the body."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Set

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.frozen import dataclass, replace
from graphsafe.scan.domain.held import as_declared
from graphsafe.scan.domain.joins import join, join_all, sequence
from graphsafe.scan.domain.naming import MASK_NAME, bound_to, known_by, placed, placed_in_list
from graphsafe.scan.domain.values import (
    ARRAY,
    NONE,
    UNKNOWN,
    ClassValue,
    DeviceValue,
    Dict,
    Dtype,
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
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards.streams import side_stream
from graphsafe.scan.interpreter.annotations import annotated
from graphsafe.scan.interpreter.calls.contexts import context
from graphsafe.scan.interpreter.calls.fed_modules import feeds_tensor_module
from graphsafe.scan.interpreter.calls.parameter_usage import is_used_as_tensor, moves_parts, names_of_sizes
from graphsafe.scan.models import numpy_reads
from graphsafe.scan.models.functions.training_functions import trains
from graphsafe.scan.symbols.blocks import Definition, parameters
from graphsafe.scan.symbols.declared_fields import declared_in, declared_on_host
from graphsafe.scan.symbols.index import FunctionFacts, dotted, is_none
from graphsafe.scan.symbols.named_classes import class_named

ColdTest = Callable[[str, FunctionFacts], bool]


def bind(
    frame: Frame, node: Definition, facts: FunctionFacts | None, bound: Value | None, arguments: Arguments
) -> None:
    """Put the parameters into `frame.env`. A `frame.depth` of 0 marks a root, whose caller is not known."""
    spec = node.args
    declared = _positional(spec)
    given = list(arguments.positional)
    if facts is not None and facts.is_method and declared:
        _bind_receiver(frame, declared.pop(0)[0].arg, facts, bound, given)
    keywords = zip(spec.kwonlyargs, spec.kw_defaults, strict=True)
    for i, (parameter, default) in enumerate((*declared, *keywords)):
        is_given = i < min(len(given), len(declared))
        passed = given[i] if is_given else arguments.keywords.get(parameter.arg)
        further = arguments.further
        if passed is None and further != UNKNOWN and i < len(declared):
            passed = further if default is None and parameter.annotation is None else None
        frame.env[parameter.arg] = _Parameter(frame, node, parameter, default, passed, further is not None).value()
        if passed is None:
            side_stream.defaulted(frame, default)
    if spec.vararg is not None:
        rest = given[len(declared) :]
        known = bool(rest) and not arguments.further
        frame.env[spec.vararg.arg] = sequence("tuple", rest) if known else of_elements("tuple", _rest(frame))
    if spec.kwarg is not None:
        named = {parameter.arg for parameter in (*(one for one, _ in declared), *spec.kwonlyargs)}
        frame.env[spec.kwarg.arg] = _further_keywords(frame, arguments, named)


def _positional(spec: ast.arguments) -> list[tuple[ast.arg, ast.expr | None]]:
    """Return the positional parameters, each with its default."""
    names = [*spec.posonlyargs, *spec.args]
    return [*zip(names, [None] * (len(names) - len(spec.defaults)) + [*spec.defaults], strict=True)]


def _bind_receiver(frame: Frame, name: str, facts: FunctionFacts, bound: Value | None, given: list[Value]) -> None:
    """Bind `self` or `cls`. If the method is not bound, `given` contains the receiver, as in `Base.method(self, x)`."""
    passed = given.pop(0) if bound is None and given else None
    value: Value = bound or (passed if type(passed) is Instance else Instance(frame.owner or ""))
    if "classmethod" in facts.decorators and type(value) is Instance:
        value = ClassValue(value.ref)
    frame.env[name] = frame.self_value = value


def _further_keywords(frame: Frame, arguments: Arguments, named: Set[str]) -> Dict:
    """Return the value of `**kwargs`: the keywords that have no parameter."""
    items = tuple((name, value) for name, value in arguments.keywords.items() if name not in named)
    elem = join_all(value for _, value in items) if items else _rest(frame)
    if _is_hot_root(frame):
        names = sorted(declared_on_host(frame.project, frame.path))
        items = tuple((name, join(Tensor(where="host", step=True, name=name), NONE)) for name in names)
    return Dict(items, UNKNOWN if arguments.further else elem)


def _is_hot_root(frame: Frame) -> bool:
    return frame.hot and frame.depth == 0


def _rest(frame: Frame) -> Value:
    """Return the unknown value that stands for any further argument."""
    step = _is_hot_root(frame)
    return Unknown(step=step, device=step)


_WITH_TENSORS = re.compile(r"^(torch|typing|collections|jaxtyping|tensordict|numpy|np)|Tensor|Array|\bAny$")
"Matches names of types that may be tensors or contain tensors."


def result_declared_for(frame: Frame, name: str) -> Value:
    """Return the result of calling a parameter according to its annotation (`Callable[[int], Agent]`), or UNKNOWN."""
    for parameter in parameters(frame.node) if frame.node is not None else ():
        declared = parameter.annotation
        if parameter.arg == name and isinstance(declared, ast.Subscript) and isinstance(declared.slice, ast.Tuple):
            is_callable = (dotted(declared.value) or "").rpartition(".")[2] == "Callable"
            return annotated(frame.engine, frame.file, declared.slice.elts[-1]) if is_callable else UNKNOWN
    return UNKNOWN


def bind_lambda(frame: Frame, node: ast.Lambda, arguments: Arguments) -> None:
    spec = node.args
    for i, (parameter, default) in enumerate(_positional(spec)):
        passed = arguments.get(i, parameter.arg) or (arguments.further if default is None else None)
        if passed is None and _is_hot_root(frame):
            frame.env[parameter.arg] = _Parameter(
                frame, node, parameter, default, None, arguments.further is not None
            ).value()
        else:
            frame.env[parameter.arg] = bound_to(passed, parameter.arg) if passed is not None else UNKNOWN
    if spec.vararg is not None:
        frame.env[spec.vararg.arg] = of_elements("tuple", UNKNOWN)
    if spec.kwarg is not None:
        frame.env[spec.kwarg.arg] = Dict((), UNKNOWN)


@dataclass(frozen=True, slots=True)
class _Parameter:
    """One parameter of a call: its declaration and use in the function, and the argument that the call passes."""

    frame: Frame
    function: Definition | ast.Lambda
    node: ast.arg
    default: ast.expr | None
    passed: Value | None
    is_open: bool
    "Whether the call may pass arguments that its line does not show: `f(*args)`."

    def value(self) -> Value:
        """Return the passed value, or else the default, or else a value that the annotation or the use in the body
        shows."""
        frame, default = self.frame, self.default
        passed = self._passed_as_declared()
        if type(passed) is Dict and self._is_context():
            # An argument keeps only a few items of a tuple separate. The context of an autograd function may contain
            # longer tuples, so the context is built again.
            return context(frame.project, frame.owner or "")
        if passed is not None and type(passed) is not Unknown:
            return bound_to(passed, self.node.arg)
        if passed is None and default is not None and frame.depth > 0 and not self.is_open:
            return _default(frame, default, overridable_by=None)
        declared = self._declared()
        if type(declared) is Unknown:
            return self._undeclared(passed)
        if type(declared) is Number and default is not None and passed is None:
            value = _default(frame, default, overridable_by="default")
            return value if type(value) is Number else join(declared, value)
        if type(passed) is Unknown:
            declared = as_declared(declared, passed)
        return self._placed(declared, passed)

    def _declared(self) -> Value:
        annotation = self.node.annotation
        return UNKNOWN if annotation is None else annotated(self.frame.engine, self.frame.file, annotation)

    def _passed_as_declared(self) -> Value | None:
        """Return the passed value. If the value and the annotation conflict, the annotation corrects the value."""
        passed, annotation = self.passed, self.node.annotation
        if passed is None or annotation is None:
            return passed
        if type(passed) is Instance and not passed.declared:
            passed = _of_declared_class(self.frame, passed, annotation)
        if any(type(option) is Tensor and option.ndim is None for option in options(passed)):
            passed = _of_declared_number(self.frame, passed, annotation)
        if any(map(_is_mixed, options(passed))):
            passed = _of_declared_numbers(self.frame, passed, annotation)
        return passed

    def _undeclared(self, passed: Value | None) -> Value:
        """Return the value of a parameter whose annotation shows nothing. Evidence comes from the default, the use in
        the body, and the name."""
        frame = self.frame
        if self.default is not None and passed is None and not is_none(self.default):
            return _default(frame, self.default, overridable_by="default")
        if self._is_context():
            return context(frame.project, frame.owner or "")
        is_root = frame.depth == 0
        if is_root and self.node.arg in numpy_reads.names_turned(self.function) and self._is_of_environment():
            # The environment accepts tensors too, but gym's protocol defines actions as arrays.
            return ARRAY
        # If a call with device tensors returned the value and the body uses the value like a tensor, it is a tensor.
        from_step = is_root or (type(passed) is Unknown and passed.device)
        if self._is_tensor_by_use(from_step) and not self._is_of_library():
            return self._placed(Tensor(where="device" if is_root else "any", certain=from_step), passed)
        if passed is None or (type(passed) is Unknown and not (passed.device or passed.host or passed.state)):
            named = self._named()
            if named is not None:
                return Instance(named, step=_is_hot_root(frame), declared=True)
        if passed is None and self.node.arg in names_of_sizes(self.function):
            return Number(type="int")
        value = _rest(frame) if passed is None else passed
        is_batch = passed is None and self.node.arg == "batch" and trains(self.function)
        if is_batch and moves_parts(self.function, "batch"):
            # The function moves the batch itself, so the loader gives host tensors.
            value = Unknown(_is_hot_root(frame), loaded=True)
        return known_by(value, self.node.arg) if type(value) is Unknown else bound_to(value, self.node.arg)

    def _is_of_environment(self) -> bool:
        owner = self.frame.owner
        return owner is not None and any(base.endswith((".Env", "VectorEnv")) for base in self.frame.project.mro(owner))

    def _is_context(self) -> bool:
        """Return whether this parameter is the context, the first parameter of an autograd function's methods.

        If the class has a `setup_context`, its `forward` has no such parameter.
        """
        project, owner = self.frame.project, self.frame.owner if self.node in self.function.args.args[:1] else None
        if owner is None or isinstance(self.function, ast.Lambda) or not project.derives(owner, "autograd.Function"):
            return False
        return self.function.name != "forward" or project.find_method(owner, "setup_context") is None

    def _is_of_library(self) -> bool:
        """Return whether the annotation names a class of a library without tensors: `pymatgen.core.Structure`."""
        name = dotted(self.node.annotation) if self.node.annotation is not None else None
        named = self.frame.project.meaning(self.frame.file, name or "")
        return named is not None and named.kind == "lib" and _WITH_TENSORS.search(named.name) is None

    def _named(self) -> str | None:
        """Return the class that the parameter's name suggests."""
        frame = self.frame
        facts = frame.project.function_facts(frame.ref) if self.node.annotation is None else None
        return class_named(frame.project, frame.ref, facts, self.node.arg) if facts is not None else None

    def _is_tensor_by_use(self, from_step: bool) -> bool:
        """Return whether the body uses the parameter as a tensor. Also return True for a parameter of a root that has
        the name of a mask."""
        frame, name, is_root = self.frame, self.node.arg, self.frame.depth == 0
        if not frame.hot and not (is_root and not frame.engine.is_cold(frame.ref)):
            return False
        if is_root and MASK_NAME.search(name) is not None:
            return True
        if is_used_as_tensor(self.function, name, frame.ops, "step-input" if from_step else "parameter"):
            return True
        return from_step and feeds_tensor_module(frame, self.function, name)

    def _is_made_on_host(self) -> bool:
        """Return whether the default is a host tensor. If so, callers are assumed to pass host tensors too."""
        made = _default(self.frame, self.default, None) if isinstance(self.default, ast.Call) else UNKNOWN
        return type(made) is Tensor and made.where == "host" and made.ndim != 0

    def _placed(self, declared: Value, passed: Value | None) -> Value:
        """Return a declared value with its tensors placed on the host or on the device."""
        frame, name = self.frame, self.node.arg
        is_hot_root = _is_hot_root(frame)
        step = is_hot_root or (type(passed) is Unknown and passed.step)
        on_host = type(passed) is Unknown and (passed.host or passed.loaded)
        if frame.depth == 0 and holds_device(declared):
            # Callers are assumed to pass a field of the step's input to the parameter that has the field's name.
            on_host = name in declared_in(frame.project, frame.path).on_host
            on_host = on_host or name in numpy_reads.names_read(self.function) or self._is_made_on_host()
        place = placed_in_list if self.node.annotation is None else placed
        placed_value = place(declared, name, step, "host" if on_host else "device" if is_hot_root else "any")
        may_be_none = self.default is not None and passed is None and is_none(self.default)
        return join(placed_value, NONE) if may_be_none else placed_value


def _of_declared_class(frame: Frame, passed: Instance, annotation: ast.expr) -> Value:
    """Return the passed object. If its class is unrelated to the declared class, return an object of the declared
    class, because the real call must then run another function."""
    declared = annotated(frame.engine, frame.file, annotation)
    classes = [option for option in options(declared) if type(option) is Instance]
    mro = frame.project.mro
    if not classes or len(classes) < len(options(declared)):
        return passed
    if any(cls.ref in mro(passed.ref) or passed.ref in mro(cls.ref) for cls in classes):
        return passed
    return join_all(replace(cls, step=passed.step) for cls in classes)


def _of_declared_number(frame: Frame, passed: Value, annotation: ast.expr) -> Value:
    """Return a passed tensor as a 0-d tensor if the parameter is declared as an int, a float or a bool.

    If only another annotation shows that the value is a tensor, one of the two annotations is wrong, and the tensor is
    not certain.
    """
    declared = without_none(annotated(frame.engine, frame.file, annotation))
    if type(declared) is not Number or declared.type not in ("int", "float", "bool"):
        return passed
    return join_all(_as_number(option, declared.type) for option in options(passed))


def _as_number(passed: Value, declared: Dtype) -> Value:
    if type(passed) is not Tensor or passed.ndim is not None:
        return passed
    if declared == "int" and passed.dtype not in ("int", None):
        # A tensor of this dtype is not an int, so the real call must run another function.
        return passed
    sure = passed.certain and (passed.where != "any" or passed.fresh)
    return replace(passed, ndim=0, dtype=passed.dtype or declared, certain=sure)


def _is_mixed(value: Value) -> bool:
    return type(value) is Sequence and type(value.elem) is Union


def _of_declared_numbers(frame: Frame, passed: Value, annotation: ast.expr) -> Value:
    """Remove tensors from a passed list of numbers or tensors if the parameter is declared as a list of numbers."""
    declared = annotated(frame.engine, frame.file, annotation)
    if not any(type(option) is Sequence and type(option.elem) is Number for option in options(declared)):
        return passed
    return join_all(_numbers_of(option) if type(option) is Sequence else option for option in options(passed))


def _numbers_of(value: Sequence) -> Sequence:
    numbers = [option for option in options(value.elem) if type(option) is Number]
    return of_elements(value.kind, join_all(numbers)) if numbers else value


def _default(frame: Frame, node: ast.expr, overridable_by: str | None) -> Value:
    # Most defaults are constants, and a constant does not depend on the file.
    file, module = frame.file, f"{frame.path}::"
    outer = frame
    if type(node) is not ast.Constant:
        outer = Frame(frame.engine, file, module, {}, hot=False, depth=frame.depth + 1, level=frame.level)
    value = outer.evaluate(node)
    if type(value) is Number and overridable_by is not None:
        return replace(value, overridable_by=overridable_by)
    if type(value) is DeviceValue and overridable_by is not None:
        return DeviceValue("any", maybe_host=value.where == "host")
    return value
