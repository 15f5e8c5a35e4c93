"""Finds arguments of a step that only its capture reads: every replay goes on with those of the first call.

`if self.graph is None: self.cache = cache; …capture…` in a function that then replays is right if each call brings the
same cache. If the function copies its other arguments for the replay, it has forgotten this one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterator, Mapping, Sequence, Set

from graphsafe.scan.hazards.graph_syntax import Function, is_capture, is_plain_replay, own_nodes, place, written
from graphsafe.scan.hazards.key_names import parameters

_LEAVES = (ast.Return, ast.Raise, ast.Continue)
_LASTING = re.compile(r"stream|pool|graph|model|module|callable|config|device|^f(n|unc)?$|warm", re.I)
"Arguments that every call brings alike, by their name or annotation."


def lines(function: Function) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Yield the condition of a capture on demand, with the argument that it does not ask for."""
    parents = {child: parent for parent, child in own_nodes(function)}
    blocks = [
        node for node in parents if isinstance(node, (ast.With, ast.AsyncWith)) and any(map(is_capture, node.items))
    ]
    replays = [node for node in parents if isinstance(node, ast.Call) and is_plain_replay(node)] if blocks else []
    for block in blocks if replays else ():
        branch, side = _branch(block, parents)
        inside = {node for statement in side for node in ast.walk(statement)}
        if branch is None or all(replay in inside for replay in replays):
            continue
        early = {node for test in _left_before(branch, parents) for node in ast.walk(test)}
        later = [node for node in ast.walk(function) if node not in inside and node not in early]
        used = {node.id for node in later if isinstance(node, ast.Name)}
        forgotten = (_frozen(block, side) & _given(function).keys()) - used
        if forgotten and any(_copies(node, _given(function)) for node in later):
            yield _decision(branch, function), next(one for one in _given(function) if one in forgotten)


def _branch(block: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> tuple[ast.If | None, Sequence[ast.stmt]]:
    """Return the innermost `if` around a block, and the statements of its side."""
    while block in parents:
        parent = parents[block]
        if isinstance(parent, ast.If):
            return parent, parent.body if block in parent.body else parent.orelse
        block = parent
    return None, ()


def _left_before(branch: ast.If, parents: Mapping[ast.AST, ast.AST]) -> Iterator[ast.If]:
    """Yield the tests before a branch whose body leaves the function: what they read no replay reads."""
    body = getattr(parents[branch], "body", ())
    for statement in body if branch in body else ():
        if statement is branch:
            return
        if isinstance(statement, ast.If) and not statement.orelse and isinstance(statement.body[-1], _LEAVES):
            yield statement


def _frozen(block: ast.With | ast.AsyncWith, side: Sequence[ast.stmt]) -> Set[str]:
    """Return the names that a captured block reads, also in a function inside, or by an attribute that the side
    assigns."""
    read = [node for statement in block.body for node in ast.walk(statement)]
    called = {node.func.id for node in read if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    nodes = [node for statement in side for node in ast.walk(statement)]
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and node.name in called:
            read += ast.walk(node)
    texts = {place(node) for node in read if isinstance(node, (ast.Name, ast.Attribute))} - called
    texts |= {
        place(node.value)
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and place(node.targets[0]) in texts
    }
    return {text for text in texts if text is not None}


def _given(function: Function) -> Mapping[str, ast.arg]:
    """Return the arguments that calls may bring anew, in their order."""
    return {
        one.arg: one
        for one in parameters(function)
        if one.arg not in ("self", "cls")
        and not _LASTING.search(one.arg)
        and not (one.annotation is not None and _LASTING.search(ast.unparse(one.annotation)))
    }


def _copies(node: ast.AST, given: Container[str]) -> bool:
    """Return whether a line puts an argument into a tensor that is there: `self.ids.copy_(ids)`."""
    if not isinstance(node, (ast.Assign, ast.Call)):
        return False
    target = written(node)
    if target is None or (isinstance(node, ast.Assign) and not isinstance(target, ast.Subscript)):
        return False
    values = [node.value] if isinstance(node, ast.Assign) else node.args
    return any(isinstance(inner, ast.Name) and inner.id in given for one in values for inner in ast.walk(one))


def _decision(branch: ast.If, function: Function) -> ast.expr | ast.stmt:
    """Return the line that decides whether to capture: the test, or the assignment to the name that it asks."""
    test = branch.test.operand if isinstance(branch.test, ast.UnaryOp) else branch.test
    made = [
        node
        for _, node in own_nodes(function)
        if isinstance(node, ast.Assign) and isinstance(test, ast.Name) and [*map(place, node.targets)] == [test.id]
    ]
    return made[0] if len(made) == 1 else branch.test
