"""Finds graphs in syntax: captures, replays, the names of tensors, and the names that lines bind or write to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple, TypeGuard, TypeVar

from graphsafe.report.model import Confidence
from graphsafe.scan.sources.capture_calls import is_begin
from graphsafe.scan.sources.node_memo import children, inside, memoize_on_node
from graphsafe.scan.symbols.index import CAPTURE_ENDS, dotted

Node = TypeVar("Node", bound=ast.AST)
Function = ast.FunctionDef | ast.AsyncFunctionDef
CaptureBlock = ast.With | ast.AsyncWith
WHOLE = frozenset(("copy_", "fill_", "zero_"))
LOOPS = ast.For, ast.AsyncFor, ast.While


class Line(NamedTuple):
    """A line that conflicts with a replay. `how` is the kind of conflict, and `text` is the source code to show."""

    function: str
    how: str
    node: ast.expr | ast.stmt
    text: str
    confidence: Confidence = "likely"


def own_nodes(function: Function | ast.Module) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Yield the nodes of a function, except those of nested functions and classes, each with its parent. Parents come
    before their children."""
    for parent, child in _own_nodes(function):
        yield parent or function, child


@memoize_on_node
def _own_nodes(function: Function | ast.Module) -> Sequence[tuple[ast.AST | None, ast.AST]]:
    """Return the pairs of `own_nodes`. If a node's parent is the function itself, the pair has None in its place."""
    found: list[tuple[ast.AST | None, ast.AST]] = []
    stack: list[ast.AST] = [function]
    while stack:
        node = stack.pop()
        parent = node if node is not function else None
        for child in children(node):
            if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
                found.append((parent, child))
                stack.append(child)
    return found


def own(function: Function | ast.Module, kind: type[Node]) -> list[Node]:
    """Return the nodes of one kind in a function, except those of nested functions and classes."""
    return [node for _, node in own_nodes(function) if isinstance(node, kind)]


def parents_in(function: Function | ast.Module) -> dict[ast.AST, ast.AST]:
    """Map the nodes of `own_nodes` to their parents."""
    return {child: parent for parent, child in own_nodes(function)}


@memoize_on_node
def captures_in(function: Function) -> Sequence[CaptureBlock]:
    """Return the blocks of a function that capture a graph, except blocks of functions inside it."""
    return [node for _, node in _own_nodes(function) if isinstance(node, CaptureBlock) and captures(node)]


def graphs_of(block: CaptureBlock) -> set[str]:
    """Return the names of the graphs into which a block captures: `self.graph`."""
    calls = [call for item in block.items if is_capture(item) and isinstance(call := item.context_expr, ast.Call)]
    begun = [call.func.value for call in calls if isinstance(call.func, ast.Attribute) and is_begin(call)]
    names = map(place, [*begun, *(call.args[0] for call in calls if call.args and not is_begin(call))])
    return {name for name in names if name is not None}


def with_statements(node: ast.AST) -> list[CaptureBlock]:
    """Return the `with` statements in a node, at any depth; `async with` statements come last."""
    return [*inside(node, ast.With), *inside(node, ast.AsyncWith)]


def functions_in(node: ast.AST) -> list[Function]:
    """Return the functions in a node, at any depth; `async` functions come last."""
    return [*inside(node, ast.FunctionDef), *inside(node, ast.AsyncFunctionDef)]


def captures(block: CaptureBlock) -> bool:
    return any(map(is_capture, block.items))


def calls_in(body: Sequence[ast.AST]) -> list[ast.Call]:
    """Return the calls in statements or other nodes, at any depth."""
    return [inner for node in body for inner in inside(node, ast.Call)]


def arguments_of(call: ast.Call) -> list[ast.expr]:
    """Return the arguments of a call, positional and by keyword."""
    return [*call.args, *(word.value for word in call.keywords)]


def known_to(call: ast.Call) -> list[ast.expr]:
    """Return the arguments of a call and the object whose method is called."""
    return [*arguments_of(call), *([call.func.value] if isinstance(call.func, ast.Attribute) else ())]


def called_name(call: ast.Call) -> str:
    """Return the last part of the called function's name: `step` for `self.runner.step(x)` and for
    `runner().step(x)`."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else dotted(call.func) or ""


def ancestors(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes around a node, the innermost first."""
    while node in parents:
        node = parents[node]
        yield node


