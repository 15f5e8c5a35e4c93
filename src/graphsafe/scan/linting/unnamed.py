"""Finds functions to which only doubtful roots lead.

A root is doubtful if nothing in the project names its function or class (namings.py), or if nothing calls its method. A
public function or a metric is also doubtful if code of the project names it, but only code outside steps: a
constructor, or a function that evaluates a model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from graphsafe.scan.domain.record import AROUND_GRAPHS, ENTRY_POINT, TARGET
from graphsafe.scan.linting.call_graph import CallGraph
from graphsafe.scan.linting.namings import Namings
from graphsafe.scan.roots.assumed_roots import ENTRY, OPERATOR, PUBLIC, RESULTS
from graphsafe.scan.roots.hot_roots import BY_LIBRARY, METRIC, HotnessRules
from graphsafe.scan.roots.public_functions import LOADS
from graphsafe.scan.sources.documents import Documents
from graphsafe.scan.sources.node_memo import memoize_method
from graphsafe.scan.symbols.blocks import parameters
from graphsafe.scan.symbols.project import Project

_EVALUATES = re.compile(r"(?<![^\W_])eval(uates?|uations?)?(?![^\W_])")
"Matches words in names of functions that evaluate a model."
_TRAINS = re.compile(r"(?<![^\W_])(train\w*|fit|run)(?![^\W_])")
"Matches words in names of functions that train a model for an epoch."
_NAMED_ELSEWHERE = (ENTRY_POINT, AROUND_GRAPHS, BY_LIBRARY, OPERATOR, ENTRY)
"Reasons for roots that a library or an engine calls by a known name, and for roots that are entries of a table."
_UNNAMED = ", which nothing in the project names"
_OUTSIDE_STEPS = ", which the project names only outside steps"


class UnnamedCode:
    """The functions to which only doubtful roots lead: unnamed definitions, and functions that run outside steps."""

    def __init__(
        self,
        project: Project,
        paths: HotnessRules,
        roots: Mapping[str, str],
        calls: CallGraph,
        documents: Documents | None,
    ) -> None:
        """`roots` gives the reason for each root. If `documents` is None, no definition counts as unnamed."""
        self._project = project
        self._paths = paths
        self._roots = roots
        self._calls = calls
        self._searches_names = documents is not None
        self._namings = Namings(project.files, documents or Documents(()))

    @memoize_method
    def doubt(self, ref: str) -> str:
        """Return why every root that leads to a function is doubtful, or an empty string. In messages, the text follows
        the reason for the root."""
        waiting, seen = [ref], {ref}
        found: set[str] = set()
        while waiting:
            one = waiting.pop()
            doubt = self._doubt_of_root(one) if one in self._roots else None
            if doubt == "":
                return ""
            is_unnamed = self._is_unnamed(one)
            if doubt is not None or is_unnamed:
                found.add(doubt or _UNNAMED)
            if is_unnamed and doubt in (None, _UNNAMED):
                continue  # no call reaches a definition that nothing names
            callers = {caller for caller, _ in self._calls.callers(one)} - seen
            seen |= callers
            waiting += callers
        return max(found, default="")

    @memoize_method
    def _doubt_of_root(self, root: str) -> str:
        why = self._roots[root]
        path, _, name = root.partition("::")
        if why in _NAMED_ELSEWHERE or why.startswith(TARGET) or not name:
            return ""
        facts = self._project.function_facts(root)
        if facts is not None and self._paths.hot_because(path, self._project.module_of(path), facts) is not None:
            return ""
        if self._searches_names and not self._namings.is_named(path, name.partition(".")[0]):
            return _UNNAMED
        if (
            self._searches_names
            and why == PUBLIC
            and "." in name
            and not self._namings.is_called(name.rpartition(".")[2])
        ):
            return _UNNAMED
        is_doubtful = why in (PUBLIC, RESULTS, METRIC)
        return _OUTSIDE_STEPS if is_doubtful and self._is_outside_steps(path, _called(name, why)) else ""

    def _is_unnamed(self, ref: str) -> bool:
        path, _, name = ref.partition("::")
        return self._searches_names and bool(name) and not self._namings.is_named(path, name.partition(".")[0])

    def _is_outside_steps(self, path: str, name: str) -> bool:
        """Return whether the project names a function or class, but only in functions that run outside steps, or in
        functions that are themselves named only there."""
        waiting, seen = [(path, name)], {(path, name)}
        is_named_there = False
        while waiting:
            users = {*self._namings.users_of(*waiting.pop())}
            if not users:
                return False
            for user in users:
                if user is None:
                    return False
                if self._is_cold(user):
                    is_named_there = True
                elif self._is_hot(user) and self._roots.get(user) not in (PUBLIC, RESULTS):
                    return False
                else:
                    other, _, qualified = user.partition("::")
                    further = {(other, qualified.rpartition(".")[2])} - seen
                    seen |= further
                    waiting += further
        return is_named_there

    def _is_cold(self, ref: str) -> bool:
        path, _, name = ref.partition("::")
        facts = self._project.function_facts(ref)
        is_cold = facts is not None and self._paths.is_cold(path, self._project.module_of(path), facts)
        evaluates = _EVALUATES.search(name) is not None or self._takes_epoch_alone(ref, name)
        return is_cold or (evaluates and not self._is_hot(ref)) or LOADS.search(name) is not None

    def _takes_epoch_alone(self, ref: str, name: str) -> bool:
        """Return whether a function has no parameter except the epoch. If it does not train, it runs between epochs."""
        node = self._project.function_node(ref) if _TRAINS.search(name) is None else None
        return node is not None and [one.arg for one in parameters(node) if one.arg != "self"] == ["epoch"]

    def _is_hot(self, ref: str) -> bool:
        return ref in self._roots or bool(self._calls.callers(ref))


def _called(name: str, why: str) -> str:
    """Return the name under which code uses a root: for a metric, the name of its class, otherwise the name of the
    function."""
    parts = name.split(".")
    return parts[0] if why == METRIC else parts[-1]
