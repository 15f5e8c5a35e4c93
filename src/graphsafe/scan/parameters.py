"""What a function's parameters are: from the call, from annotations and defaults, last from their use in the body."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from graphsafe.scan.declared_fields import kept_on_host
from graphsafe.scan.index import FileIndex, FunctionFacts, dotted
from graphsafe.scan.kept import kept
from graphsafe.scan.values import (
    ARRAY,
    NONE,
    STR,
    UNKNOWN,
    ClassValue,
    DeviceValue,
    Dict,
    Dtype,
    DtypeValue,
    Handle,
    Instance,
    Number,
    Sequence,
    Tensor,
    Union,
    Unknown,
    Value,
    Where,
    depends_on_step,
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

ColdTest = Callable[[str, FunctionFacts], bool]

HOST_NAME = re.compile(r"(^|_)(cpu|host|np|numpy|pinned|pin|list)(_|$|s$)")
"Names by which engines keep the host's copy of a tensor apart from the device's."
SIDE_NAME = re.compile(r"(^|_)(cpu|host)(_|$)")
"Names that say so whatever else is known of the value; the other words may also mean a list."
GRID_NAME = re.compile(r"(^|_)(grid_?(thw|hw|sizes?)s?|image_sizes?|spatial_shapes?)$")
"Sizes of images, which engines keep on the host and transformers sends to the device."
SIZES_NAME = re.compile(r"(^|_)(image|img|target|tgt)_(sizes?|shapes?)$")
"Sizes that are on the device where something says so; of a root's parameter nothing does."
MASK_NAME = re.compile(r"(^|_)mask(s|_bool)?$")

TENSOR_USES = frozenset(
    (
        "shape size view reshape transpose permute unsqueeze squeeze contiguous numel ndim dim new_zeros "
        "new_empty new_ones new_full new_tensor masked_fill masked_fill_ expand flatten softmax log_softmax "
        "argmax cuda cpu detach is_cuda unbind chunk index_select gather scatter scatter_ copy_ fill_ zero_ "
        "add_ mul_ index_copy_ data_ptr nonzero masked_select topk cumsum bincount item tolist requires_grad "
        "t T half stride view_as expand_as type_as to"
    ).split()
)
"Attributes that, read from a parameter of hot code, make it a tensor: arrays share some, but are no step's inputs."

STEP_USES = TENSOR_USES | frozenset(
    (
        "max min sum mean float long int bool any all amax amin norm abs clamp pow sqrt exp repeat tile sort argsort"
        " std var"
    ).split()
)
"Attributes that make a tensor of an argument of a root, which is given tensors if anything."

_TENSOR_TYPES: dict[str, Dtype | None] = {
    "Tensor": None,
    "FloatTensor": "float",
    "HalfTensor": "float",
    "BFloat16Tensor": "float",
    "DoubleTensor": "float",
    "LongTensor": "int",
    "IntTensor": "int",
    "ShortTensor": "int",
    "ByteTensor": "int",
    "BoolTensor": "bool",
    "Parameter": "float",
}
_HANDLES = {
    "torch.cuda.Stream": "stream",
    "torch.Stream": "stream",
    "torch.cuda.Event": "event",
    "torch.Event": "event",
    "torch.Generator": "generator",
    "torch.cuda.CUDAGraph": "graph",
}


def where_of(name: str, otherwise: Where) -> Where:
    return "host" if HOST_NAME.search(name) else otherwise


def says_host(node: ast.AST) -> bool:
    """Whether the name of an expression says that the host keeps it: `batch.seq_lens_cpu[0]`, `table["lens_cpu"]`."""
    while isinstance(node, ast.Subscript):
        key = node.slice
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and HOST_NAME.search(key.value):
            return True
        node = node.value
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return HOST_NAME.search(name) is not None


def bound_to(value: Value, name: str) -> Value:
    """A value under its new name, which says where a tensor is of which nothing else does."""
    kind = type(value)
    if kind is Unknown:
        return known_by(value, name)  # type: ignore[arg-type]
    if (kind is Union or kind is Dict or kind is Sequence) and _told_by(name)[2]:
        return placed(value, name, depends_on_step(value), "host")
    if type(value) is not Tensor or value.name == name:
        return value
    where, doubtful, aside = _told_by(name)
    if value.where != "any":
        return replace(value, name=name, where="host" if aside else value.where)
    return replace(value, name=name, where=where, doubtful=value.doubtful or doubtful)


def known_by(value: Unknown, name: str) -> Unknown:
    """Something unknown by a name that may say that the host keeps it."""
    return Unknown(value.step, host=True) if _told_by(name)[2] else value


@lru_cache(maxsize=4096)
def _told_by(name: str) -> tuple[Where, bool, bool]:
    return where_of(name, "any"), GRID_NAME.search(name) is not None, SIDE_NAME.search(name) is not None


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
    if facts is not None and facts.owner is not None and "staticmethod" not in decorators and positional:
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
            names = sorted(kept_on_host(engine.project, frame.path))
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
    if parameter.annotation is not None and passed is not None and any(map(_is_mixed, options(passed))):
        passed = _of_declared_numbers(engine, frame, passed, parameter.annotation)
    if passed is not None and type(passed) is not Unknown:
        return bound_to(passed, name)
    if passed is None and not unknown_caller and default is not None and not arguments.open:
        return _default(engine, frame, default, soft=None)
    step = (frame.hot and unknown_caller) or (type(passed) is Unknown and passed.step)
    declared: Value = UNKNOWN
    if parameter.annotation is not None:
        declared = annotated(engine, frame.file, parameter.annotation)
    if type(declared) is Unknown:
        if default is not None and passed is None and not _is_none(default):
            return _default(engine, frame, default, soft="default")
        # What came out of a call with device tensors is one, if the body then treats it as one.
        from_step = unknown_caller or (type(passed) is Unknown and passed.device)
        if frame.hot and (
            _is_used_as(function, name, STEP_USES if from_step else TENSOR_USES)
            or (unknown_caller and MASK_NAME.search(name) is not None)
        ):
            declared = Tensor(where="device" if unknown_caller else "any", sure=from_step)
        elif type(passed) is Unknown:
            return passed
        else:
            device = frame.hot and unknown_caller
            return Unknown(step=step, device=device)
    elif type(declared) is Number and default is not None and passed is None:
        value = _default(engine, frame, default, soft="default")
        return value if type(value) is Number else join(declared, value)
    on_host = type(passed) is Unknown and passed.host
    declared = placed(declared, name, step, "host" if on_host else "device" if frame.hot and unknown_caller else "any")
    if default is not None and passed is None and _is_none(default):
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


def placed(value: Value, name: str, step: bool, where: Where) -> Value:
    """An annotation's value with the name, and the device that the name and the place suggest."""
    if type(value) is Tensor:
        dtype = value.dtype or ("bool" if MASK_NAME.search(name) and name != "attention_mask" else None)
        sizes = GRID_NAME.search(name) or (where == "device" and SIZES_NAME.search(name))
        return replace(value, name=name, step=step, where=where_of(name, where), dtype=dtype, doubtful=bool(sizes))
    if type(value) is Union:
        return join_all(placed(option, name, step, where) for option in value.options)
    if type(value) is Sequence:
        elem = placed(value.elem, name, step, where)
        return replace(
            value, elem=elem, items=tuple(placed(v, name, step, where) for v in value.items) if value.items else None
        )
    if type(value) is Dict:
        items = tuple((key, placed(item, name, step, where)) for key, item in value.items)
        return replace(value, elem=placed(value.elem, name, step, where), items=items)
    if type(value) is Instance and step:
        return replace(value, step=True)
    return value


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _default(engine: Engine, frame: Frame, node: ast.expr, soft: str | None) -> Value:
    from graphsafe.scan.expressions import evaluate
    from graphsafe.scan.frame import Frame as NewFrame

    outer = NewFrame(frame.file, f"{frame.path}::", {}, hot=False, depth=frame.depth + 1)
    value = evaluate(engine, outer, node)
    if type(value) is Number and soft is not None:
        return replace(value, soft=soft)
    return value


