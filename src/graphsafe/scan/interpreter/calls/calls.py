"""Calls: which function a call means, with which arguments, and what comes back."""

from __future__ import annotations

import ast
from collections.abc import Sequence as Seq
from typing import TYPE_CHECKING

from graphsafe.scan.domain.arguments import Arguments, unknown_result
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.held import kept
from graphsafe.scan.domain.joins import element_of, join, join_all
from graphsafe.scan.domain.record import HOOK
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
from graphsafe.scan.interpreter import grown_by_calls, members, state_writes
from graphsafe.scan.interpreter.calls import chosen_by_type, constructors
from graphsafe.scan.models import (
    containers,
    library,
    named_tuples,
    platforms,
    runtime_objects,
    tensors,
    torch_functions,
)
from graphsafe.scan.sources.node_memo import source_text
from graphsafe.scan.symbols.index import dotted
from graphsafe.scan.symbols.overrides import is_abstract

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine

_PLAIN_BASES = frozenset(("ABC", "abc.ABC", "object", "typing.Generic", "typing.Protocol"))
HOOK_METHODS = frozenset(
    (
        "register_hook register_forward_hook register_forward_pre_hook register_full_backward_hook "
        "register_full_backward_pre_hook register_post_accumulate_grad_hook"
    ).split()
)
"Of torch's modules and tensors: what they are given runs in every step."
MAX_OVERRIDES = 6
"Implementations of one call that are followed with its arguments; further ones become roots."


def call(engine: Engine, frame: Frame, node: ast.Call) -> Value:
    function = node.func
    if isinstance(function, ast.Name) and function.id == "super":
        return RuntimeObject("super")
    name: str = getattr(function, "attr", "") or getattr(function, "id", "")
    if name.startswith(("is_", "_is_")):
        answer = platforms.answered(name, bool(node.args or node.keywords))
        if answer is not None:
            return answer
    if isinstance(function, ast.Attribute):
        receiver = engine.evaluate(frame, function.value)
        arguments = evaluated(engine, frame, node)
        if name in HOOK_METHODS:
            torch_functions.handed_over(engine, arguments.get(0, "hook"), HOOK)
        receivers = _able(engine, frame, options(receiver), function.attr, node.keywords)
        if name in ("get", "pop"):
            receivers = members.having_field(engine, frame, receivers, arguments.get(0, "key"))
        found = [_method(engine, frame, node, function, option, arguments) for option in receivers]
        return _one_of(found) if found else UNKNOWN
    value = engine.evaluate(frame, function)
    return call_value(engine, frame, node, value, evaluated(engine, frame, node))


def _able(engine: Engine, frame: Frame, receivers: Seq[Value], name: str, keywords: Seq[ast.keyword]) -> Seq[Value]:
    """Of several receivers those that have such a method with such parameters: for the others the code would raise."""
    if len(receivers) < 2:
        return receivers
    able = [
        option
        for option in receivers
        if type(option) is not Instance
        or _takes(engine, engine.project.find_method(option.ref, name), keywords)
        or engine.attributes.of_instance(option.ref, name, frame.level) is not None
        or any("::" not in base and base not in _PLAIN_BASES for base in engine.project.mro(option.ref))
    ]
    return able or receivers


def _takes(engine: Engine, method: str | None, keywords: Seq[ast.keyword]) -> bool:
    node = engine.project.function_node(method) if method is not None else None
    if node is None or node.args.kwarg is not None:
        return method is not None
    names = {parameter.arg for parameter in (*node.args.args, *node.args.kwonlyargs)}
    return all(keyword.arg is None or keyword.arg in names for keyword in keywords)


def evaluated(engine: Engine, frame: Frame, node: ast.Call) -> Arguments:
    positional: list[Value] = []
    keywords: dict[str, Value] = {}
    is_open = False
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            value = engine.evaluate(frame, argument.value)
            if type(value) is Sequence and value.items is not None:
                positional.extend(value.items)
            else:
                is_open = True
                positional.append(element_of(value))
        else:
            positional.append(engine.evaluate(frame, argument))
    for keyword in node.keywords:
        value = engine.evaluate(frame, keyword.value)
        if keyword.arg is not None:
            keywords[keyword.arg] = value
        elif type(value) is Dict:
            keywords.update((str(key), item) for key, item in value.items)
            is_open = is_open or type(value.elem) is Unknown
        else:
            is_open = True
    return Arguments(tuple(positional), keywords, is_open)


