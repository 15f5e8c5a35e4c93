"""Tensors that a step swaps, or flags that a step flips, an even number of times. After the step, the state is as
before."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.sources.node_memo import inside, source_text
from graphsafe.scan.sources.source import Unreadable
from graphsafe.scan.symbols.blocks import Definition, blocks_of, statements_within
from graphsafe.scan.symbols.index import elements


def are_undone(frame: Frame, node: ast.AST) -> bool:
    """Return whether a line swaps two tensors or flips a flag, and runs an even number of times in a row. Either a loop
    of its function repeats the line, or every caller calls the function an even number of times on one object."""
    function = frame.node
    if function is None or not (_swaps(node) or _flips(node)):
        return False
    if node not in function.body:
        return any(node in body for body in _even_loops(function))
    name = frame.function.rpartition(".")[2]
    table = frame.project.files.table
    *before, last = function.body
    runs_on = not _leaves(before) and (isinstance(last, ast.Return) or not _leaves([last]))
    return runs_on and table(f"even calls of {name}", lambda: _all_even(frame, name))


def _swaps(node: ast.AST) -> bool:
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return False
    targets, values = elements(node.targets[0]), elements(node.value)
    texts = [*map(source_text, targets)]
    return len(texts) == 2 and texts[0] != texts[1] and [*map(source_text, reversed(values))] == texts


def _flips(node: ast.AST) -> bool:
    """Return whether a line is `self.side ^= 1`, `self.side = 1 - self.side` or `self.side = not self.side`."""
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.BitXor) and _is_one(node.value)
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return False
    value, old = node.value, None
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not):
        old = value.operand
    elif isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub) and _is_one(value.left):
        old = value.right
    return old is not None and source_text(old) == source_text(node.targets[0])


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (1, True)


def _all_even(frame: Frame, name: str) -> bool:
    """Return whether the project mentions a function only in its definition and in callers that call it an even number
    of times."""
    project, mention = frame.project, re.compile(rf"\b{name}\b")
    called = 0
    for path in project.files.names:
        if name.encode() not in (project.files.data(path) or b""):
            continue
        file = project.files.index(path)
        try:
            mentions = len(project.files.search(path, mention))
        except Unreadable:
            return False
        refs = (f"{path}::{qualified}" for qualified in (file.functions if file is not None else ()))
        nodes = [node for ref in refs if (node := project.function_node(ref)) is not None]
        defined = sum(node.name == name for node in nodes)
        calls = sum(_even_calls(node, name) for node in nodes)
        if defined > 1 or mentions != defined + calls:
            return False
        called += calls
    return called > 0


def _even_calls(function: Definition, name: str) -> int:
    """Return the number of a function's calls that are whole statements and run an even number of times on one
    object."""
    found = 0
    even = [*_even_loops(function)]
    for body in (function.body, *(block for one in statements_within(function) for block in blocks_of(one))):
        whole = (one.value for one in body if isinstance(one, (ast.Expr, ast.Assign)))
        called = (call.func for call in whole if isinstance(call, ast.Call))
        calls = Counter(source_text(func) for func in called if getattr(func, "attr", None) == name)
        is_even = any(body is one for one in even)
        if not _leaves(body[:-1]):
            found += sum(count for count in calls.values() if is_even or count % 2 == 0)
    return found


def _even_loops(function: Definition) -> Iterator[Sequence[ast.stmt]]:
    """Yield the bodies of loops like `for _ in range(4):` whose number of iterations is even and that always run to
    their end."""
    for loop in inside(function, ast.For):
        rounds = re.fullmatch(r"range\((\d+)\)", source_text(loop.iter))
        if rounds is not None and int(rounds[1]) % 2 == 0 and not _leaves(loop.body):
            yield loop.body


def _leaves(body: Sequence[ast.stmt]) -> bool:
    leaving = (ast.Return, ast.Break, ast.Continue, ast.Raise)
    return any(isinstance(inner, leaving) for one in body for kind in leaving for inner in inside(one, kind))