def _is_used_as(function: ast.AST, name: str, telling: frozenset[str]) -> bool:
    """Whether the body uses a parameter in one of these ways."""
    return not telling.isdisjoint(_all_uses(function).get(name, ()))


@kept
def _all_uses(function: ast.AST) -> Mapping[str, Set[str]]:
    found: dict[str, set[str]] = {}
    for used, attribute in _uses(function):
        found.setdefault(used, set()).add(attribute)
    return found


_NOT_TENSORS_FIRST = (
    "is_tensor",
    "tensor",
    "device",
    "full",
    "zeros",
    "ones",
    "empty",
    "arange",
    "Size",
    "rand",
    "randn",
)
"Functions of torch whose first argument is no tensor."


def _uses(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Names and how they are used: an attribute; `view` stands for a tensor's place in a torch call or a product."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute):
            if isinstance(inner.value, ast.Name):
                yield inner.value.id, inner.attr
        elif isinstance(inner, ast.Call):
            name = dotted(inner.func) or ""
            head, _, last = name.rpartition(".")
            if head in ("torch", "F", "torch.nn.functional") and last not in _NOT_TENSORS_FIRST:
                for argument in inner.args[:1]:
                    if isinstance(argument, ast.Name):
                        yield argument.id, "view"
        elif isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.MatMult):
            for side in (inner.left, inner.right):
                if isinstance(side, ast.Name):
                    yield side.id, "view"


