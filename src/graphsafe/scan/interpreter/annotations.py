"""The values that annotations promise."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache

from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import join_all, sequence
from graphsafe.scan.domain.values import (
    ARRAY,
    NONE,
    STR,
    UNKNOWN,
    ClassValue,
    DeviceValue,
    Dict,
    Dtype,
    DtypeValue,
    Instance,
    Number,
    RuntimeObject,
    Tensor,
    Value,
    number,
    of_elements,
)
from graphsafe.scan.execution.frame import Engine
from graphsafe.scan.models import packed_sequences
from graphsafe.scan.models.library_models import runtime_object
from graphsafe.scan.symbols.index import FileIndex, dotted

_TENSOR_TYPES: Mapping[str, Dtype | None] = {
    "Tensor": None,
    **dict.fromkeys("FloatTensor HalfTensor BFloat16Tensor DoubleTensor Parameter".split(), "float"),
    **dict.fromkeys("LongTensor IntTensor ShortTensor ByteTensor".split(), "int"),
    "BoolTensor": "bool",
}


@lru_cache(maxsize=4096)
def _parsed(annotation: str) -> ast.expr:
    return ast.parse(annotation.strip(), mode="eval").body


def annotated(engine: Engine, file: FileIndex, node: ast.expr) -> Value:
    """Return the value that an annotation promises, or UNKNOWN if it promises nothing relevant."""
    if isinstance(node, ast.Constant):
        if node.value is None:
            return NONE
        if isinstance(node.value, str):
            try:
                return annotated(engine, file, _parsed(node.value))
            except (SyntaxError, ValueError, RecursionError, MemoryError):
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
    """Join the members of a union type. Only the caller knows to which member a value belongs. So if a number is also a
    member, the tensor is not certain.
    """
    if any(type(part) is Number for part in parts):
        parts = [replace(part, certain=False) if type(part) is Tensor else part for part in parts]
    return join_all(parts)


_LISTS = frozenset("list List Sequence Iterable Iterator Collection MutableSequence deque".split())
_SETS = frozenset("set Set frozenset FrozenSet".split())
_DICTS = frozenset("dict Dict Mapping MutableMapping OrderedDict defaultdict DefaultDict".split())
_TRANSPARENT = frozenset("Annotated ClassVar Final Required NotRequired Unpack".split())
"Annotations such as `Final[T]`, which promise the same value as their first argument."
_JAXTYPING: Mapping[str, Dtype | None] = {
    **dict.fromkeys("Float Float32 Float16 BFloat16".split(), "float"),
    **dict.fromkeys("Int Int32 Int64 Integer".split(), "int"),
    "Bool": "bool",
    "Shaped": None,
    "Num": None,
}
"""The dtypes of annotations such as `Float[Tensor, "batch dim"]`."""


def _generic(engine: Engine, file: FileIndex, node: ast.Subscript) -> Value:
    name = (dotted(node.value) or "").rpartition(".")[2]
    arguments = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name in ("Optional", "Union"):
        parts = [annotated(engine, file, argument) for argument in arguments]
        return _either([*parts, NONE] if name == "Optional" else parts)
    if name in _LISTS or name in _SETS:
        return of_elements("list" if name in _LISTS else "set", annotated(engine, file, arguments[0]))
    if name in ("tuple", "Tuple"):
        return _tuple(engine, file, arguments)
    if name in _DICTS and len(arguments) == 2:
        return Dict((), annotated(engine, file, arguments[1]))
    if name in ("type", "Type"):
        made = annotated(engine, file, arguments[0])
        return ClassValue(made.ref, declared=True) if type(made) is Instance else UNKNOWN
    if name == "Literal":
        return join_all(number(a.value) for a in arguments if isinstance(a, ast.Constant))
    if name in _TRANSPARENT:
        return annotated(engine, file, arguments[0])
    if name in _JAXTYPING:
        inner = annotated(engine, file, arguments[0])
        return replace(inner, dtype=_JAXTYPING[name]) if type(inner) is Tensor else inner
    return annotated(engine, file, node.value)


def _tuple(engine: Engine, file: FileIndex, arguments: list[ast.expr]) -> Value:
    """Return the value of `tuple[Tensor, int]` or `tuple[Tensor, ...]`."""
    if len(arguments) == 2 and isinstance(arguments[1], ast.Constant) and arguments[1].value is Ellipsis:
        return of_elements("tuple", annotated(engine, file, arguments[0]))
    return sequence("tuple", (annotated(engine, file, argument) for argument in arguments))


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
    if name in _BUILTIN_TYPES:
        return _BUILTIN_TYPES[name]
    return engine.queries.ask(("type", file.path, name), lambda: _resolved_type(engine, file, name), lambda: UNKNOWN)


def _resolved_type(engine: Engine, file: FileIndex, name: str) -> Value:
    binding = engine.project.meaning(file, name)
    if binding is None:
        return UNKNOWN
    if binding.kind == "class":
        ref = binding.ref
        bases = engine.project.mro(ref)
        if any(base in ("enum.Enum", "enum.IntEnum", "enum.StrEnum", "enum.Flag") for base in bases):
            return Number()
        if any(base.endswith(("Protocol", "typing.Any")) for base in bases if "::" not in base):
            return UNKNOWN
        has_methods = any(facts.methods for _, facts in engine.project.own_classes(ref))
        if not _TENSORS.isdisjoint(bases) and not has_methods:
            return Tensor(where="any")  # a class without methods only names tensors of some shape or type
        return Instance(ref, declared=True)
    if binding.kind == "assign":
        return _aliased(engine, binding.path, binding.name)
    if binding.kind == "lib":
        return _library_type(engine, binding.name)
    return UNKNOWN


def _aliased(engine: Engine, path: str, name: str) -> Value:
    """Return the value that an alias such as `Name = list[Tensor] | None` or `Name = torch.Tensor` promises.

    A recursive alias promises nothing.
    """
    file = engine.project.files.index(path)
    bindings = engine.project.assigned(path, name)
    if file is None or not bindings:
        return UNKNOWN
    statement = engine.project.files.statement(path, *bindings[-1])
    value = getattr(statement, "value", None)
    if isinstance(value, (ast.Subscript, ast.BinOp, ast.Attribute, ast.Name)):
        return annotated(engine, file, value)
    return UNKNOWN


_TENSORS = frozenset(("torch.Tensor", "torchtyping.TensorType"))
"If a class derives from one of these and has no methods, it is only a name for tensors of a certain shape or type."
_TORCH_TYPES: Mapping[str, Value] = {
    "torch.Generator": RuntimeObject("generator"),
    "torch.device": DeviceValue("any"),
    "torch.dtype": DtypeValue(None),
    "torch.Size": of_elements("size", Number(type="int")),
}


def _library_type(engine: Engine, name: str) -> Value:
    """Return the value that an annotation with a class of a library promises."""
    last = name.rpartition(".")[2]
    model = engine.libraries.find(name)
    if model is not None and model.returns == "object":
        return RuntimeObject("library", name)
    made = runtime_object(model.returns) if model is not None else None
    if made is not None:
        # The annotation does not show which stream the object is.
        return RuntimeObject(made.kind)
    if name.startswith("torch") and last in _TENSOR_TYPES:
        return Tensor(where="any", dtype=_TENSOR_TYPES[last])
    if name == packed_sequences.CLASS:
        return packed_sequences.of(Tensor(where="any"))
    if name in _TORCH_TYPES:
        return _TORCH_TYPES[name]
    if name.startswith("torch.nn."):
        return RuntimeObject("module", name)
    if name.startswith(("numpy", "np")) and last in ("ndarray", "NDArray", "ArrayLike", "array"):
        return ARRAY
    return RuntimeObject("logger") if name == "logging.Logger" else UNKNOWN
