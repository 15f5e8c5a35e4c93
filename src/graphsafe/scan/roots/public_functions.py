"""Public functions of a library that users probably call in a step, judging by their names and code.

Calls inside the library show little: a metric's own report, for example, calls the same functions as a user's training
step.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Set

from graphsafe.scan.execution.frame import Engine
from graphsafe.scan.hazards.graph_syntax import LOOPS
from graphsafe.scan.roots.tensor_arguments import takes_tensors, takes_tensors_at_last, tensor_parameters
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.symbols.blocks import Definition, attribute_of
from graphsafe.scan.symbols.index import FileIndex, FunctionFacts, dotted

_ONCE = re.compile(
    r"(^|\.)test$"
    r"|(?<![^\W_])(init|initiali[sz]e|set_?up|prepare|preprocess|program|pack|convert|calibrat(e|ion)|set_timesteps"
    r"|generate|save|write|dump|export|print"
    r"|plot|visuali[sz]e|to_(str|string|json|dict|mesh|pil|images?|videos?|ase)|log_(images?|videos?|metrics|stats))(?![^\W_])"
)
"""Matches names of functions that are a whole run, and words in names of functions that set up, convert, save or show
something, or generate a whole result."""
LOADS = re.compile(r"(^|[.:])(un|re)?load$")
"Matches functions that load weights, or that give up the memory of weights."
_NO_STEPS = ("time.time", "time.monotonic", "perf_counter", ".elapsed_time", "nn.Parameter")


def is_public(facts: FunctionFacts) -> bool:
    """Return whether users may call a function in their steps, judging by its name. Users set a property between
    steps."""
    is_setter = any(decorator.endswith(".setter") for decorator in facts.decorators)
    return (
        not is_setter
        and _has_public_name(facts)
        and _ONCE.search(facts.name) is None
        and LOADS.search(facts.name) is None
    )


def _has_public_name(facts: FunctionFacts) -> bool:
    return all(part == "__call__" or not part.startswith("_") for part in facts.name.split("."))


def works_on_tensors(engine: Engine, file: FileIndex, facts: FunctionFacts) -> bool | None:
    """Return whether a public function takes tensors, or computes with tensors that a step has put into its object.

    Return None if the operands may also be numbers. The function's result then decides.
    """
    node = engine.project.function_node(f"{file.path}::{facts.name}")
    if node is None or _is_no_step(node):
        return False
    takes = takes_tensors_at_last(engine, facts, file.path, False) or _reads_gradients(node)
    if takes or _computes_with_gathered(engine, file, facts, node):
        return True
    return None if file.imports_torch and takes_tensors_at_last(engine, facts, file.path, True) else False


def loops_of_run(engine: Engine, file: FileIndex, name: str) -> tuple[int, ...]:
    """Return the first lines of the loops in which a function runs a module that it has made. Such a function is a
    whole run, and only its loops have steps. The tuple is empty for other functions."""
    node = engine.project.function_node(f"{file.path}::{name}")
    made: set[str] = set()
    for one in inside(node, ast.Assign) if node is not None else ():
        called = dotted(one.value.func) if isinstance(one.value, ast.Call) else None
        binding = engine.project.resolve(file, called) if called is not None else None
        if binding is not None and binding.kind == "class" and engine.attributes.is_module(binding.ref):
            made.update(target.id for target in one.targets if isinstance(target, ast.Name))
    loops = [loop for kind in LOOPS for loop in inside(node, kind)] if node is not None and made else []
    return tuple(loop.lineno for loop in loops if any(read.id in made for read in inside(loop, ast.Name)))


def _computes_with_gathered(engine: Engine, file: FileIndex, facts: FunctionFacts, node: Definition) -> bool:
    """Return whether a method reads attributes that another public method with tensor arguments assigns. This other
    method may be the constructor, unless the class is a module: the tensors that a module's constructor takes are
    weights, not tensors of a step."""
    if facts.owner is None or facts.decorators:
        return False
    read = _reads(node)
    cls = f"{file.path}::{facts.owner}"
    made = None if engine.attributes.is_module(cls) else engine.project.method_node(cls, "__init__")
    given = {*tensor_parameters(made, engine.ops, True, False)} if made is not None else set()
    if made is not None and not _kept(made, given).isdisjoint(read):
        return True  # an object that holds a step's tensors, such as a rotation, is made and used in steps
    if made is not None and not engine.attributes.is_module(cls):
        parts = [node, *_own_parts(engine, cls, node)]
        if any(map(_calls_torch, parts)) and not _placed(made).isdisjoint(frozenset().union(*map(_reads, parts))):
            return True  # a simulation or a filter whose constructor puts its state on the device
    for other in file.functions.values():
        if other.owner == facts.owner and other.name != facts.name and _has_public_name(other):
            beside = engine.project.function_node(f"{file.path}::{other.name}")
            if beside is None or _fills(beside).isdisjoint(read):
                continue
            if takes_tensors(beside, engine.ops, other.is_method, with_arithmetic=False):
                return True
    return False


@memoize_on_node
def _reads_gradients(function: ast.AST) -> bool:
    """Return whether a function computes with gradients, as in `p.grad.norm()`. Such a function follows a backward
    pass."""
    used: list[ast.Attribute | ast.Subscript] = [*inside(function, ast.Attribute), *inside(function, ast.Subscript)]
    return any(isinstance(one.value, ast.Attribute) and one.value.attr == "grad" for one in used)


@memoize_on_node
def _is_no_step(function: ast.AST) -> bool:
    """Return whether a function times steps, makes weights, or handles arrays of numpy: it tests for them
    (`isinstance(x, np.ndarray)`) and does not name torch. A function that times steps waits for the steps."""
    if any((dotted(call.func) or "").endswith(_NO_STEPS) for call in inside(function, ast.Call)):
        return True
    calls = [call for call in inside(function, ast.Call) if dotted(call.func) == "isinstance" and len(call.args) == 2]
    asks = any("ndarray" in ast.unparse(call.args[1]) for call in calls)
    return asks and re.search(r"\b(torch|Tensor)\b", ast.unparse(function)) is None


@memoize_on_node
def _reads(method: ast.AST) -> frozenset[str]:
    """Return the attributes of `self` that a function reads."""
    loads = [inner for inner in inside(method, ast.Attribute) if isinstance(inner.ctx, ast.Load)]
    return frozenset(name for inner in loads if (name := attribute_of(inner, "self")) is not None)


@memoize_on_node
def _fills(method: ast.AST) -> frozenset[str]:
    """Return the attributes of `self` that a function assigns. An attribute is also included if the function adds to
    its list, set or dict."""
    gathers = [call.func for call in inside(method, ast.Call) if isinstance(call.func, ast.Attribute)]
    held: list[ast.expr] = [
        function.value for function in gathers if function.attr in ("append", "extend", "update", "add")
    ]
    held += [inner.value for inner in inside(method, ast.Subscript) if isinstance(inner.ctx, ast.Store)]
    held += [inner for inner in inside(method, ast.Attribute) if isinstance(inner.ctx, ast.Store)]
    return frozenset(name for each in held if (name := attribute_of(each, "self")) is not None)


def _own_parts(engine: Engine, cls: str, method: Definition) -> list[Definition]:
    """Return the private methods of the same object that a method calls."""
    called = {(dotted(call.func) or "").partition("self.")[2] for call in inside(method, ast.Call)}
    nodes = (engine.project.method_node(cls, name) for name in sorted(called) if name.startswith("_"))
    return [node for node in nodes if node is not None]


@memoize_on_node
def _calls_torch(function: ast.AST) -> bool:
    return any((dotted(call.func) or "").startswith("torch.") for call in inside(function, ast.Call))


@memoize_on_node
def _placed(constructor: ast.AST) -> frozenset[str]:
    """Return the attributes of `self` to which a constructor assigns tensors that it makes on a device."""
    making = [one for one in inside(constructor, ast.Assign) if any(map(_names_device, inside(one.value, ast.Call)))]
    targets = [target for one in making for target in one.targets]
    return frozenset(name for one in targets if (name := attribute_of(one, "self")) is not None)


def _names_device(call: ast.Call) -> bool:
    is_torch = (dotted(call.func) or "").startswith("torch.")
    return is_torch and any(keyword.arg == "device" for keyword in call.keywords)


def _kept(constructor: ast.AST, given: Set[str]) -> frozenset[str]:
    """Return the attributes of `self` to which a constructor assigns some of its parameters."""
    assignments = [one for one in inside(constructor, ast.Assign) if isinstance(one.value, ast.Name)]
    targets = [target for one in assignments if one.value.id in given for target in one.targets]  # type: ignore[attr-defined]
    return frozenset(name for one in targets if (name := attribute_of(one, "self")) is not None)
