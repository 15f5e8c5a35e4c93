"""Calls: the arguments, the functions that a call may run, and the value that it returns."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence as Seq

from graphsafe.scan.domain.arguments import Arguments, unknown_result
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.held import kept, weights
from graphsafe.scan.domain.joins import join, join_all
from graphsafe.scan.domain.naming import MODEL, last_name
from graphsafe.scan.domain.numbers import const_of
from graphsafe.scan.domain.values import (
    ARRAY,
    NONE,
    NUMBER,
    UNKNOWN,
    Array,
    ClassValue,
    Dict,
    Function,
    Instance,
    Lib,
    Number,
    ProjectModule,
    RuntimeObject,
    Sequence,
    Tensor,
    Union,
    Unknown,
    Value,
    as_tensor,
    depends_on_step,
    options,
)
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards import graph_attributes
from graphsafe.scan.hazards.graph_syntax import MEASURES
from graphsafe.scan.interpreter import displays, members
from graphsafe.scan.interpreter.calls import constructors, handed_to_loops, hooks
from graphsafe.scan.interpreter.calls.fitting import able, fits
from graphsafe.scan.interpreter.calls.parameters import result_declared_for
from graphsafe.scan.models import (
    captured_calls,
    containers,
    distributions,
    library,
    module_methods,
    named_calls,
    named_tuples,
    numpy_reads,
    packed_sequences,
    platforms,
    runtime_objects,
    tensors,
)
from graphsafe.scan.models.functions import handed_functions, torch_functions, training_functions
from graphsafe.scan.models.op_arguments import tensors_in
from graphsafe.scan.sources.node_memo import source_text
from graphsafe.scan.state import module_modes, own_changes, writes
from graphsafe.scan.symbols.index import dotted, name_made_by
from graphsafe.scan.symbols.overrides import is_abstract
from graphsafe.scan.symbols.sole_methods import classes_of

_MODEL = re.compile(rf"(^|[._])(?:{MODEL})$")
MAX_OVERRIDES = 6
"""The largest number of implementations of a called method that are followed with the call's arguments. Further
implementations become roots."""


def call(frame: Frame, node: ast.Call) -> Value:
    function = node.func
    name = last_name(function)
    if name.startswith(("is_", "_is_")):
        answer = platforms.answered(name, bool(node.args or node.keywords))
        if answer is not None:
            return answer
    if isinstance(function, ast.Attribute):
        if name == "numpy" and not isinstance(function.value, ast.Name):
            numpy_reads.learn(frame, node)
        receiver = frame.evaluate(function.value)
        arguments = evaluated(frame, node)
        if name in hooks.METHODS:
            hooks.registered(frame, name, arguments.get(0, "hook"))
        receivers = able(frame, options(receiver), function.attr, node.keywords)
        if name in ("get", "pop"):
            receivers = members.having_field(frame, receivers, arguments.get(0, "key"))
        graph_attributes.kept(frame, node, receiver, arguments)
        if frame.hot and arguments.keywords and type(receiver) is Instance and receiver.declared:
            # The object may be of a subclass, so the call may run the method of another class.
            named_calls.note_arguments(frame, function.attr, arguments)
        found = [_method(frame, node, function, option, arguments) for option in receivers]
        return _one_of(found) if found else UNKNOWN
    if name == "super":
        return RuntimeObject("super")
    value = frame.evaluate(function)
    result = call_value(frame, node, value, evaluated(frame, node))
    made = result_declared_for(frame, function.id) if type(value) is Unknown and type(function) is ast.Name else UNKNOWN
    return made if type(made) is Instance else result


def evaluated(frame: Frame, node: ast.Call) -> Arguments:
    positional, further = displays.evaluated(frame, node.args)
    keywords: dict[str, Value] = {}
    for keyword in node.keywords:
        value = frame.evaluate(keyword.value)
        if keyword.arg is not None:
            keywords[keyword.arg] = value
        elif type(value) is Dict:
            keywords.update((str(key), item) for key, item in value.items)
            further = UNKNOWN if type(value.elem) is Unknown else further
        else:
            further = UNKNOWN
    return Arguments(tuple(positional), keywords, further)


def call_value(frame: Frame, node: ast.Call, value: Value, arguments: Arguments) -> Value:
    meant: Seq[Value] = options(value)
    if len(meant) > 1:
        meant = [option for option in meant if fits(frame.engine, option, arguments)] or meant
    found = []
    for option in meant:
        # At run time, the called value is only one of the options, so a call of this library module is not certain.
        doubtful = len(meant) > 1 and type(option) is RuntimeObject
        frame.unlikely += doubtful
        found.append(_call_one(frame, node, option, arguments))
        frame.unlikely -= doubtful
    if len(found) > 1 and all(type(made) is Instance for made in found):
        # The classes are kept as separate options, so that calls of the methods of each class are followed.
        return Union(tuple(dict.fromkeys(found)))
    return join_all(found) if found else unknown_result(arguments)


def _call_one(frame: Frame, node: ast.Call, value: Value, arguments: Arguments) -> Value:
    if isinstance(value, Function):
        return _function(frame, node, value, arguments)
    if isinstance(value, Lib):
        if value.keywords:
            arguments = replace(arguments, keywords={**dict(value.keywords), **arguments.keywords})
        if value.bound is not None:
            return tensors.method(frame, node, value.bound, value.name.rpartition(".")[2], arguments)
        return library.call(frame, node, value.name, arguments)
    if isinstance(value, ClassValue):
        return constructors.construct(frame, node, value, arguments)
    if isinstance(value, Instance):
        return _call_instance(frame, node, value, arguments)
    if isinstance(value, RuntimeObject) and value.kind == "module":
        result = runtime_objects.method(frame, node, value, "forward", arguments)
        return captured_calls.of_module(frame, _beside_inputs(result, arguments), arguments)
    if isinstance(value, RuntimeObject) and value.kind == named_tuples.KIND:
        return named_tuples.made(value, arguments)
    if isinstance(value, RuntimeObject) and value.kind == "library":
        return runtime_objects.method(frame, node, value, "forward", arguments)
    if isinstance(value, Sequence) and arguments.positional:
        # `nn.Sequential` calls each module with the result of the module before.
        result = arguments.positional[0]
        modules = value.items if value.items is not None else (value.elem,)
        for module in modules:
            result = call_value(frame, node, module, replace(arguments, positional=(result,), keywords={}))
        return result
    _note_arguments(frame, node, arguments)
    handed_functions.read(frame, node, arguments)
    result = unknown_result(arguments)
    if _MODEL.search(dotted(node.func) or "") is not None:
        # The call runs a model, and the rest of the step works with the model's result.
        on_device = result.device or (frame.hot and captured_calls.may_hold_device(arguments))
        result = replace(result, step=True, device=True) if on_device else _beside_inputs(result, arguments)
    return captured_calls.of_unknown(frame, result, arguments)


def _beside_inputs(result: Value, arguments: Arguments) -> Value:
    """Return the result of a model whose code is not known. The result is on the host if all inputs of the model are on
    the host."""
    given = [value for value in arguments.values() if type(value) is Tensor]
    on_host = bool(given) and all(one.where == "host" and one.certain and not one.maybe_pinned for one in given)
    if on_host and type(result) is Tensor:
        return replace(result, where="host")
    return replace(result, host=True, device=False) if on_host and type(result) is Unknown else result


def _note_arguments(frame: Frame, node: ast.Call, arguments: Arguments) -> None:
    """Record host state that an unknown call receives together with device tensors. The state may affect the device's
    work."""
    values = list(arguments.values())
    if frame.hot and any(map(tensors_in, values)):
        for value in values:
            frame.use_number(value, "argument", node)


def _function(frame: Frame, node: ast.Call, function: Function, arguments: Arguments) -> Value:
    if function.cached:
        return _cached(frame, node, function, arguments)
    handed_to_loops.note(frame, function, arguments)
    if type(function.bound) is Instance and (frame.between or function.ref.endswith(".forward")):
        named_calls.note_known(frame, function.ref, arguments)
    return frame.call(node, function, arguments)


def _cached(frame: Frame, node: ast.Call, function: Function, arguments: Arguments) -> Value:
    containers.cached_call(frame, node, function, arguments)
    frame.guards.append("the cache around the function")
    value = frame.call(node, function, arguments)
    frame.guards.pop()
    return kept(value)


def _call_instance(frame: Frame, node: ast.Call, instance: Instance, arguments: Arguments) -> Value:
    if frame.hot and frame.attributes.is_module(instance.ref):
        for owner in (instance.ref, ""):
            frame.engine.note_read(frame, weights(owner))
        module_modes.note_training(frame, node, instance.ref)
    for name in ("__call__", "forward"):
        method = frame.project.find_method(instance.ref, name)
        if method is not None:
            named_calls.note_known(frame, method, arguments)
            return frame.call(node, Function(method, instance), arguments)
    chosen = frame.attributes.of_instance(instance, "forward", frame.level)
    if chosen is not None and any(isinstance(option, Function) for option in options(chosen)):
        return call_value(frame, node, chosen, arguments)
    if frame.attributes.is_module(instance.ref):
        made = Tensor(where="any", step=any(map(depends_on_step, arguments.values())), certain=False, fresh=True)
        return captured_calls.of_module(frame, made, arguments)
    return captured_calls.of_unknown(frame, unknown_result(arguments), arguments)


def _method(frame: Frame, node: ast.Call, function: ast.Attribute, receiver: Value, arguments: Arguments) -> Value:
    name = function.attr
    if name in module_modes.SWITCHES:
        module_modes.note_switch(frame, node, arguments)
    if isinstance(receiver, Tensor):
        return tensors.method(frame, node, receiver, name, arguments)
    if isinstance(receiver, Instance):
        return _instance_method(frame, node, function, receiver, arguments)
    if isinstance(receiver, Lib):
        return library.call(frame, node, f"{receiver.name}.{name}", arguments)
    if isinstance(receiver, RuntimeObject):
        if receiver.kind == "super":
            return _super(frame, node, name, arguments)
        return runtime_objects.method(frame, node, receiver, name, arguments)
    if packed_sequences.is_packed(receiver) and receiver.items:
        return packed_sequences.of(_method(frame, node, function, receiver.items[0], arguments))
    if isinstance(receiver, (Sequence, Dict, Number)):
        return containers.method(frame, node, receiver, name, arguments)
    if isinstance(receiver, Array):
        return NUMBER if name in ("item", "tolist", "sum", "max", "min", "mean", "any", "all") else ARRAY
    if isinstance(receiver, (ClassValue, ProjectModule, Function)):
        return call_value(frame, node, members.attribute(frame, function, receiver, name, None), arguments)
    found = _found_by_methods(frame, function, arguments) if frame.hot and type(receiver) is Unknown else None
    if found is not None:
        return _instance_method(frame, node, function, replace(found, step=depends_on_step(receiver)), arguments)
    return tensors.method_of_unknown(frame, node, receiver, name, arguments)


def _found_by_methods(frame: Frame, function: ast.Attribute, arguments: Arguments) -> Instance | None:
    """Return the object on which an unknown method is called, if the methods that the code calls on this object show
    its class.

    If subclasses define the method too, the class is certain enough only in a program that trains. Code that measures
    is left out, because it composes objects in other ways than the program does.
    """
    if frame.ops.method(function.attr) is not None or MEASURES.search(frame.file.module):
        return None
    owners = classes_of(frame.project, frame.node, function.value, function.attr)
    if not owners or (len(owners) > 1 and not frame.step_loops and not training_functions.is_for_training(frame)):
        return None
    # Whether the object outlives the step is not known, so no finding about its state follows from the class.
    found = Instance(owners[0], declared=len(owners) > 1, made=True)
    method = frame.project.find_method(owners[0], function.attr)
    return found if method is not None and fits(frame.engine, Function(method, found), arguments) else None


def _instance_method(
    frame: Frame, node: ast.Call, function: ast.Attribute, receiver: Instance, arguments: Arguments
) -> Value:
    name = function.attr
    asked = members.field(frame, receiver, arguments.get(0, "key")) if name in ("get", "pop") else None
    if asked is not None:
        held = members.of_instance(frame, node, receiver, asked, source_text(node))
        return join(held, arguments.get(1, "default") or NONE)
    method = frame.project.find_method(receiver.ref, name)
    if method is not None:
        return _defined_method(frame, node, function, receiver, method, arguments)
    if name in ("register_buffer", "register_parameter"):
        _register(frame, node, receiver, name, arguments)
        return UNKNOWN
    if frame.attributes.of_instance(receiver, name, frame.level) is not None:
        value = members.of_instance(frame, node, receiver, name, source_text(function))
        return call_value(frame, node, value, arguments)
    answered = members.by_getattr(frame, node, receiver, name)
    if answered is not None:
        return call_value(frame, node, answered, arguments)
    if frame.attributes.is_module(receiver.ref):
        made = module_methods.of_module(frame, node, receiver, name, arguments)
        if made is not None:
            return made
    distribution = distributions.base_of(frame, receiver)
    if distribution is not None:
        return runtime_objects.method(frame, node, distribution, name, arguments)
    return tensors.method_of_unknown(frame, node, Unknown(receiver.step, receiver.step), name, arguments)


def _defined_method(
    frame: Frame, node: ast.Call, function: ast.Attribute, receiver: Instance, method: str, arguments: Arguments
) -> Value:
    """Return the result of calling a method that the project defines."""
    decorators = frame.project.decorators(method)
    if any(decorator.rpartition(".")[2] in ("property", "cached_property") for decorator in decorators):
        value = members.of_instance(frame, node, receiver, function.attr, source_text(function))
        return call_value(frame, node, value, arguments)
    if receiver.declared and frame.hot:
        engine = frame.engine
        overrides = [o for o in engine.overrides.of(receiver.ref, function.attr) if not engine.is_cold(o[1])]
        if overrides:
            return _overridden(frame, node, receiver, method, overrides, arguments)
    target = Function(method, ClassValue(receiver.ref) if "classmethod" in decorators else receiver)
    if any("cache" in decorator for decorator in decorators):
        return _cached(frame, node, target, arguments)
    noted = len(frame.engine.effects.items)
    value = _function(frame, node, target, arguments)
    own_changes.note_growth(frame, node, noted)
    return value


def _overridden(
    frame: Frame, node: ast.Call, receiver: Instance, method: str, overrides: Seq[tuple[str, str]], arguments: Arguments
) -> Value:
    """Call a method of an object whose class is known only from an annotation. Such a call may run the method of any
    subclass."""
    body = frame.project.function_node(method)
    found: list[Value] = []
    if body is None or not is_abstract(body):
        found.append(frame.call(node, Function(method, receiver), arguments))
    for subclass, override in overrides[:MAX_OVERRIDES]:
        found.append(frame.call(node, Function(override, Instance(subclass, receiver.step)), arguments))
    for subclass, override in overrides[MAX_OVERRIDES:]:
        frame.call_later(node, override, Instance(subclass))
    return _one_of(found)


def _one_of(found: Seq[Value]) -> Value:
    """Return the join of several results. If some of them are device tensors, only these are joined."""
    if len(found) == 1:
        return found[0]
    on_device = [tensor for tensor, _ in map(as_tensor, found) if tensor is not None and tensor.where != "host"]
    return join_all(on_device or found)


def _register(frame: Frame, node: ast.Call, receiver: Instance, method: str, arguments: Arguments) -> None:
    name = arguments.get(0, "name")
    value = arguments.get(1, "tensor" if method == "register_buffer" else "param")
    if value is None or name is None:
        return
    asked = const_of(name)
    if not isinstance(asked, str) and not frame.hot and node.args:
        asked = name_made_by(node.args[0])
    if not isinstance(asked, str):
        return
    if frame.hot:
        written = node.args[1] if len(node.args) > 1 else None
        holder = dotted(node.func.value) if isinstance(node.func, ast.Attribute) else None
        writes.write_attribute(frame, receiver, asked, holder or "self", value, node, written)
        return
    tensor, _ = as_tensor(value)
    if tensor is not None:
        # A module registers only tensors. These tensors move with the module, and the module is on the device when it
        # runs a step.
        value = replace(tensor, where="device", literal=False, fresh=False, certain=True, maybe_host=False)
    elif type(value) is Unknown:
        value = Tensor()
    frame.attributes.record(receiver.ref, asked, value)


def _super(frame: Frame, node: ast.Call, name: str, arguments: Arguments) -> Value:
    receiver = frame.self_value
    if frame.owner is None or not isinstance(receiver, (Instance, ClassValue)):
        return unknown_result(arguments)
    method = frame.project.find_method(receiver.ref, name, after=frame.owner)
    if method is None:
        if type(receiver) is Instance and name in ("register_buffer", "register_parameter"):
            _register(frame, node, receiver, name, arguments)
        bases = frame.project.mro(receiver.ref)
        known = (base for base in bases if frame.ops.python(base) or base == torch_functions.SAVED_TENSORS_HOOKS)
        base = next(known, None)
        if name == "__init__" and base is not None:
            library.call(frame, node, base, arguments)  # the constructor of the base class may use these arguments
        elif type(receiver) is Instance and (distribution := distributions.base_of(frame, receiver)) is not None:
            return runtime_objects.method(frame, node, distribution, name, arguments)
        return unknown_result(arguments)
    return frame.call(node, Function(method, receiver), arguments)
