"""Random numbers: generators that are registered with a graph, and numbers that are drawn on the host."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from graphsafe.scan.domain.record import Record
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards.graph_syntax import Function, called_name, own, place
from graphsafe.scan.sources.node_memo import inside, memoize_on_node, source_text
from graphsafe.scan.symbols.blocks import parameters
from graphsafe.scan.symbols.index import FunctionFacts, dotted
from graphsafe.scan.symbols.project import Project

IN_TRAINING = "`if self.training`"
SEEDED = re.compile(r"random\.seed(?<=\brandom\.seed)\(")
ONCE = re.compile(r"(main|build|setup)\w*$|.*\.__init__$")
"Functions that run before the first step."
TRAINING = re.compile(r"(?<!not self)\.training\b")
_ARRAY = re.compile(r"\b(?:ndarray|NDArray)\b")
REGISTERED = re.compile(r"register_generator_state(?<=\bregister_generator_state)\(\s*([\w.\[\]]+)")
_REGISTERED_ATTRIBUTE = re.compile(rb"register_generator_state\([\w.\[\]]*\.(\w+)\)")


def is_registered(frame: Frame, node: ast.Call) -> bool:
    """Return whether graphs know the generator that a call draws from. Graphs know the device's default generator, and
    each generator that this file passes to `register_generator_state`. They also know a generator of another object, if
    some file passes an attribute of its name."""
    given = _given_as(node, "generator")
    if given is None:
        return False
    text = ast.unparse(given)
    if text.startswith("torch.cuda.default_generators["):
        return True
    name = text.rpartition(".")[2]
    known = [one for one in frame.project.files.search(frame.path, REGISTERED) if one.rpartition(".")[2] == name]
    if not known and "." in text and not text.startswith("self."):
        # The generator belongs to an object that another file may know: `s.generator`.
        return name in frame.project.files.found_by("registered generators", _registered_in)
    if not known or frame.owner is None or text != f"self.{name}":
        return bool(known)
    holders = [*_holders(frame, name)]
    mro = frame.project.mro
    related = (cls is None or cls in mro(frame.owner) or frame.owner in mro(cls) for cls in holders)
    return len(holders) < len(known) or any(related)


def _registered_in(data: bytes) -> Iterable[tuple[str, str]]:
    """Return the attributes that hold the generators which a file passes to `register_generator_state`."""
    found = _REGISTERED_ATTRIBUTE.findall(data) if b"register_generator_state" in data else ()
    return [(name.decode(), "") for name in found]


def _given_as(node: ast.Call, name: str) -> ast.expr | None:
    """Return the argument that a call passes by this keyword, or None."""
    return next((keyword.value for keyword in node.keywords if keyword.arg == name), None)


def _holders(frame: Frame, name: str) -> Iterator[str | None]:
    """Yield the class of each object whose generator `name` the file registers. Yield None for an unknown class. In
    `graph.register_generator_state(noise.generator)`, the object is `noise`."""
    file = frame.project.files.index(frame.path)
    lines = frame.project.files.source(frame.path).lines
    for facts in file.functions.values() if file is not None else ():
        if not any("register_generator_state" in line for line in lines[facts.line - 1 : facts.end_line]):
            continue
        node = frame.project.function_node(f"{frame.path}::{facts.name}")
        for call in own(node, ast.Call) if node is not None else ():
            given = call.args[0] if called_name(call) == "register_generator_state" and call.args else None
            if isinstance(given, ast.Attribute) and given.attr == name:
                yield _class_of(frame, given.value, node, facts)


def _class_of(frame: Frame, holder: ast.expr, node: Function | None, facts: FunctionFacts) -> str | None:
    """Return the class of `self`, or the class in the annotation of a parameter, or None if neither is known."""
    head = holder.id if isinstance(holder, ast.Name) else ""
    if head == "self" and facts.owner is not None:
        return f"{frame.path}::{facts.owner}"
    declared = next((one.annotation for one in parameters(node) if one.arg == head), None) if node is not None else None
    file = frame.project.files.index(frame.path)
    name = dotted(declared) if declared is not None else None
    binding = frame.project.resolve(file, name) if file is not None and name is not None else None
    return binding.ref if binding is not None and binding.kind == "class" else None


def is_for_arrays(frame: Frame, node: ast.Call) -> bool:
    """Return whether the drawn numbers may stay on the host. This is so if the function that draws is declared to
    return arrays, or if a root draws with NumPy in a file without torch."""
    is_of_numpy = (dotted(node.func) or "").startswith(("np.", "numpy."))
    if is_of_numpy and frame.depth == 0 and not frame.file.imports_torch and not frame.file.stars:
        return True
    returns = frame.node.returns if frame.node is not None else None
    _, *after = _ARRAY.split(ast.unparse(returns)) if returns is not None else [""]
    return bool(after) and "Tensor" not in after[-1]


def follows_tensor(node: ast.Call) -> bool:
    """Return whether a call draws on the device of a tensor: `torch.rand(n, device=x.device)`. If one caller has its
    tensors on the host, another caller may have them on a device, and only the latter is captured."""
    given = _given_as(node, "device")
    return isinstance(given, ast.Attribute) and given.attr == "device" and place(given) != "self.device"


def is_seeded(frame: Frame) -> bool:
    """Return whether some function of the file seeds the host's generators and may be called in steps.

    Eager steps may then draw the same numbers in each step, just like replays. Scripts and factories are left out,
    because they seed only once, before the steps.
    """
    file = frame.project.files.index(frame.path)
    if file is None or not frame.project.files.search(frame.path, SEEDED):
        return False
    seeding = frame.project.files.lines_with(frame.path, SEEDED)
    functions = [facts for facts in file.functions.values() if not ONCE.match(facts.name)]
    return any(facts.holds(number) for facts in functions for number in seeding)


def only_in_training(frame: Frame, node: ast.Call) -> bool:
    """Return whether the code tests `self.training` around the draw or around each use of the drawn number."""
    if frame.node is None:
        return False
    asked = _training_lines(frame.node)
    if _covered(asked, node.lineno):
        return True
    names = {
        target.id
        for inner in inside(frame.node, ast.Assign)
        if inner.lineno <= node.lineno <= (inner.end_lineno or inner.lineno)
        for target in inner.targets
        if isinstance(target, ast.Name)
    }
    looks = [
        inner.lineno for inner in inside(frame.node, ast.Name) if isinstance(inner.ctx, ast.Load) and inner.id in names
    ]
    return bool(looks) and all(_covered(asked, line) for line in looks)


def called_in_training(project: Project, record: Record, ref: str) -> bool:
    """Return whether all callers of a function test `self.training` around the call."""
    edges = list(record.edges.get(ref, ()))
    callers = {edge.caller: project.function_node(edge.caller) for edge in edges}
    return bool(edges) and all(
        (caller := callers[edge.caller]) is not None and _covered(_training_lines(caller), edge.line) for edge in edges
    )


@memoize_on_node
def _training_lines(function: ast.AST) -> Sequence[tuple[int, int]]:
    """Return the first and last lines of each `if`, conditional expression or `and` that tests the module's training
    flag."""
    tests: list[tuple[ast.expr | ast.stmt, ast.expr]] = [(node, node.test) for node in inside(function, ast.If)]
    tests += [(node, node.test) for node in inside(function, ast.IfExp)]
    both = [node for node in inside(function, ast.BoolOp) if isinstance(node.op, ast.And)]
    tests += [(node, part) for node in both for part in node.values]
    asking = [node for node, test in tests if TRAINING.search(source_text(test))]
    return [(node.lineno, node.end_lineno or node.lineno) for node in asking]


def _covered(ranges: Sequence[tuple[int, int]], line: int) -> bool:
    return any(first <= line <= last for first, last in ranges)