def following(statement: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> Sequence[ast.stmt]:
    """Return the statements after a statement, in the same block."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parents.get(statement), name, None)
        if isinstance(block, list) and statement in block:
            return block[block.index(statement) + 1 :]
    return ()


def loop_around(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> ast.AST | None:
    """Return the innermost loop around a node, or None."""
    return next((one for one in ancestors(node, parents) if isinstance(one, LOOPS)), None)


def shared_loop(a: ast.AST, b: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> ast.AST | None:
    """Return the innermost loop around both nodes, or None."""
    loops = {around for around in ancestors(a, parents) if isinstance(around, LOOPS)}
    return next((around for around in ancestors(b, parents) if around in loops), None)


def run_together(node: ast.AST, later: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether a single call, or a single iteration of a shared loop, can run both lines. This is not so if the
    lines are in different branches of an `if`, or if there is a return between them."""
    inside = {later, *ancestors(later, parents)}
    child = node
    for ancestor in ancestors(node, parents):
        for block in ("body", "orelse", "handlers", "finalbody"):
            statements = getattr(ancestor, block, None)
            if not isinstance(statements, list) or child not in statements:
                continue
            if ancestor in inside:
                others = [other for other in ("body", "orelse") if other != block]
                if isinstance(ancestor, ast.If) and any(
                    statement in inside for other in others for statement in getattr(ancestor, other)
                ):
                    return False
            elif isinstance(statements[-1], (ast.Return, ast.Raise, ast.Continue)):
                return False
        child = ancestor
    return True


def runs_beside(tree: ast.Module, method: str, replaying: Set[str]) -> bool:
    """Return whether one loop of the file calls this method, and also replays or calls a replaying method. The loop may
    call the method through another function."""
    leading = {method, *(node.name for node in functions_in(tree) if method in map(called_name, own(node, ast.Call)))}
    for loop in [node for node in ast.walk(tree) if isinstance(node, LOOPS)]:
        calls = calls_in(loop.body)
        names = {*map(called_name, calls)}
        replays = not replaying.isdisjoint(names) or any(map(is_plain_replay, calls))
        if replays and not (leading - replaying).isdisjoint(names):
            return True
    return False


WARM_UP = re.compile(r"(?<!s)warm", re.I)
"Matches names of warm-ups, but not `swarm`."
MEASURES = re.compile(rf"bench|profil|{WARM_UP.pattern}|(?<!la)(?<!fas)(?<!hot)(?<!shor)(?<!grea)test", re.I)
"Matches names of code that measures, warms up or tests, but not `latest` or `fastest`."
_FEW = 16
"A loop with at most this many iterations counts as a warm-up or an example."


def is_short(loop: ast.stmt) -> bool:
    """Return whether a loop has only a few iterations, like a warm-up: `for _ in range(3)`, `for n in (1, 2, 4)`."""
    if not isinstance(loop, (ast.For, ast.AsyncFor)):
        return False
    if isinstance(loop.iter, (ast.Tuple, ast.List)):
        return len(loop.iter.elts) <= _FEW
    text = ast.unparse(loop.iter)
    if MEASURES.search(text):
        return True
    rounds = re.fullmatch(r"range\((\d+)\)", text)
    return rounds is not None and int(rounds[1]) <= _FEW


def is_warm_up(loop: ast.stmt) -> bool:
    """Return whether a loop with only a few iterations does nothing but repeat calls: it gives them no new inputs, and
    does nothing with their results."""
    if not is_short(loop) or not isinstance(loop, (ast.For, ast.AsyncFor)):
        return False
    return MEASURES.search(ast.unparse(loop.iter)) is not None or not any(
        isinstance(node, (ast.Assign, ast.AugAssign)) or (isinstance(node, ast.Call) and called_name(node) == "copy_")
        for statement in loop.body
        for node in ast.walk(statement)
    )


def is_capture(item: ast.withitem) -> bool:
    call = item.context_expr
    name = (dotted(call.func) or "") if isinstance(call, ast.Call) else ""
    return name.endswith(CAPTURE_ENDS)


def is_replay(call: ast.AST) -> bool:
    """Return whether a call is `graph.replay()`, or a replay by an engine's graph runner:
    `self.graph_runner.replay(batch)`."""
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "replay"):
        return False
    return not (call.args or call.keywords) or "graph" in (dotted(call.func.value) or "")


def place(node: ast.expr) -> str | None:
    """Return the source code of a name, of an attribute of a name, or of an entry under a constant key. Return None for
    any other expression."""
    if isinstance(node, ast.Subscript):
        base = place(node.value)
        return f"{base}[{node.slice.value!r}]" if base and isinstance(node.slice, ast.Constant) else None
    if isinstance(node, ast.Attribute):
        base = place(node.value)
        return f"{base}.{node.attr}" if base else None
    return node.id if isinstance(node, ast.Name) else None


VIEWS = frozenset(
    "view view_as reshape flatten squeeze unsqueeze transpose permute expand narrow select detach t T mT".split()
)
"Methods and attributes whose result shares the memory of the tensor."