@lru_cache(maxsize=4096)
def _parsed(annotation: str) -> ast.expr:
    return ast.parse(annotation.strip(), mode="eval").body


def annotated(engine: Engine, file: FileIndex, node: ast.expr) -> Value:
    """The value that an annotation promises; UNKNOWN where it promises nothing that matters here."""
    if isinstance(node, ast.Constant):
        if node.value is None:
            return NONE
        if isinstance(node.value, str):
            try:
                return annotated(engine, file, _parsed(node.value))
            except (SyntaxError, ValueError, RecursionError):
                return UNKNOWN
        return UNKNOWN
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _either([annotated(engine, file, node.left), annotated(engine, file, node.right)])
    if isinstance(node, ast.Subscript):
        return _generic(engine, file, node)
    name = dotted(node)
    if name is None:
        return UNKNOWN
    return _named_type(engine, file, name)


def _either(parts: list[Value]) -> Value:
    """A choice that only the caller knows; that it is a tensor rather than a number is not sure."""
    if any(type(part) is Number for part in parts):
        parts = [replace(part, sure=False) if type(part) is Tensor else part for part in parts]
    return join_all(parts)


def _generic(engine: Engine, file: FileIndex, node: ast.Subscript) -> Value:
    name = (dotted(node.value) or "").rpartition(".")[2]
    arguments = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name in ("Optional", "Union"):
        parts = [annotated(engine, file, argument) for argument in arguments]
        return _either([*parts, NONE] if name == "Optional" else parts)
    if name in ("list", "List", "Sequence", "Iterable", "Iterator", "Collection", "MutableSequence", "deque"):
        return of_elements("list", annotated(engine, file, arguments[0]))
    if name in ("set", "Set", "frozenset", "FrozenSet"):
        return of_elements("set", annotated(engine, file, arguments[0]))
    if name in ("tuple", "Tuple"):
        if len(arguments) == 2 and isinstance(arguments[1], ast.Constant) and arguments[1].value is Ellipsis:
            return of_elements("tuple", annotated(engine, file, arguments[0]))
        return sequence("tuple", (annotated(engine, file, argument) for argument in arguments))
    if (
        name in ("dict", "Dict", "Mapping", "MutableMapping", "OrderedDict", "defaultdict", "DefaultDict")
        and len(arguments) == 2
    ):
        return Dict((), annotated(engine, file, arguments[1]))
    if name == "Literal":
        return join_all(number(a.value) for a in arguments if isinstance(a, ast.Constant)) if arguments else UNKNOWN
    if name in ("Annotated", "ClassVar", "Final", "Required", "NotRequired", "Unpack"):
        return annotated(engine, file, arguments[0])
    if name in ("Float", "Float32", "Float16", "BFloat16", "Int", "Int32", "Int64", "Bool", "Shaped", "Num", "Integer"):
        # jaxtyping: Float[Tensor, "batch dim"]
        inner = annotated(engine, file, arguments[0])
        dtype: Dtype | None = (
            "bool" if name == "Bool" else "int" if name.startswith("Int") else "float" if "F" in name else None
        )
        return replace(inner, dtype=dtype) if type(inner) is Tensor else inner
    return annotated(engine, file, node.value)


