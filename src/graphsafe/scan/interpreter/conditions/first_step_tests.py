"""What an `if` asks for that only a first step finds missing or too small: `if self.plan is None:`."""

from __future__ import annotations

import ast

from graphsafe.scan.checks.first_step import lazy_tests, returned_if_there, size_tests
from graphsafe.scan.checks.provenance import capacity_tests, has_alternative
from graphsafe.scan.interpreter.call_frame import LazyTest
from graphsafe.scan.sources.node_memo import memoize_on_node


@memoize_on_node
def around_branch(node: ast.If, branch: bool) -> tuple[LazyTest, ...]:
    """The tests under which a branch stands."""
    alone = not branch or not has_alternative(node.test)
    found = [LazyTest(text, node.lineno, alone) for text in lazy_tests(node.test, branch)]
    found += [LazyTest(f"size of {text}", node.lineno) for text in size_tests(node.test, branch)]
    if branch:
        found += [LazyTest(text, node.lineno) for text in capacity_tests(node.test)]
    return tuple(found)


@memoize_on_node
def after_leaving(node: ast.If, branch: bool) -> tuple[LazyTest, ...]:
    """The tests under which the rest stands where a branch leaves: `if self.plan is not None: return self.plan`."""
    missing = [*lazy_tests(node.test, not branch), *capacity_tests(node.test)]
    missing += returned_if_there(node) if branch else ()
    return tuple(LazyTest(text, node.lineno) for text in missing)


__all__ = ["after_leaving", "around_branch"]