def call_value(engine: Engine, frame: Frame, node: ast.Call, value: Value, arguments: Arguments) -> Value:
    meant: Seq[Value] = options(value)
    if len(meant) > 1:
        meant = [option for option in meant if _fits(engine, option, arguments)] or meant
    found = []
    for option in meant:
        # Of several modules of a library the others may stand there.
        doubtful = len(meant) > 1 and type(option) is RuntimeObject
        frame.unlikely += doubtful
        found.append(_call_one(engine, frame, node, option, arguments))
        frame.unlikely -= doubtful
    if len(found) > 1 and all(type(made) is Instance for made in found):
        # Whatever class of a table it is, its methods are followed.
        return Union(tuple(dict.fromkeys(found)))
    return join_all(found) if found else unknown_result(arguments)


def _fits(engine: Engine, value: Value, arguments: Arguments) -> bool:
    """Whether a function of the project can be called so: of several in a table the others would raise."""
    node = engine.project.function_node(value.ref) if type(value) is Function and value.node is None else None
    if node is None or arguments.open or value.partial or value.partial_keywords:  # type: ignore[union-attr]
        return True
    facts = engine.project.function_facts(value.ref)  # type: ignore[union-attr]
    names = [parameter.arg for parameter in (*node.args.posonlyargs, *node.args.args)]
    if facts is not None and facts.is_method:
        names = names[1:]
    required = set(names[: len(names) - len(node.args.defaults)])
    taken = {*names, *(parameter.arg for parameter in node.args.kwonlyargs)}
    given = {*names[: len(arguments.positional)], *arguments.keywords}
    if node.args.vararg is None and len(arguments.positional) > len(names):
        return False
    return required <= given and (node.args.kwarg is not None or given <= taken)


def _call_one(engine: Engine, frame: Frame, node: ast.Call, value: Value, arguments: Arguments) -> Value:
    if isinstance(value, Function):
        return _function(engine, frame, node, value, arguments)
    if isinstance(value, Lib):
        return library.call(engine, frame, node, value.name, arguments)
    if isinstance(value, ClassValue):
        return constructors.construct(engine, frame, node, value, arguments)
    if isinstance(value, Instance):
        return _call_instance(engine, frame, node, value, arguments)
    if isinstance(value, RuntimeObject) and value.kind == "module":
        return runtime_objects.call_module(engine, frame, node, value, arguments)
    if isinstance(value, RuntimeObject) and value.kind == named_tuples.KIND:
        return named_tuples.made(value, arguments)
    if isinstance(value, RuntimeObject) and value.kind == "library":
        return runtime_objects.method(engine, frame, node, value, "forward", arguments)
    if isinstance(value, RuntimeObject) and value.kind == "tensor-method":
        return unknown_result(arguments)
    if isinstance(value, Sequence) and arguments.positional:
        # nn.Sequential: each module is called with what the one before it returned.
        result: Value = arguments.positional[0]
        modules = value.items if value.items is not None else (value.elem,)
        for module in modules:
            result = call_value(engine, frame, node, module, replace(arguments, positional=(result,), keywords={}))
        return result
    _note_arguments(engine, frame, node, arguments)
    return unknown_result(arguments)