def stored_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the variables that the nodes assign to."""
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def own_names(function: Function) -> set[str]:
    """Return the parameters and the local variables of a function."""
    nodes = [node for _, node in own_nodes(function)]
    outer = {name for node in nodes if isinstance(node, (ast.Nonlocal, ast.Global)) for name in node.names}
    return ({one.arg for one in inside(function.args, ast.arg)} | stored_names(nodes)) - outer


def head(text: str) -> str:
    """Return the name at the start of an attribute or an entry: `batch` for `batch.ids` and for `batch['ids']`."""
    return text.partition(".")[0].partition("[")[0]


def entry(node: ast.expr) -> str | None:
    """Return the name for all entries of a table of `self`: `self.outs[]` for `self.outs[n]`. Return None for any other
    expression."""
    if not isinstance(node, ast.Subscript) or isinstance(node.slice, (ast.Slice, ast.Tuple)):
        return None
    base = place(node.value)
    return f"{base}[]" if base is not None and base.startswith("self.") else None


def viewed(node: ast.expr) -> str | None:
    """Return the tensor whose memory an expression shares. This is `self.y` for `self.y`, `self.y[:n]` and
    `self.y.view(-1)`, and `self.outs[]` for `self.outs[n][:k]`. Return None for any other expression."""
    while True:
        shows = node.func if isinstance(node, ast.Call) else node
        # An attribute `self.view` that is not called is a tensor of that name.
        if isinstance(shows, ast.Attribute) and shows.attr in (VIEWS if isinstance(node, ast.Call) else ("T", "mT")):
            node = shows.value
        elif isinstance(node, ast.Subscript) and place(node) is None and _is_basic(node.slice):
            node = node.value
        else:
            return place(node) or entry(node)


def with_views(node: ast.expr, parents: Mapping[ast.AST, ast.AST]) -> ast.expr:
    """Return the outermost view around an expression: `run(x)[:4].detach()` for `run(x)`."""
    while True:
        parent = parents.get(node)
        call = parents.get(parent) if isinstance(parent, ast.Attribute) and parent.attr in VIEWS else None
        if isinstance(call, ast.Call) and call.func is parent:
            node = call
        elif isinstance(parent, ast.Subscript) and parent.value is node and _is_basic(parent.slice):
            node = parent
        else:
            return node


def _is_basic(index: ast.expr) -> bool:
    """Return whether an index certainly gives a view, because it consists of slices and constants. A variable could be
    a tensor, and indexing with a tensor copies."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return all(isinstance(part, (ast.Slice, ast.Constant)) for part in parts)


def is_plain_replay(node: ast.AST) -> TypeGuard[ast.Call]:
    """Return whether a node is the call `graph.replay()`."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    return node.func.attr == "replay" and not node.args and not node.keywords


def is_host(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return (dotted(node.func) or "") in ("int", "float", "len", "bool", "str", "max", "min", "dict", "list")
    return isinstance(node, (ast.Constant, ast.Compare, ast.BoolOp, ast.JoinedStr, ast.Dict, ast.Lambda))


def is_view_of(node: ast.expr, text: str) -> bool:
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        if place(node) == text:
            return True
        node = node.func if isinstance(node, ast.Call) else node.value
    return place(node) == text


def moves_to_host(node: ast.expr) -> bool:
    """Return whether an expression moves a tensor or a module to the host: `x.cpu()`, `x.to("cpu")`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr == "cpu" or (node.func.attr == "to" and "'cpu'" in map(ast.unparse, arguments_of(node)))


def is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float))


def written(node: ast.AST | None) -> ast.expr | None:
    """Return the target of a write, or None if the node writes nothing. The target is `buf[:n]` for `buf[:n] = x` and
    `buf[:n].copy_(x)`, and `buf` for `buf.zero_()` and `torch.add(x, y, out=buf)`."""
    if isinstance(node, ast.Assign):
        return node.targets[0] if len(node.targets) == 1 else None
    if not isinstance(node, ast.Call):
        return None
    for keyword in node.keywords:
        if keyword.arg == "out":
            return keyword.value
    function = node.func
    return function.value if isinstance(function, ast.Attribute) and function.attr in WHOLE else None


def constructed(value: ast.expr) -> str | None:
    """Return the class of the object that an expression makes. A name with a capital letter counts as a class."""
    name = (dotted(value.func) or "").rpartition(".")[2] if isinstance(value, ast.Call) else ""
    return name if name[:1].isupper() else None


_SHAPED = frozenset(
    "repeat view reshape expand unsqueeze flatten to cuda clone contiguous float long int manual_seed".split()
)
"Methods of a new tensor or generator that return this object or a copy."


def makes_tensor(value: ast.expr) -> bool:
    """Return whether an expression certainly makes a tensor, or copies or moves one."""
    if not isinstance(value, ast.Call):
        return False
    name = dotted(value.func) or ""
    if isinstance(value.func, ast.Attribute) and isinstance(value.func.value, ast.Call):
        return value.func.attr in _SHAPED and makes_tensor(value.func.value)  # `torch.arange(n).repeat(2, 1)`
    return name.startswith("torch.") or name.endswith((".to", ".cuda", ".clone", ".contiguous"))
