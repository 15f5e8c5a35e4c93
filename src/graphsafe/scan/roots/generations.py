"""Generations of whole sequences: functions that receive the length of the result, and loops that end when the result
is complete.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from graphsafe.scan.hazards.graph_syntax import LOOPS
from graphsafe.scan.roots.step_takers import Body
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.index import FileIndex
from graphsafe.scan.symbols.project import Project

LENGTHS = "max_new_tokens", "num_inference_steps", "stopping_criteria"
"Parameters of functions that generate a whole result. They limit the length of the result."
_ENDED = re.compile(r"(?<![^\W_])(un)?(finished|eos|eot|(end|stop)_?(id|tok(en)?)s?)(?![^\W_])", re.I)
"Matches words in names of values that show which sequences are complete."


def ends_with_sequence(loop: ast.stmt) -> bool:
    """Return whether a loop ends as soon as the sequences are complete: `if finished.all(): break`."""
    if isinstance(loop, ast.While) and _ENDED.search(ast.unparse(loop.test)) is not None:
        return True
    return any(_ENDED.search(ast.unparse(test)) is not None for test in _tests_of_ends(getattr(loop, "body", ())))


def _tests_of_ends(body: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """Yield the tests of the branches that leave a loop, given the body of the loop."""
    waiting = [*body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and any(isinstance(one, ast.Break) for one in node.body):
            yield node.test
        if not isinstance(node, (*LOOPS, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            waiting += ast.iter_child_nodes(node)


def takes_length(project: Project, file: FileIndex, name: str) -> bool:
    """Return whether a function receives the length of the result, or passes it to another function."""
    facts = file.functions[name]
    lines = project.files.source(file.path).lines_of(facts.line, facts.end_line)
    node = project.function_node(f"{file.path}::{name}") if any(map(names_length, lines)) else None
    if node is None:
        return False
    words = [one.arg for one in inside(node.args, ast.arg)]
    words += [word.arg or "" for call in inside(node, ast.Call) for word in call.keywords]
    return any(word in LENGTHS for word in words)


def names_length(text: str) -> bool:
    return any(word in text for word in LENGTHS)


def turning(body: Body) -> Iterator[int]:
    """Yield the first lines of the outer loops of a function that receives the length of the result. These are `while`
    loops, and `for` loops over the length."""
    waiting: list[ast.AST] = [*body.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.While) or (isinstance(node, ast.For) and names_length(ast.unparse(node.iter))):
            yield node.lineno
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.For, ast.AsyncFor)):
            waiting += ast.iter_child_nodes(node)
