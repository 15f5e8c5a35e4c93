"""Which hot lines a graph will hold, and which are host code around the graphs, in every step."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set

from graphsafe.report.model import Region
from graphsafe.scan.checks.replay_site import is_capture, own_nodes
from graphsafe.scan.domain.record import AROUND_GRAPHS, Record
from graphsafe.scan.linting.call_graph import CallGraph
from graphsafe.scan.roots.assumed_roots import BY_FORM, PUBLIC, RESULTS
from graphsafe.scan.roots.hot_roots import FORWARD
from graphsafe.scan.symbols.index import dotted
from graphsafe.scan.symbols.project import Project

Lines = tuple[int, int]
"The first and the last."


class Regions:
    """A function that replays a graph is not in one itself, whoever calls it; neither is what only it calls."""

    def __init__(self, project: Project, record: Record, calls: CallGraph, with_graphs: Set[str]) -> None:
        """`with_graphs`: the files of packages that capture or replay graphs themselves."""
        self._project = project
        self._blocks: dict[str, list[Lines]] = {}
        "Function -> the blocks in it that capture."
        hot = {*record.edges, *record.roots}
        replaying = {ref for ref in hot if self._replays(ref)}
        # Where nothing captures, an engine's entry point is what its users may capture.
        # Where something captures, what only looks like a step is not what is captured; elsewhere users may capture it.
        around = (AROUND_GRAPHS, *BY_FORM)
        # What users of a package with modules capture is these; its public functions may as well stand around them.
        with_modules = {self._package(ref) for ref, why in record.roots.items() if why == FORWARD}
        begun = [
            ref
            for ref, why in record.roots.items()
            if ref not in replaying
            # What gives the host numbers waits for them: nobody captures it as a whole.
            and why != RESULTS
            and not (why == PUBLIC and self._package(ref) in with_modules)
            and not (why in around and ref.partition("::")[0] in with_graphs)
        ]
        for ref in hot:
            facts = project.function_facts(ref)
            if facts is not None and facts.captures:
                self._blocks[ref] = list(self._captured_lines(ref))
                begun += calls.called_in(ref, self._blocks[ref])
        self._captured = calls.reached(begun, without=replaying)
        self._hot = hot

    def of(self, ref: str, line: int) -> Region | None:
        """None for code that no step runs."""
        if ref in self._captured or any(first <= line <= last for first, last in self._blocks.get(ref, ())):
            return "captured"
        return "step" if ref in self._hot else None

    def _package(self, ref: str) -> str:
        """The outermost package of a function's module, or the module itself."""
        return self._project.files.names[ref.partition("::")[0]][0].partition(".")[0]

    def _replays(self, ref: str) -> bool:
        file = self._project.files.overview(ref.partition("::")[0])
        node = self._project.function_node(ref) if file is not None and file.replays else None
        return node is not None and any(_is_replay(inner) for _, inner in own_nodes(node))

    def _captured_lines(self, ref: str) -> Iterator[Lines]:
        node = self._project.function_node(ref)
        for _, block in own_nodes(node) if node is not None else ():
            if isinstance(block, (ast.With, ast.AsyncWith)) and any(map(is_capture, block.items)):
                yield block.body[0].lineno, block.end_lineno or block.lineno


def _is_replay(call: ast.AST) -> bool:
    """`graph.replay()`, or what an engine's runner of graphs has: `self.graph_runner.replay(batch)`."""
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "replay"):
        return False
    return not (call.args or call.keywords) or "graph" in (dotted(call.func.value) or "")
