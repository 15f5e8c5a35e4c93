"""Finds state that has its old value back at the end of a step. Either a function or a context manager changes the
state only temporarily, or a step swaps two tensors (or flips a flag) an even number of times."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.sources.node_memo import inside, memoize_on_node, source_text
from graphsafe.scan.sources.source import Unreadable
from graphsafe.scan.symbols.blocks import Definition, blocks_of, statements_within, targets_of
from graphsafe.scan.symbols.index import elements

_INVERSE: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
_OTHER_HALF = {"__enter__": "__exit__", "__aenter__": "__aexit__"}
_OTHER_HALF |= {end: begin for begin, end in _OTHER_HALF.items()}
_LEAVING = (ast.Return, ast.Break, ast.Continue)


def is_put_back(frame: Frame, text: str) -> bool:
    """Return whether an attribute or a global gets its old value back: `old = self.scale; try: … finally: self.scale =
    old`, or `self.depth += 1; …; self.depth -= 1`. The two halves may also be in `__enter__` and `__exit__`."""
    node = frame.node
    if node is None:
        return False
    if text in _in_function(node):
        return True
    other = _OTHER_HALF.get(node.name)
    half = frame.project.method_node(frame.owner, other) if other is not None else None
    if half is None:
        return False
    begin, end = (half, node) if node.name in ("__exit__", "__aexit__") else (node, half)
    changed = [*statements_within(begin), *statements_within(end)]
    first, last = _before_exit(begin.body), _before_exit(end.body)
    return text in {*_restored(first, last), *_undone(first, last, changed)}


@memoize_on_node
def _in_function(function: Definition) -> frozenset[str]:
    counts = Counter(source_text(one.target) for one in inside(function, ast.AugAssign))
    twice = {text for text, count in counts.items() if count == 2}
    if not (twice or any(attempt.finalbody for attempt in inside(function, ast.Try))):
        return frozenset()
    changed = sorted(statements_within(function), key=lambda statement: statement.lineno)
    found: set[str] = set()
    for body in (function.body, *(block for statement in changed for block in blocks_of(statement))):
        for index, statement in enumerate(body):
            if isinstance(statement, ast.Try) and statement.finalbody:
                before = [*_after_exit(body[:index]), *_before_exit(statement.body)]
                stores = [one for part in statement.finalbody for one in inside(part, ast.Assign)]
                found.update(_restored(changed, stores))
                found.update(_undone(before, statement.finalbody, changed))
            elif isinstance(statement, ast.AugAssign) and source_text(statement.target) in twice:
                found.update(_undone(_after_exit(body[:index]), [statement], changed))
    return frozenset(found)


def _leaves(body: Iterable[ast.stmt], leaving: Sequence[type[ast.stmt]] = _LEAVING) -> bool:
    return any(inside(one, kind) for one in body for kind in leaving)


def _before_exit(body: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    """Return the statements at the start of a block, before the first one that may leave the block."""
    return body[: next((index for index, statement in enumerate(body) if _leaves([statement])), len(body))]


def _after_exit(body: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    """Return the statements at the end of a block, after the last one that may leave the block."""
    return body[max((index + 1 for index, statement in enumerate(body) if _leaves([statement])), default=0) :]


def _pairs(statement: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield the targets and values of an assignment: `old`, `self.mode` for `old, self.mode = self.mode, 1`."""
    for target in statement.targets if isinstance(statement, ast.Assign) else ():
        targets, values = elements(target), elements(statement.value)  # type: ignore[attr-defined]
        if len(targets) == len(values):
            for to, value in zip(targets, values, strict=True):
                if isinstance(value, (ast.Name, ast.Attribute, ast.Subscript)):
                    yield source_text(to), source_text(value)


def _restored(statements: Iterable[ast.stmt], end: Iterable[ast.stmt]) -> Iterator[str]:
    """Yield the state that gets its saved value back, and the name or attribute in which the value was saved. State
    that was changed before it was saved is left out."""
    saved: set[tuple[str, str]] = set()
    changed: set[str] = set()
    for statement in statements:
        saved.update((value, kept) for kept, value in _pairs(statement) if value not in changed)
        changed.update(map(source_text, targets_of(statement)))
    for pair in (pair for statement in end for pair in _pairs(statement)):
        if pair in saved:
            yield from pair


def _undone(begin: Iterable[ast.stmt], end: Iterable[ast.stmt], changed: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the numbers that are changed at the beginning, changed back at the end (`+= 1` and `-= 1`), and changed
    nowhere else."""
    augmented = [one for one in begin if isinstance(one, ast.AugAssign)]
    counted = {(source_text(one.target), type(one.op), source_text(one.value)) for one in augmented}
    writes = Counter(source_text(target) for one in changed for target in targets_of(one)) if counted else Counter()
    for one in end if counted else ():
        if isinstance(one, ast.AugAssign) and type(one.op) in _INVERSE:
            text, step = source_text(one.target), source_text(one.value)
            is_same = step not in writes and not any(name.id in writes for name in inside(one.value, ast.Name))
            if (text, _INVERSE[type(one.op)], step) in counted and is_same and writes[text] == 2:
                yield text


# an even number of times


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
    runs_on = not _raises_or_leaves(before) and (isinstance(last, ast.Return) or not _raises_or_leaves([last]))
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
    """Return whether the project uses a function's name only in its definition and in calls that run an even number of
    times."""
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
        if not _raises_or_leaves(body[:-1]):
            found += sum(count for count in calls.values() if is_even or count % 2 == 0)
    return found


def _even_loops(function: Definition) -> Iterator[Sequence[ast.stmt]]:
    """Yield the bodies of loops like `for _ in range(4):` whose number of iterations is even and that always run to
    their end."""
    for loop in inside(function, ast.For):
        rounds = re.fullmatch(r"range\((\d+)\)", source_text(loop.iter))
        if rounds is not None and int(rounds[1]) % 2 == 0 and not _raises_or_leaves(loop.body):
            yield loop.body


def _raises_or_leaves(body: Sequence[ast.stmt]) -> bool:
    return _leaves(body, (*_LEAVING, ast.Raise))
