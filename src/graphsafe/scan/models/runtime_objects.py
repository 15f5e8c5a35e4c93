"""Objects of PyTorch and of libraries that have their own methods: streams, events, torch modules, optimizers."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping

from graphsafe.optable import Argument, Call
from graphsafe.scan.domain.arguments import Arguments, unknown_result
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.held import RATES, moments
from graphsafe.scan.domain.joins import element_of, join
from graphsafe.scan.domain.values import (
    NONE,
    Function,
    Number,
    RuntimeObject,
    Sequence,
    Unknown,
    Value,
    depends_on_step,
    holds_device,
    of_elements,
    options,
)
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards.streams import side_stream
from graphsafe.scan.models import formatting, library_models, module_methods, named_calls, operations
from graphsafe.scan.models.op_arguments import device_named
from graphsafe.scan.state import writes

_CLASS_OF_KIND: Mapping[str, str] = {
    "stream": "torch.cuda.Stream",
    "event": "torch.cuda.Event",
    "generator": "torch.Generator",
    "random": "random.Random",
    "numpy-random": "numpy.random.Generator",
}
"Kind of object -> the class under which the op table and libraries.yaml list its methods."

_CHOOSES_STREAM = re.compile(r"cuda\.(set_)?stream\(")


def method(frame: Frame, node: ast.Call, handle: RuntimeObject, name: str, arguments: Arguments) -> Value:
    handler = _METHODS.get(handle.kind)
    if handler is not None:
        return handler(frame, node, handle, name, arguments)
    if handle.kind == "stream" and name == "wait_stream":
        side_stream.waited(frame, node, handle, arguments.values())
    full = f"{_CLASS_OF_KIND.get(handle.kind, handle.kind)}.{name}"
    named_calls.note(frame, node, full)
    op = frame.ops.python(full)
    if op is not None:
        made = operations.by_table(frame, node, op, name, None, arguments)
        return handle if op.result.kind == "self" else made
    model = frame.engine.libraries.find(full)
    if model is not None:
        return library_models.call(frame, node, full, model, arguments)
    return unknown_result(arguments)


def _optimizer(frame: Frame, node: ast.Call, handle: RuntimeObject, name: str, arguments: Arguments) -> Value:
    kind, *switches = (handle.detail or "").split()
    if name == "load_state_dict" and kind != "SGD":  # SGD keeps no tensors unless it has a momentum
        writes.write_moments(frame, kind, node)
    if name != "step":
        return unknown_result(arguments)
    for key in (moments(kind), RATES):
        frame.engine.note_read(frame, key)
    own = f"torch.optim.{kind}.step"
    _step(frame, node, own if frame.ops.python(own) else "torch.optim.Optimizer.step", kind, switches)
    return NONE


def _plateau(frame: Frame, node: ast.Call, handle: RuntimeObject, name: str, arguments: Arguments) -> Value:
    metrics = arguments.get(0, "metrics")
    if name == "step" and metrics is not None:
        frame.emit_if_on_device("HostRead", "cast", node, metrics)  # the scheduler compares numbers
    return unknown_result(arguments)


def _scaler(frame: Frame, node: ast.Call, handle: RuntimeObject, name: str, arguments: Arguments) -> Value:
    if name != "step":
        return unknown_result(arguments)
    optimizer = arguments.get(0, "optimizer")
    switches: list[str] = []
    if type(optimizer) is RuntimeObject and optimizer.kind == "optimizer":
        _optimizer(frame, node, optimizer, name, arguments)
        switches = (optimizer.detail or "").split()[1:]
    _step(frame, node, "torch.amp.GradScaler.step", "GradScaler.step", switches)
    return NONE


def _step(frame: Frame, node: ast.Call, entry: str, text: str, switches: list[str]) -> None:
    """Emit the effects of an optimizer's step. The entry in the op table depends on the optimizer's options."""
    op = frame.ops.python(entry)
    call = Call(keywords=dict.fromkeys(switches, Argument("bool", True)))
    for hit in op.effects_of(call) if op is not None else ():
        event = operations.EVENT_OF_EFFECT[hit.effect.kind]
        frame.emit(event, hit.effect.how, node, value=f"`{text}`")


def _threads(frame: Frame, node: ast.Call, handle: RuntimeObject, name: str, arguments: Arguments) -> Value:
    """Return the result of `submit` or `map` of a thread pool. A thread works on the default stream unless it chooses
    another stream. A wait in such a thread does not count as a wait of the step."""
    if name not in ("submit", "map") or not arguments.positional:
        return unknown_result(arguments)
    function, *given = arguments.positional
    given = given if name == "submit" else [*map(element_of, given)]
    value = _in_thread(frame, node, function, Arguments(tuple(given), arguments.keywords))
    made = Unknown(depends_on_step(value), holds_device(value))
    return of_elements("iterator", made) if name == "map" else made


def thread(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Return the result of `threading.Thread(target=…, args=…)`. If a step makes a thread, the step also starts it."""
    target, args = arguments.get(1, "target"), arguments.get(3, "args")
    if frame.hot and target is not None and any(type(option) is Function for option in options(target)):
        listed = args.items if type(args) is Sequence else ()
        given = listed if listed is not None or args is None else (element_of(args),)
        _in_thread(frame, node, target, Arguments(given or ()))
    return unknown_result(arguments)


