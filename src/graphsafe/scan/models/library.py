"""Dotted names of libraries: the values of constants, and the model that handles each call."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from graphsafe.scan.domain.arguments import Arguments, unknown_result
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import join_all
from graphsafe.scan.domain.naming import BATCHES, LOADER_NAME
from graphsafe.scan.domain.values import (
    BOOL,
    FLOAT,
    INT,
    STR,
    UNKNOWN,
    ClassValue,
    DeviceValue,
    Dict,
    DtypeValue,
    Function,
    Instance,
    Lib,
    Number,
    RuntimeObject,
    Tensor,
    Unknown,
    Value,
    as_tensor,
    depends_on_step,
    number,
    of_elements,
    options,
)
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.models import (
    formatting,
    library_models,
    named_calls,
    named_tuples,
    numpy_reads,
    operations,
    packed_sequences,
    platforms,
    protocols,
    runtime_objects,
    spelled_out,
)
from graphsafe.scan.models.functions import builtin_functions, handed_functions, torch_functions

_INTEGERS = "uint8 int8 int16 int32 int64 short int long uint16 uint32 uint64".split()
_FLOATS = "float16 float32 float64 bfloat16 half float double float8_e4m3fn float8_e5m2 float8_e4m3fnuz".split()
_OTHERS = "cfloat cdouble chalf complex32 complex64 complex128".split()
_CONSTANTS: Mapping[str, Value] = {
    "torch.bool": DtypeValue("bool"),
    **dict.fromkeys([f"torch.{name}" for name in _INTEGERS], DtypeValue("int")),
    **dict.fromkeys([f"torch.{name}" for name in _FLOATS], DtypeValue("float")),
    **dict.fromkeys([f"torch.{name}" for name in _OTHERS], DtypeValue(None)),
    **dict.fromkeys("torch.inf torch.nan torch.pi torch.e math.inf math.pi math.nan math.e".split(), FLOAT),
    **dict.fromkeys("numpy.inf numpy.nan sys.maxsize".split(), FLOAT),
    **dict.fromkeys(("torch.__version__", "torch.version.cuda"), STR),
    "torch.version.hip": platforms.NO_VERSION,
    **dict.fromkeys(("typing.TYPE_CHECKING", "builtins.TYPE_CHECKING"), number(False)),
    "builtins.__debug__": Number(True, overridable_by="environment", type="bool"),  # False with `python -O`
    "os.environ": RuntimeObject("environment"),
}
_ITERATING = frozenset(
    f"builtins.{name}"
    for name in "list tuple set enumerate zip map filter sum max min any all sorted iter reversed".split()
) | {f"itertools.{name}" for name in "takewhile dropwhile filterfalse islice".split()}
"Functions that iterate over their arguments."
_DISTRIBUTION = re.compile(r"torch\.distributions\.\w+\.[A-Z]\w+$")
"Matches a distribution's full name, which includes the module that defines it: `torch.distributions.normal.Normal`."
_OF_CUDA = re.compile(r"torch\.cuda\.(?:graphs|random|streams)\.(?=\w+$)")
"""Matches the module path before the name of a function of `torch.cuda`: `torch.cuda.streams.` in
`torch.cuda.streams.X`."""
_NUMPY = ("numpy", "np", "scipy")
_GRAPHING = ("torch.cuda", "transformer_engine.pytorch")
"Modules with a function `make_graphed_callables`."


def constant(name: str) -> Value:
    """Return the value of a library's constant."""
    return _CONSTANTS.get(name) or Lib(_canonical(name))


def _canonical(name: str) -> str:
    """Return the usual name for a name that includes the defining module: `torch.cuda.X` for `torch.cuda.streams.X`."""
    if _DISTRIBUTION.match(name):
        return f"torch.distributions.{name.rpartition('.')[2]}"
    return _OF_CUDA.sub("torch.cuda.", name)


def call(frame: Frame, node: ast.Call, name: str, arguments: Arguments) -> Value:
    """Return the result of `name(…)` for a dotted name of a library."""
    name = _canonical(name)
    named_calls.note(frame, node, name)
    if name in _ITERATING:
        given = (protocols.iterated(frame, node, value) for value in arguments.positional)
        arguments = replace(arguments, positional=tuple(given))
    handler = _FUNCTIONS.get(name)
    if handler is not None:
        return handler(frame, node, arguments)
    handed_functions.read(frame, node, arguments)
    model = frame.engine.libraries.find(name)
    if model is not None:
        return library_models.call(frame, node, name, model, arguments)
    if name.startswith("torch."):
        return torch_functions.torch(frame, node, name, arguments)
    op = frame.ops.python(name)
    if op is not None:
        return operations.by_table(frame, node, op, name, None, arguments)
    return _by_name(frame, node, name, arguments)


