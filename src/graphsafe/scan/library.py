"""Names that the project does not define: builtins, torch, numpy and the rest, by their dotted path."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphsafe.scan import summaries, tensors
from graphsafe.scan.checks import side_stream
from graphsafe.scan.values import (
    ARRAY,
    BOOL,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STR,
    UNKNOWN,
    UNSET,
    Array,
    ClassValue,
    DeviceValue,
    Dict,
    Dtype,
    DtypeValue,
    Function,
    Handle,
    Instance,
    Lib,
    NoneValue,
    Number,
    Sequence,
    Tensor,
    Unknown,
    Value,
    as_tensor,
    confidence_of,
    depends_on_step,
    describe,
    holds_device,
    join,
    join_all,
    number,
    of_elements,
    options,
    sequence,
)

if TYPE_CHECKING:
    from graphsafe.scan.engine import Arguments, Engine
    from graphsafe.scan.frame import Frame

Handler = Callable[["Engine", "Frame", ast.Call, "Arguments"], Value]

_DTYPES: dict[str, Dtype] = {
    "bool": "bool",
    **dict.fromkeys(
        ("uint8", "int8", "int16", "int32", "int64", "short", "int", "long", "uint16", "uint32", "uint64"), "int"
    ),
    **dict.fromkeys(
        (
            "float16",
            "float32",
            "float64",
            "bfloat16",
            "half",
            "float",
            "double",
            "float8_e4m3fn",
            "float8_e5m2",
            "float8_e4m3fnuz",
        ),
        "float",
    ),
}
_NUMPY = ("numpy", "np", "scipy", "cupy")
_LOGGING = {
    "debug": None,
    "info": "possible",
    "warning": "likely",
    "warn": "likely",
    "error": "likely",
    "critical": "likely",
    "exception": "likely",
    "log": "possible",
}
"Confidence that a call formats its arguments: below the default level logging drops them unread."


def constant(name: str) -> Value:
    """What a library's name is worth before it is called."""
    if name.startswith("torch."):
        last = name[6:]
        if last in _DTYPES:
            return DtypeValue(_DTYPES[last])
        if last in ("inf", "nan", "pi", "e"):
            return FLOAT
        if last in ("__version__", "version.cuda", "version.hip"):
            return STR
    elif name in ("math.inf", "math.pi", "math.nan", "math.e", "numpy.inf", "numpy.nan", "sys.maxsize"):
        return FLOAT
    elif name in ("typing.TYPE_CHECKING", "builtins.TYPE_CHECKING"):
        return number(False)
    elif name == "os.environ":
        return Handle("environment")
    elif name == "builtins.__debug__":
        return BOOL
    elif name == "builtins.NotImplemented":
        return UNKNOWN
    return Lib(name)


def call(engine: Engine, frame: Frame, node: ast.Call, name: str, arguments: Arguments) -> Value:
    """`name(…)` for a dotted library name."""
    handler = _FUNCTIONS.get(name)
    if handler is not None:
        return handler(engine, frame, node, arguments)
    summary = engine.libraries.find(name)
    if summary is not None:
        return summaries.call(engine, frame, node, name, summary, arguments)
    if name.startswith("torch."):
        return _torch(engine, frame, node, name, arguments)
    op = engine.ops.python(name)
    if op is not None:
        return tensors.by_table(engine, frame, node, op, name, None, arguments)
    head = name.partition(".")[0]
    if head in _NUMPY:
        return _numpy(engine, frame, node, name, arguments)
    if head == "math":
        return _cast(engine, frame, node, arguments)
    if head == "logging" or name.endswith("getLogger"):
        if name.endswith("getLogger"):
            return Handle("logger")
        return log(engine, frame, node, name.rpartition(".")[2], arguments)
    if head == "pickle" and name.endswith(("dumps", "dump")):
        return _serialised(engine, frame, node, arguments)
    if name.rpartition(".")[2] == "init_logger":
        return Handle("logger")
    if name.endswith((".lru_cache", ".cache")):
        return UNKNOWN
    return engine.after_unknown(arguments)


# torch