_BUILTIN_TYPES: Mapping[str, Value] = {
    "int": Number(type="int"),
    "float": Number(type="float"),
    "bool": Number(type="bool"),
    "str": STR,
    "bytes": STR,
    "list": of_elements("list", UNKNOWN),
    "tuple": of_elements("tuple", UNKNOWN),
    "dict": Dict((), UNKNOWN),
}


def _named_type(engine: Engine, file: FileIndex, name: str) -> Value:
    key = (file.path, name)
    if key not in engine.types:
        engine.types[key] = _BUILTIN_TYPES[name] if name in _BUILTIN_TYPES else _resolved_type(engine, file, name)
    return engine.types[key]


def _resolved_type(engine: Engine, file: FileIndex, name: str) -> Value:
    head, *rest = name.split(".")
    binding = engine.project.resolve(file, head)
    if binding is None:
        return UNKNOWN
    binding = engine.project.member(binding, rest)
    if binding.kind == "class":
        ref = f"{binding.path}::{binding.name}"
        bases = engine.project.mro(ref)
        if any(base in ("enum.Enum", "enum.IntEnum", "enum.StrEnum", "enum.Flag") for base in bases):
            return Number()
        if any(base.endswith(("Protocol", "typing.Any")) for base in bases if "::" not in base):
            return UNKNOWN
        return Instance(ref, declared=True)
    if binding.kind == "assign":
        return _type_alias(engine, binding.path, binding.name)
    if binding.kind == "lib":
        return _library_type(engine, binding.name)
    return UNKNOWN


def _type_alias(engine: Engine, path: str, name: str) -> Value:
    """What `Name = list[Tensor] | None` promises; one that names itself promises nothing there."""
    known = engine.aliases.get((path, name))
    if known is None:
        engine.aliases[path, name] = UNKNOWN
        known = engine.aliases[path, name] = _aliased(engine, path, name)
    return known


def _aliased(engine: Engine, path: str, name: str) -> Value:
    file = engine.project.index(path)
    if file is None or name not in file.assigns:
        return UNKNOWN
    statement = engine.project.statement(path, *file.assigns[name][-1])
    value = getattr(statement, "value", None)
    if isinstance(value, (ast.Subscript, ast.BinOp)):
        return annotated(engine, file, value)
    return UNKNOWN


def _library_type(engine: Engine, name: str) -> Value:
    last = name.rpartition(".")[2]
    summary = engine.libraries.find(name)
    if summary is not None and summary.returns == "object":
        return Handle("library", name)
    if name.startswith("torch"):
        if last in _TENSOR_TYPES:
            return Tensor(where="any", dtype=_TENSOR_TYPES[last])
        if name in _HANDLES:
            return Handle(_HANDLES[name])
        if name == "torch.device":
            return DeviceValue("any")
        if name == "torch.dtype":
            return DtypeValue(None)
        if name == "torch.Size":
            return of_elements("size", Number(type="int"))
        if name.startswith("torch.nn."):
            return Handle("module", name)
    if name.startswith(("numpy", "np")) and last in ("ndarray", "NDArray", "ArrayLike"):
        return ARRAY
    if name in ("typing.Callable", "collections.abc.Callable", "typing.Any"):
        return UNKNOWN
    if name in ("logging.Logger",):
        return Handle("logger")
    return UNKNOWN
