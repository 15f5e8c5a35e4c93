"""The tests of an `if` whose branch only a first step takes, as in `if self.plan is None:`."""

from __future__ import annotations

import ast

from graphsafe.scan.execution.frame import LazyTest
from graphsafe.scan.sources.node_memo import memoize_on_node
from graphsafe.scan.state.first_step import lazy_tests, returned_if_there, size_tests
from graphsafe.scan.state.provenance import capacity_tests, has_alternative


@memoize_on_node
def asks_remainder(test: ast.expr) -> bool:
    """Return whether a test is `step % 100 == 0`, perhaps with more conditions, so that few iterations of a loop pass
    the test."""
    return any(isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mod) for inner in ast.walk(test))


@memoize_on_node
def around_branch(node: ast.If, branch: bool) -> tuple[LazyTest, ...]:
    """Return the tests that lead to a branch."""
    alone = not branch or not has_alternative(node.test)
    found = [LazyTest(text, node.lineno, alone) for text in lazy_tests(node.test, branch)]
    found += [LazyTest(f"size of {text}", node.lineno) for text in size_tests(node.test, branch)]
    if branch:
        found += [LazyTest(text, node.lineno) for text in capacity_tests(node.test)]
    return tuple(found)


@memoize_on_node
def after_leaving(node: ast.If, branch: bool) -> tuple[LazyTest, ...]:
    """Return the tests that the code after an `if` implies, because the branch leaves the function: `if self.plan is
    not None: return self.plan`."""
    missing = [*lazy_tests(node.test, not branch), *capacity_tests(node.test)]
    missing += returned_if_there(node) if branch else ()
    return tuple(LazyTest(text, node.lineno) for text in missing)