def _torch(engine: Engine, frame: Frame, node: ast.Call, name: str, arguments: Arguments) -> Value:
    op = engine.ops.python(name)
    if op is None and name.startswith("torch.functional."):
        op = engine.ops.python("torch." + name.rpartition(".")[2])
    if op is not None:
        return tensors.by_table(engine, frame, node, op, name, None, arguments)
    if name.startswith("torch.ops."):
        function = engine.custom_ops.function(name)
        if function is not None:
            return engine.call(frame, node, Function(function), arguments)
    last = name.rpartition(".")[2]
    if name.startswith("torch.Tensor."):
        receiver, certain = as_tensor(arguments.positional[0]) if arguments.positional else (None, False)
        if receiver is not None and certain:
            return tensors.method(
                engine, frame, node, receiver, last, replace(arguments, positional=arguments.positional[1:])
            )
        return engine.after_unknown(arguments)
    if name.startswith("torch.nn.") and last[:1].isupper():
        return Handle("module", name)
    if name.startswith(("torch.cuda.", "torch.")) and last.endswith("Tensor") and last[:1].isupper():
        return _typed_tensor(engine, frame, node, name, arguments)
    if name.startswith("torch.optim.") and last[:1].isupper():
        return Handle("optimizer", "capturable" if tensors.is_true(arguments.keywords.get("capturable")) else last)
    if (
        name.startswith(("torch.nn.functional.", "torch.ops.", "torch.special.", "torch.fft.", "torch._C."))
        or name.count(".") == 1
    ):
        involved = [tensor for value in arguments.values() for tensor in tensors._tensors_in(value)]
        if involved and not name.startswith(("torch.ops.", "torch._C.")):
            from graphsafe.scan.operators import elementwise

            return replace(elementwise(tuple(involved), None), ndim=None)
    return engine.after_unknown(arguments)


def _typed_tensor(engine: Engine, frame: Frame, node: ast.Call, name: str, arguments: Arguments) -> Value:
    """`torch.cuda.FloatTensor([1, 2])`: a host list goes to the device; a size makes an empty tensor."""
    on_device = ".cuda." in name
    data = arguments.get(0, "data")
    if (
        on_device
        and data is not None
        and type(data) in (Sequence, Array)
        and as_tensor(getattr(data, "elem", UNKNOWN))[0] is None
    ):
        engine.emit(frame, "Transfer", "literal", node, value="Python values")
    dtype: Dtype | None = (
        "bool" if "Bool" in name else "int" if any(k in name for k in ("Long", "Int", "Byte", "Short")) else "float"
    )
    return Tensor(where="device" if on_device else "host", dtype=dtype, literal=not on_device, fresh=True)


def call_module(name: str, arguments: Arguments) -> Value:
    """A torch.nn module called: tensors of the device in, tensors of the device out."""
    step = any(map(depends_on_step, arguments.values()))
    first, _ = as_tensor(arguments.positional[0]) if arguments.positional else (None, False)
    last = name.rpartition(".")[2]
    out = Tensor(
        dtype="float", step=step, fresh=True, ndim=first.ndim if first is not None and last != "Embedding" else None
    )
    if last in ("LSTM",):
        return sequence("tuple", (out, sequence("tuple", (out, out))))
    if last in ("GRU", "RNN", "MultiheadAttention", "LSTMCell"):
        return sequence("tuple", (out, out))
    if last in ("Identity", "Dropout") and first is not None:
        return first
    if last == "Module":
        return Unknown(step, True)
    return out