def _in_thread(frame: Frame, node: ast.Call, function: Value, passed: Arguments) -> Value:
    value = frame.engine.quietly(lambda: frame.call_value(node, function, passed))
    functions = [option for option in options(function) if type(option) is Function]
    bodies = [one.node if one.node is not None else frame.project.function_node(one.ref) for one in functions]
    chooses = any(body is not None and _CHOOSES_STREAM.search(ast.unparse(body)) for body in bodies)
    around = [held for one in functions for held in _held_around(one)]
    if not chooses and any(map(holds_device, (value, *passed.values(), *around))):
        frame.emit("StreamOp", "foreign-stream", node)
    return value


def _held_around(function: Function) -> Iterator[Value]:
    """Yield the values of the outer function's variables that a nested function uses."""
    body, closure = function.node, function.closure
    if closure is not None and isinstance(body, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        own = {one.arg for one in ast.walk(body.args) if isinstance(one, ast.arg)}
        used = {one.id for one in ast.walk(body) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}
        yield from (closure[name] for name in sorted(used - own) if name in closure)


def set_stream(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    stream = arguments.get(0, "stream")
    if type(stream) is RuntimeObject and stream.kind == "stream":
        side_stream.waited(frame, node, stream, ())
    return NONE


def _module(frame: Frame, node: ast.Call, handle: RuntimeObject, name: str, arguments: Arguments) -> Value:
    full = f"{handle.detail}.{'forward' if name == '__call__' else name}"
    model = frame.engine.libraries.find(full)
    if model is not None:
        return handle if model.returns == "self" else library_models.call(frame, node, full, model, arguments)
    made = module_methods.of_module(frame, node, handle, name, arguments)
    return made if made is not None else Unknown(any(map(depends_on_step, arguments.values())), True)


Method = Callable[["Frame", ast.Call, RuntimeObject, str, "Arguments"], Value]
_METHODS: Mapping[str, Method] = {
    "logger": lambda frame, node, handle, name, arguments: formatting.log(frame, node, name, arguments),
    "environment": lambda frame, node, handle, name, arguments: environment(frame, node, arguments),
    "library": library_models.method,
    "module": _module,
    "optimizer": _optimizer,
    "threads": _threads,
    "plateau": _plateau,
    "scaler": _scaler,
}
"Kind of object -> the handler of its methods. The op table and libraries.yaml do not describe these kinds completely."


def generator(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    target = device_named(arguments.get(0, "device"))
    return RuntimeObject("generator", "host" if target is None or target.where == "host" else "device")


def environment(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    default = arguments.get(1, "default")
    if type(default) is Number:
        return replace(default, overridable_by="environment", state=())
    value = Number(overridable_by="environment")
    return join(NONE, value) if default is None else value