def _note_arguments(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> None:
    """State passed to an unknown call together with device tensors is taken to decide what the device does."""
    values = list(arguments.values())
    if frame.hot and any(as_tensor(value)[0] is not None for value in values):
        for value in values:
            engine.use_number(frame, value, "argument", node)


def _function(engine: Engine, frame: Frame, node: ast.Call, function: Function, arguments: Arguments) -> Value:
    if function.cached:
        return _cached(engine, frame, node, function, arguments)
    meant = chosen_by_type.functions(engine, function, arguments) or [function]
    return _one_of([engine.call(frame, node, one, arguments) for one in meant])


def _cached(engine: Engine, frame: Frame, node: ast.Call, function: Function, arguments: Arguments) -> Value:
    containers.cached_call(engine, frame, node, function, arguments)
    frame.guards.append("the cache around the function")
    value = engine.call(frame, node, function, arguments)
    frame.guards.pop()
    return kept(value)


def _call_instance(engine: Engine, frame: Frame, node: ast.Call, instance: Instance, arguments: Arguments) -> Value:
    for name in ("__call__", "forward"):
        method = engine.project.find_method(instance.ref, name)
        if method is not None:
            return engine.call(frame, node, Function(method, instance), arguments)
    chosen = engine.attributes.of_instance(instance.ref, "forward", frame.level)
    if chosen is not None and any(isinstance(option, Function) for option in options(chosen)):
        return call_value(engine, frame, node, chosen, arguments)
    if engine.attributes.is_module(instance.ref):
        return Tensor(where="any", step=any(map(depends_on_step, arguments.values())), certain=False, fresh=True)
    return unknown_result(arguments)


def call_method(engine: Engine, frame: Frame, node: ast.AST, instance: Instance, method: str) -> Value:
    return engine.call(frame, node, Function(method, instance), Arguments())


def _method(
    engine: Engine, frame: Frame, node: ast.Call, function: ast.Attribute, receiver: Value, arguments: Arguments
) -> Value:
    name = function.attr
    if isinstance(receiver, Tensor):
        return tensors.method(engine, frame, node, receiver, name, arguments)
    if isinstance(receiver, Instance):
        return _instance_method(engine, frame, node, function, receiver, arguments)
    if isinstance(receiver, Lib):
        return library.call(engine, frame, node, f"{receiver.name}.{name}", arguments)
    if isinstance(receiver, RuntimeObject):
        if receiver.kind == "super":
            return _super(engine, frame, node, name, arguments)
        return runtime_objects.method(engine, frame, node, receiver, name, arguments)
    if isinstance(receiver, (Sequence, Dict, Number)):
        return containers.method(engine, frame, node, receiver, name, arguments)
    if isinstance(receiver, Array):
        return NUMBER if name in ("item", "tolist", "sum", "max", "min", "mean", "any", "all") else ARRAY
    if isinstance(receiver, ClassValue):
        if name == "apply" and any(base.endswith("autograd.Function") for base in engine.project.mro(receiver.ref)):
            return _autograd(engine, frame, node, receiver, arguments)
        return call_value(
            engine, frame, node, members.attribute(engine, frame, function, receiver, name, None), arguments
        )
    if isinstance(receiver, ProjectModule):
        return call_value(
            engine, frame, node, members.attribute(engine, frame, function, receiver, name, None), arguments
        )
    if isinstance(receiver, Function):
        return unknown_result(arguments)
    return tensors.method_of_unknown(engine, frame, node, receiver, name, arguments)


def _instance_method(
    engine: Engine, frame: Frame, node: ast.Call, function: ast.Attribute, receiver: Instance, arguments: Arguments
) -> Value:
    name = function.attr
    if name in ("get", "pop"):
        asked = members.field(engine, frame, receiver, arguments.get(0, "key"))
        if asked is not None:
            held = members.of_instance(engine, frame, node, receiver, asked, source_text(node))
            return join(held, arguments.get(1, "default") or NONE)
    method = engine.project.find_method(receiver.ref, name)
    if method is not None:
        facts = engine.project.function_facts(method)
        decorators = facts.decorators if facts is not None else ()
        if any(decorator.rpartition(".")[2] in ("property", "cached_property") for decorator in decorators):
            value = members.of_instance(engine, frame, node, receiver, name, source_text(function))
            return call_value(engine, frame, node, value, arguments)
        if receiver.declared and frame.hot:
            overrides = [found for found in engine.overrides.of(receiver.ref, name) if not engine.is_cold(found[1])]
            if overrides:
                return _overridden(engine, frame, node, receiver, method, overrides, arguments)
        bound: Value = ClassValue(receiver.ref) if "classmethod" in decorators else receiver
        target = Function(method, bound)
        if any("cache" in decorator for decorator in decorators):
            return _cached(engine, frame, node, target, arguments)
        noted = len(engine.effects.items)
        value = _function(engine, frame, node, target, arguments)
        grown_by_calls.note(engine, frame, node, noted)
        return value
    if name in ("register_buffer", "register_parameter"):
        _register(engine, frame, node, receiver, name, arguments)
        return UNKNOWN
    found = engine.attributes.of_instance(receiver.ref, name, frame.level)
    if found is not None:
        return call_value(
            engine,
            frame,
            node,
            members.of_instance(engine, frame, node, receiver, name, source_text(function)),
            arguments,
        )
    if engine.attributes.is_module(receiver.ref):
        model = engine.libraries.find(f"torch.nn.Module.{name}")
        if model is not None and model.returns == "self":
            return receiver
        if name in ("parameters", "buffers"):
            return Sequence("iterator", None, Tensor(dtype="float" if name == "parameters" else None))
    return tensors.method_of_unknown(engine, frame, node, Unknown(receiver.step, receiver.step), name, arguments)


def _overridden(
    engine: Engine,
    frame: Frame,
    node: ast.Call,
    receiver: Instance,
    method: str,
    overrides: Seq[tuple[str, str]],
    arguments: Arguments,
) -> Value:
    """A method of a value known by its annotation: any subclass's method may be called."""
    body = engine.project.function_node(method)
    found: list[Value] = []
    if body is None or not is_abstract(body):
        found.append(engine.call(frame, node, Function(method, receiver), arguments))
    for subclass, override in overrides[:MAX_OVERRIDES]:
        found.append(engine.call(frame, node, Function(override, Instance(subclass, receiver.step)), arguments))
    for subclass, override in overrides[MAX_OVERRIDES:]:
        engine.call_later(frame, node, override, Instance(subclass))
    return _one_of(found)


def _one_of(found: Seq[Value]) -> Value:
    """What one of several methods returns: the device tensors among the results, if there are any."""
    if len(found) == 1:
        return found[0]
    on_device = [tensor for tensor, _ in map(as_tensor, found) if tensor is not None and tensor.where != "host"]
    return join_all(on_device or found)


def _register(
    engine: Engine, frame: Frame, node: ast.Call, receiver: Instance, method: str, arguments: Arguments
) -> None:
    name = arguments.get(0, "name")
    value = arguments.get(1, "tensor" if method == "register_buffer" else "param")
    if type(name) is not Number or not isinstance(name.const, str) or value is None:
        return
    if frame.hot:
        written = node.args[1] if len(node.args) > 1 else None
        holder = dotted(node.func.value) if isinstance(node.func, ast.Attribute) else None
        state_writes.write_attribute(engine, frame, receiver, name.const, holder or "self", value, node, written)
        return
    tensor, _ = as_tensor(value)
    if tensor is not None:
        # A registered tensor moves with its module, and the module is on the device when it steps.
        value = replace(tensor, where="device", literal=False, fresh=False, maybe_host=False)
    elif type(value) is Unknown:
        value = Tensor()
    engine.attributes.record(receiver.ref, name.const, value)


def _super(engine: Engine, frame: Frame, node: ast.Call, name: str, arguments: Arguments) -> Value:
    receiver = frame.self_value
    if frame.owner is None or not isinstance(receiver, (Instance, ClassValue)):
        return unknown_result(arguments)
    method = engine.project.find_method(receiver.ref, name, after=frame.owner)
    if method is None:
        if type(receiver) is Instance and name in ("register_buffer", "register_parameter"):
            _register(engine, frame, node, receiver, name, arguments)
        base = next((base for base in engine.project.mro(receiver.ref) if engine.ops.python(base)), None)
        if name == "__init__" and base is not None:
            # What the library's constructor does with these arguments.
            library.call(engine, frame, node, base, arguments)
        return unknown_result(arguments)
    return engine.call(frame, node, Function(method, receiver), arguments)


def _autograd(engine: Engine, frame: Frame, node: ast.Call, cls: ClassValue, arguments: Arguments) -> Value:
    method = engine.project.find_method(cls.ref, "forward")
    if method is None:
        return unknown_result(arguments)
    return engine.call(frame, node, Function(method), replace(arguments, positional=(UNKNOWN, *arguments.positional)))