def _by_name(frame: Frame, node: ast.Call, name: str, arguments: Arguments) -> Value:
    """Return the result of a function if only its module or the last part of its name is known."""
    head, last = name.partition(".")[0], name.rpartition(".")[2]
    if LOADER_NAME.search(last):
        return _loader(frame, node, arguments)
    if head in _NUMPY:
        return numpy_reads.read(frame, node, arguments.values())
    if head == "math":
        return builtin_functions.cast(frame, node, arguments)
    if name.endswith("getLogger") or last == "init_logger":
        return RuntimeObject("logger")
    if head == "logging":
        return formatting.log(frame, node, last, arguments)
    if head == "pickle" and name.endswith(("dumps", "dump")):
        numpy_reads.copied(frame, node, arguments.values())
        return STR
    return UNKNOWN if name.endswith((".lru_cache", ".cache")) else unknown_result(arguments)


def _promised(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Return the value of `cast(T, value)`. If `value` is not known, return the value that the type promises."""
    kind, value = arguments.get(0, "typ"), arguments.get(1, "val")
    if type(value) is Unknown and type(kind) is Lib and kind.name == "torch.Tensor":
        return Tensor(step=value.step)
    return UNKNOWN if value is None else value


def _loader(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Return a data loader. Its batches are on the host, unless its data set holds device tensors."""
    made = unknown_result(arguments)
    return made if made.device else BATCHES


def _collated(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Return a batch. It is on the host, unless a sample certainly is a device tensor."""
    on_device = any(tensor is not None and tensor.where == "device" for tensor, _ in map(as_tensor, arguments.values()))
    return unknown_result(arguments) if on_device else Unknown(loaded=True)


_COLLATING = tuple(f"torch.utils.data.{module}default_collate" for module in ("", "dataloader.", "_utils.collate."))
_RETURN_THEIR_ARGUMENT = (
    "torch.jit.script",
    "torch.compiler.disable",
    "torch._dynamo.disable",
    "torch.autograd.Variable",
    "torch.autograd.variable.Variable",
)

_PLAIN = (Tensor, Number, DeviceValue, DtypeValue)
"""Values that contain no other values. If `partial` binds keywords to a library's function, the keywords are kept only
if all of them are such values."""


def _partial(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    if not arguments.positional:
        return UNKNOWN
    made: list[Value] = []
    for option in options(arguments.positional[0]):
        if type(option) is Function:
            keywords = tuple((*option.partial_keywords, *arguments.keywords.items()))
            made.append(
                replace(option, partial=(*option.partial, *arguments.positional[1:]), partial_keywords=keywords)
            )
        elif type(option) is Lib and all(type(one) in _PLAIN for one in arguments.keywords.values()):
            made.append(replace(option, keywords=tuple({**dict(option.keywords), **arguments.keywords}.items())))
        else:
            made.append(option)
    return join_all(made) if made else UNKNOWN


def _method(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Return the method that `types.MethodType(function, obj)` or `function.__get__(obj)` makes."""
    known = arguments.keywords.get("function")
    given = (*((known,) if known is not None else ()), *arguments.positional)
    return replace(given[0], bound=given[1]) if len(given) > 1 and type(given[0]) is Function else UNKNOWN


def _replaced(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Return the object that `dataclasses.replace(obj, …)` makes: a new object of the same class."""
    old = arguments.get(0, "obj")
    facts = frame.project.class_facts(old.ref) if type(old) is Instance else None
    if type(old) is not Instance or facts is None:
        return UNKNOWN
    fields = {name: frame.attribute(node, old, name, None) for name in facts.fields}
    for spread in (frame.evaluate_quietly(keyword.value) for keyword in node.keywords if keyword.arg is None):
        # The tensors in `**moved` replace the tensors of the old object.
        moved = as_tensor(spread.elem)[0] if type(spread) is Dict else None
        if moved is not None:
            fields.update((name, moved) for name, value in fields.items() if as_tensor(value)[0] is not None)
    fields.update(arguments.keywords)
    # A tensor of unknown placement comes from an attribute of the old object. Such a tensor is not passed to the
    # constructor, because it shows nothing new about the class.
    told = {name: value for name, value in fields.items() if type(value) is not Tensor or value.where != "any"}
    made = frame.call_value(node, ClassValue(old.ref), Arguments(keywords=told))
    if type(made) is not Instance:
        return old
    return replace(made, step=made.step or any(map(depends_on_step, fields.values())))


_FUNCTIONS: Mapping[str, builtin_functions.Handler] = {
    **dict.fromkeys(("typing.cast", "typing_extensions.cast"), _promised),
    "torch.device": torch_functions.device,
    "torch.Generator": runtime_objects.generator,
    **dict.fromkeys(
        "torch.nn.Parameter torch.nn.parameter.Parameter torch.nn.Buffer".split(), torch_functions.parameter
    ),
    **dict.fromkeys(("torch.nn.ModuleList", "torch.nn.ParameterList"), torch_functions.module_list),
    "torch.nn.ModuleDict": torch_functions.module_dict,
    "torch.nn.Sequential": torch_functions.sequential,
    "graphsafe.Step": torch_functions.step,
    **{f"torch.nn.utils.rnn.{name}": packed_sequences.made for name in ("pack_padded_sequence", "pack_sequence")},
    packed_sequences.CLASS: packed_sequences.made,
    "torch.nn.utils.rnn.pad_packed_sequence": packed_sequences.padded,
    "torch.from_numpy": lambda frame, node, arguments: Tensor(where="host"),
    "torch.utils.data.DataLoader": _loader,
    **dict.fromkeys(_COLLATING, _collated),
    "torch.compile": torch_functions.compile,
    **{f"{module}.make_graphed_callables": torch_functions.graphed for module in _GRAPHING},
    "tensordict.nn.CudaGraphModule": torch_functions.graphed,
    **dict.fromkeys(_RETURN_THEIR_ARGUMENT, torch_functions.same),
    "torch.utils.checkpoint.checkpoint": torch_functions.checkpoint,
    torch_functions.SAVED_TENSORS_HOOKS: torch_functions.saved_tensors_hooks,
    "torch.autograd.graph.save_on_cpu": torch_functions.save_on_cpu,
    "torch.cond": torch_functions.cond,
    "torch.cuda.is_available": lambda frame, node, arguments: number(True),
    "torch.cuda.set_stream": runtime_objects.set_stream,
    "threading.Thread": runtime_objects.thread,
    "torch.is_tensor": torch_functions.is_tensor,
    "torch.is_floating_point": builtin_functions.len_,
    "torch.get_default_dtype": lambda frame, node, arguments: DtypeValue("float"),
    **dict.fromkeys(("torch.promote_types", "torch.result_type"), lambda frame, node, arguments: DtypeValue(None)),
    **dict.fromkeys(("copy.deepcopy", "copy.copy"), torch_functions.copy_tensor),
    "functools.partial": _partial,
    "functools.reduce": spelled_out.reduced,
    "operator.getitem": spelled_out.item,
    "operator.itemgetter": spelled_out.item_getter,
    "operator.methodcaller": spelled_out.method_caller,
    **{f"itertools.{name}": spelled_out.chosen for name in ("takewhile", "dropwhile", "filterfalse")},
    "dataclasses.replace": _replaced,
    **dict.fromkeys(("os.environ.get", "os.getenv"), runtime_objects.environment),
    "torch._assert": builtin_functions.asserted,
    "torch.Size": builtin_functions.size_of,
    **{f"bisect.{name}": builtin_functions.placed_in for name in ("bisect", "bisect_left", "bisect_right")},
    **{f"bisect.{name}": builtin_functions.placed_in for name in ("insort", "insort_left", "insort_right")},
    **{f"heapq.{name}": builtin_functions.placed_in for name in ("heappush", "heappushpop", "heapreplace")},
    **{f"itertools.{name}": builtin_functions.listed("iterator") for name in ("islice", "chain", "cycle")},
    **dict.fromkeys(("tqdm.tqdm", "tqdm.auto.tqdm", "rich.progress.track"), builtin_functions.listed("iterator")),
    "itertools.count": lambda frame, node, arguments: of_elements("iterator", INT),
    "collections.namedtuple": named_tuples.defined,
    "collections.deque": builtin_functions.listed("list"),
    "collections.defaultdict": builtin_functions.defaultdict,
    "collections.OrderedDict": builtin_functions.dict_,
    "types.MethodType": _method,
    "types.SimpleNamespace": builtin_functions.namespace,
    "operator.index": builtin_functions.cast,
    **{f"builtins.{name}": builtin_functions.cast for name in ("int", "float", "bool", "complex")},
    **{f"builtins.{name}": builtin_functions.branching(name) for name in ("max", "min", "any", "all", "sorted")},
    **{f"builtins.{kind}": builtin_functions.listed(kind) for kind in ("list", "tuple", "set")},
    **{f"builtins.{name}": builtin_functions.listed("iterator") for name in ("reversed", "iter")},
    **{f"builtins.{name}": formatting.text_ for name in ("str", "repr", "format")},
    **{f"builtins.{name}": builtin_functions.abs_ for name in ("abs", "round")},
    "builtins.hash": builtin_functions.hash_,
    **dict.fromkeys(("builtins.print", "pprint.pprint", "pprint.pp"), formatting.print_),
    "builtins.len": builtin_functions.len_,
    "builtins.slice": lambda frame, node, arguments: builtin_functions.SLICE,
    "builtins.sum": builtin_functions.sum_,
    "builtins.range": builtin_functions.range_,
    "builtins.divmod": builtin_functions.divmod_,
    "builtins.enumerate": builtin_functions.enumerate_,
    "builtins.zip": builtin_functions.zip_,
    "builtins.dict": builtin_functions.dict_,
    "builtins.isinstance": builtin_functions.isinstance_,
    "builtins.hasattr": lambda frame, node, arguments: BOOL,
    "builtins.getattr": builtin_functions.getattr_,
    **dict.fromkeys(("builtins.setattr", "builtins.object.__setattr__"), builtin_functions.setattr_),
    "builtins.vars": builtin_functions.vars_,
    "builtins.map": builtin_functions.map_,
    "builtins.filter": builtin_functions.filter_,
    "builtins.next": builtin_functions.next_,
    "builtins.type": builtin_functions.type_,
    "builtins.id": lambda frame, node, arguments: INT,
}