def _device(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.get(0, "type")
    return tensors.device_named(value) or DeviceValue("any")


def _stream(kind: str) -> Handler:
    def handler(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
        return Handle(kind)

    return handler


def _known_stream(detail: str) -> Handler:
    def handler(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
        return Handle("stream", detail)

    return handler


def _capturing(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    return Number(type="bool", soft="capturing")


def _generator(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    target = tensors.device_named(arguments.get(0, "device"))
    return Handle("generator", "host" if target is None or target.where == "host" else "device")


def _same(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    return arguments.positional[0] if arguments.positional else UNKNOWN


def _parameter(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.get(0, "data")
    tensor, _ = as_tensor(value) if value is not None else (None, False)
    if tensor is not None:
        return replace(tensor, where="device", literal=False, fresh=False, pinned=False)
    return Tensor(dtype="float")


def _module_list(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.get(0, "modules")
    if value is None:
        return Sequence("tuple", (), UNKNOWN)
    for option in options(value):
        if type(option) is Sequence:
            return replace(option, kind="tuple")
    return of_elements("tuple", UNKNOWN)


def _module_dict(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.get(0, "modules")
    return value if type(value) is Dict else Dict((), UNKNOWN)


def _sequential(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    return Sequence("tuple", None if arguments.open else tuple(arguments.positional), join_all(arguments.positional))


def _from_numpy(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    return Tensor(where="host")


def _compile(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    function = arguments.get(0, "model")
    mode = arguments.keywords.get("mode")
    if type(mode) is Number and mode.const in ("reduce-overhead", "max-autotune"):
        root_of(engine, function, f"torch.compile(mode={mode.const!r})")
    return function if function is not None else UNKNOWN


def _graphed(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    function = arguments.get(0, "callables")
    root_of(engine, function, "torch.cuda.make_graphed_callables")
    return function if function is not None else UNKNOWN


def root_of(engine: Engine, value: Value | None, why: str) -> None:
    """Make what is called when `value` is called a hot root."""
    for option in options(value) if value is not None else ():
        if type(option) is Sequence:
            for item in option.items or (option.elem,):
                root_of(engine, item, why)
        elif type(option) is Function and option.node is None:
            engine.add_root(option.ref, option.bound, why)
        elif type(option) is Instance:
            for name in ("forward", "__call__"):
                method = engine.project.find_method(option.ref, name)
                if method is not None:
                    engine.add_root(method, option, why)
                    break


def _capture(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    return Handle("capture")


def _checkpoint(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    return _apply_first(engine, frame, node, arguments)


def _apply_first(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    from graphsafe.scan.calls import call_value

    if not arguments.positional:
        return engine.after_unknown(arguments)
    return call_value(
        engine, frame, node, arguments.positional[0], replace(arguments, positional=arguments.positional[1:])
    )


def _cond(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    from graphsafe.scan.calls import call_value
    from graphsafe.scan.expressions import element

    op = engine.ops.python("torch.cond")
    if op is not None:
        tensors.by_table(engine, frame, node, op, "torch.cond", None, arguments)
    operands = arguments.get(3, "operands")
    values = (
        operands.items
        if type(operands) is Sequence and operands.items is not None
        else (element(engine, operands),)
        if operands is not None
        else ()
    )
    branches = [arguments.get(1, "true_fn"), arguments.get(2, "false_fn")]
    results = [
        call_value(engine, frame, node, branch, replace(arguments, positional=tuple(values), keywords={}))
        for branch in branches
        if branch is not None
    ]
    return join_all(results)


def _copy_tensor(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.positional[0] if arguments.positional else UNKNOWN
    return replace(value, fresh=True, attr=None) if type(value) is Tensor else value


def _available(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    return number(True)


# numpy, logging, text


def _numpy(engine: Engine, frame: Frame, node: ast.Call, name: str, arguments: Arguments) -> Value:
    for value in arguments.values():
        for tensor in tensors._tensors_in(value):
            if tensor.where != "host":
                engine.emit(frame, "Transfer", "to-host", node, confidence_of(tensor, True), value=describe(tensor))
    return ARRAY


def _serialised(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    _numpy(engine, frame, node, "", arguments)
    return STR


def format_values(engine: Engine, frame: Frame, node: ast.AST, values: Iterable[Value], doubt: str = "likely") -> None:
    for value in values:
        for tensor in tensors._tensors_in(value):
            if tensor.where != "host":
                confidence = confidence_of(tensor, as_tensor(value)[1] or type(value) is Sequence)
                engine.emit(
                    frame,
                    "HostRead",
                    "format",
                    node,
                    "possible" if doubt == "possible" else confidence,
                    value=describe(tensor),
                )


def log(engine: Engine, frame: Frame, node: ast.Call, level: str, arguments: Arguments) -> Value:
    doubt = _LOGGING.get(level, "possible")
    if doubt is not None:
        format_values(engine, frame, node, arguments.values(), doubt)
    return NONE


def _print(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    format_values(engine, frame, node, arguments.positional)
    return NONE


def _text(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    format_values(engine, frame, node, arguments.positional)
    value = arguments.positional[0] if arguments.positional else STR
    return value if type(value) is Number and value.type == "str" else STR


# builtins


def _cast(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    for value in arguments.positional:
        tensor, certain = as_tensor(value)
        if tensor is not None:
            if tensor.where != "host":
                engine.emit(frame, "HostRead", "cast", node, confidence_of(tensor, certain), value=describe(value))
            return NUMBER
    if arguments.positional and type(arguments.positional[0]) is Number:
        return _cast_number(arguments.positional[0], node)
    return NUMBER


def _cast_number(value: Number, node: ast.Call) -> Number:
    casts: dict[str, Any] = {"int": int, "float": float, "bool": bool}
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in casts:
        if value.const is not UNSET:
            try:
                return replace(value, const=casts[name](value.const), type=name)  # type: ignore[arg-type]
            except (TypeError, ValueError, OverflowError):
                pass
        return Number(soft=value.soft, state=value.state, type=name)  # type: ignore[arg-type]
    return Number(state=value.state)


def _len(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.positional[0] if arguments.positional else UNKNOWN
    if type(value) is Sequence and value.items is not None and value.kind == "tuple":
        return number(len(value.items))
    return INT


def _branching(how: str) -> Handler:
    def handler(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
        return ordered(
            engine, frame, node, arguments.positional[0] if len(arguments.positional) == 1 else arguments, how
        )

    return handler


def ordered(engine: Engine, frame: Frame, node: ast.Call, values: Value | Arguments, how: str) -> Value:
    """max, min, any, all, sorted: the host asks each value how it compares, or whether it is true."""
    from graphsafe.scan.expressions import element
    from graphsafe.scan.state import use_number

    if isinstance(values, Lib | Function | Handle):
        return UNKNOWN
    if hasattr(values, "positional"):
        item = join_all(values.positional)
        for value in values.positional:
            use_number(engine, frame, value, "operand", node)
        several = True
    else:
        item = element(engine, values)
        several = type(values) is not Sequence or values.items is None or len(values.items) > 1 or how in ("any", "all")
    tensor, certain = as_tensor(item)
    if tensor is not None and tensor.where != "host" and several:
        engine.emit(frame, "Branch", how, node, confidence_of(tensor, certain), value=describe(item))
    if how in ("any", "all"):
        return BOOL
    if how == "sorted":
        return of_elements("list", item)
    if tensor is None and type(item) is Number:
        return replace(item, const=UNSET)
    return item


def _sum(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    from graphsafe.scan.expressions import element

    item = element(engine, arguments.positional[0]) if arguments.positional else UNKNOWN
    tensor, _ = as_tensor(item)
    return (
        replace(tensor, fresh=True, attr=None, name=None)
        if tensor is not None
        else replace(item, const=UNSET)
        if type(item) is Number
        else item
    )


def _abs(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.positional[0] if arguments.positional else UNKNOWN
    tensor, _ = as_tensor(value)
    return (
        replace(tensor, fresh=True, attr=None)
        if tensor is not None
        else replace(value, const=UNSET)
        if type(value) is Number
        else value
    )


def _range(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    for value in arguments.positional:
        tensor, certain = as_tensor(value)
        if tensor is not None and tensor.where != "host":
            engine.emit(frame, "Extent", "range", node, confidence_of(tensor, certain), value=describe(value))
    return of_elements("iterator", INT)


def _enumerate(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    from graphsafe.scan.expressions import element

    value = arguments.positional[0] if arguments.positional else UNKNOWN
    if type(value) is Sequence and value.items is not None:
        return sequence("iterator", [sequence("tuple", (number(i), item)) for i, item in enumerate(value.items)])
    return of_elements("iterator", sequence("tuple", (INT, element(engine, value))))


def _zip(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    from graphsafe.scan.expressions import element

    if arguments.open:
        return of_elements("iterator", of_elements("tuple", join_all(element(engine, v) for v in arguments.positional)))
    return of_elements("iterator", sequence("tuple", [element(engine, value) for value in arguments.positional]))


def _listed(kind: str) -> Handler:
    def handler(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
        from graphsafe.scan.expressions import element

        if not arguments.positional:
            return sequence(kind, ())  # type: ignore[arg-type]
        value = arguments.positional[0]
        if type(value) is Sequence:
            return replace(value, kind=kind)  # type: ignore[arg-type]
        return of_elements(kind, element(engine, value))  # type: ignore[arg-type]

    return handler


def _dict(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    base = arguments.positional[0] if arguments.positional else None
    items = dict(base.items) if type(base) is Dict else {}
    items.update(arguments.keywords)
    elem = join_all(items.values()) if items else base.elem if type(base) is Dict else UNKNOWN
    return Dict(tuple(items.items())[:64], elem)


def _isinstance(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    from graphsafe.scan.guards import is_instance

    if len(node.args) == 2 and arguments.positional:
        known = is_instance(arguments.positional[0], node.args[1])
        if known is not None:
            return number(known)
    return BOOL


def _is_tensor(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.positional[0] if arguments.positional else UNKNOWN
    if type(value) is Tensor and value.sure:
        return number(True)
    if type(value) in (Number, Sequence, Dict, NoneValue):
        return number(False)
    return BOOL


def _getattr(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    from graphsafe.scan import members
    from graphsafe.scan.index import dotted

    if len(arguments.positional) < 2:
        return UNKNOWN
    owner, name = arguments.positional[:2]
    if type(name) is not Number or not isinstance(name.const, str):
        return Unknown(depends_on_step(owner), holds_device(owner))
    base = dotted(node.args[0])
    text = f"{base}.{name.const}" if base else None
    found = (
        join_all(members.attribute(engine, frame, node, option, name.const, text) for option in options(owner))
        if options(owner)
        else UNKNOWN
    )
    if len(arguments.positional) > 2:
        default = arguments.positional[2]
        return (
            default
            if type(found) is Unknown and type(default) is Number and default.const is False
            else join(found, default)
        )
    return found


def _setattr(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    if len(arguments.positional) == 3:
        owner, name, value = arguments.positional
        if type(owner) is Instance and type(name) is Number and isinstance(name.const, str) and not frame.hot:
            engine.attributes.record(owner.ref, name.const, value)
    return NONE


def _map(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    from graphsafe.scan.calls import call_value
    from graphsafe.scan.expressions import element

    if len(arguments.positional) < 2:
        return UNKNOWN
    function, *iterables = arguments.positional
    items = tuple(element(engine, value) for value in iterables)
    if type(function) is Lib and function.name in ("builtins.int", "builtins.float", "builtins.bool"):
        return of_elements("iterator", _cast(engine, frame, node, replace(arguments, positional=items, keywords={})))
    return of_elements(
        "iterator", call_value(engine, frame, node, function, replace(arguments, positional=items, keywords={}))
    )


def _filter(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    from graphsafe.scan.expressions import element

    if len(arguments.positional) < 2:
        return UNKNOWN
    item = element(engine, arguments.positional[1])
    if type(arguments.positional[0]) is NoneValue:
        ordered(engine, frame, node, arguments.positional[1], "filter")
    return of_elements("iterator", item)


def _next(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    from graphsafe.scan.expressions import element

    item = element(engine, arguments.positional[0]) if arguments.positional else UNKNOWN
    return join(item, arguments.positional[1]) if len(arguments.positional) > 1 else item


def _type(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.positional[0] if arguments.positional else UNKNOWN
    return ClassValue(value.ref) if type(value) is Instance else UNKNOWN


def _partial(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    if not arguments.positional:
        return UNKNOWN
    made: list[Value] = []
    for option in options(arguments.positional[0]):
        if type(option) is Function:
            keywords = tuple((*option.partial_keywords, *arguments.keywords.items()))
            made.append(
                replace(option, partial=(*option.partial, *arguments.positional[1:]), partial_keywords=keywords)
            )
        else:
            made.append(option)
    return join_all(made) if made else UNKNOWN


def _environment(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    default = arguments.get(1, "default")
    if type(default) is Number:
        return replace(default, soft="environment", state=None)
    return Number(soft="environment") if default is not None else join(NONE, Number(soft="environment"))


def _reduce(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    from graphsafe.scan.expressions import element

    return element(engine, arguments.positional[1]) if len(arguments.positional) > 1 else UNKNOWN


# handles

_TABLE_NAMES = {"stream": "torch.cuda.Stream", "event": "torch.cuda.Event", "generator": "torch.Generator"}


def handle_method(
    engine: Engine, frame: Frame, node: ast.Call, handle: Handle, name: str, arguments: Arguments
) -> Value:
    if handle.kind == "logger":
        return log(engine, frame, node, name, arguments)
    if handle.kind == "environment":
        return _environment(engine, frame, node, arguments)
    if handle.kind == "library":
        return summaries.method(engine, frame, node, handle, name, arguments)
    if handle.kind == "module":
        return _module_method(handle, name, arguments)
    prefix = _TABLE_NAMES.get(handle.kind)
    op = engine.ops.python(f"{prefix}.{name}") if prefix is not None else None
    if op is not None:
        return tensors.by_table(engine, frame, node, op, name, None, arguments)
    if handle.kind == "event" and name == "record":
        return NONE
    if handle.kind == "stream" and name == "wait_stream":
        side_stream.waited(engine, frame, node, handle, arguments.values())
        return NONE
    if handle.kind == "stream" and name == "record_event":
        return Handle("event")
    if handle.kind == "optimizer" and name == "step":
        if handle.detail not in ("capturable", "SGD"):
            engine.emit(frame, "AttrWrite", "optimizer", node, value=f"`{handle.detail}`", level=None)
        return NONE
    return engine.after_unknown(arguments)


def _module_method(handle: Handle, name: str, arguments: Arguments) -> Value:
    if name in ("to", "cuda", "cpu", "eval", "train", "half", "float", "bfloat16", "requires_grad_"):
        return handle
    if name in ("forward", "__call__"):
        return call_module(handle.detail or "", arguments)
    if name in ("parameters", "buffers"):
        return of_elements("iterator", Tensor(dtype="float"))
    return Unknown(any(map(depends_on_step, arguments.values())), True)


_FUNCTIONS: dict[str, Handler] = {
    "torch.device": _device,
    "torch.cuda.device": _stream("device-context"),
    "torch.cuda.stream": _stream("stream-context"),
    "torch.cuda.Stream": _known_stream("side"),
    "torch.Stream": _known_stream("side"),
    "torch.cuda.streams.Stream": _known_stream("side"),
    "torch.cuda.current_stream": _known_stream("current"),
    "torch.cuda.default_stream": _known_stream("default"),
    "torch.cuda.ExternalStream": _stream("stream"),
    "torch.cuda.is_current_stream_capturing": _capturing,
    "torch.cuda.graphs.is_current_stream_capturing": _capturing,
    "torch.cuda.Event": _stream("event"),
    "torch.Event": _stream("event"),
    "torch.cuda.CUDAGraph": _stream("graph"),
    "torch.cuda.graph": _capture,
    "torch.cuda.graphs.graph": _capture,
    "torch.Generator": _generator,
    "torch.nn.Parameter": _parameter,
    "torch.nn.parameter.Parameter": _parameter,
    "torch.nn.Buffer": _parameter,
    "torch.nn.ModuleList": _module_list,
    "torch.nn.ParameterList": _module_list,
    "torch.nn.ModuleDict": _module_dict,
    "torch.nn.Sequential": _sequential,
    "torch.from_numpy": _from_numpy,
    "torch.compile": _compile,
    "torch.cuda.make_graphed_callables": _graphed,
    "torch.jit.script": _same,
    "torch.compiler.disable": _same,
    "torch._dynamo.disable": _same,
    "torch.no_grad": _stream("grad-mode"),
    "torch.inference_mode": _stream("grad-mode"),
    "torch.utils.checkpoint.checkpoint": _checkpoint,
    "torch.cond": _cond,
    "torch.cuda.is_available": _available,
    "torch.is_tensor": _is_tensor,
    "torch.is_floating_point": _len,
    "torch.get_default_dtype": lambda engine, frame, node, arguments: DtypeValue("float"),
    "copy.deepcopy": _copy_tensor,
    "copy.copy": _copy_tensor,
    "functools.partial": _partial,
    "functools.reduce": _reduce,
    "os.environ.get": _environment,
    "os.getenv": _environment,
    "operator.index": _cast,
    "itertools.chain": _listed("iterator"),
    "builtins.int": _cast,
    "builtins.float": _cast,
    "builtins.bool": _cast,
    "builtins.complex": _cast,
    "builtins.print": _print,
    "builtins.str": _text,
    "builtins.repr": _text,
    "builtins.format": _text,
    "builtins.len": _len,
    "builtins.max": _branching("max"),
    "builtins.min": _branching("min"),
    "builtins.any": _branching("any"),
    "builtins.all": _branching("all"),
    "builtins.sorted": _branching("sorted"),
    "builtins.sum": _sum,
    "builtins.abs": _abs,
    "builtins.range": _range,
    "builtins.enumerate": _enumerate,
    "builtins.zip": _zip,
    "builtins.list": _listed("list"),
    "builtins.tuple": _listed("tuple"),
    "builtins.set": _listed("set"),
    "builtins.reversed": _listed("iterator"),
    "builtins.iter": _listed("iterator"),
    "builtins.dict": _dict,
    "builtins.isinstance": _isinstance,
    "builtins.hasattr": lambda engine, frame, node, arguments: BOOL,
    "builtins.getattr": _getattr,
    "builtins.setattr": _setattr,
    "builtins.map": _map,
    "builtins.filter": _filter,
    "builtins.next": _next,
    "builtins.type": _type,
    "builtins.id": lambda engine, frame, node, arguments: INT,
    "builtins.round": _abs,
}
