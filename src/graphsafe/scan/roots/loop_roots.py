"""Loops around steps: finds the functions that replay a graph or train once per iteration, whatever their names are.

`step_takers.py` tells which calls take a step. The body of a loop with such a call runs in every step. A method that
itself replays or trains also runs in every step, since it is assumed that a loop elsewhere calls it. Lines around a
loop run once.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Set

from graphsafe.scan.domain.values import Value
from graphsafe.scan.hazards.graph_syntax import (
    LOOPS,
    MEASURES,
    ancestors,
    arguments_of,
    called_name,
    calls_in,
    is_capture,
    is_plain_replay,
    is_short,
    own,
    stored_names,
)
from graphsafe.scan.roots.graphed_names import GRAPHED
from graphsafe.scan.roots.hot_roots import HotnessRules, is_beside_modules
from graphsafe.scan.roots.kinds_of_loops import (
    LENGTHS,
    Body,
    ends_with_sequence,
    is_beside_steps,
    is_for_evaluation,
    is_over_validation_data,
    names_length,
    only_repeats,
    takes_length,
    turning,
)
from graphsafe.scan.roots.step_names import StepNames, may_take_step, takes_surely
from graphsafe.scan.roots.step_takers import StepTakers
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.index import FileIndex, FunctionFacts, dotted

Loops = tuple[int, ...]
"The first lines of the loops that run in every step. The tuple is empty if the whole function runs in every step."

IS_RUN = b"\nif __name__ =="
"Every file that is run as a script contains this code."
_LOOP = re.compile(rb"^\s*(?:async )?(?:while|for) ", re.M)
_BEGINS_LOOP = re.compile(r"\s*(?:async\s+)?(?:while|for)\b")
_PROGRESS_WORDS = b"tqdm", b"trange", b"progress_bar", b"alive_bar", b"track_"
_PROGRESS = re.compile(rb"\b(tqdm|trange|\w*progress_bar\w*|alive_bar|track_(\w+_)?progress|track_on_main_process)\b")
"""Matches calls that show progress. Every file with a match contains one of _PROGRESS_WORDS. A search for these words
is much faster than a search with the pattern."""
_RUNS_ONCE = re.compile(r"\.__call__$|Pipeline\.forward$")
"Matches methods that are a module's step, unless such a method generates a whole result."
_SCRIPT = re.compile(r"^(?:if|for|while|with|try)\b.*:$", re.M)
"Matches statements that begin or enclose a loop at module level."


def may_hold_loop(data: bytes, names: StepNames) -> bool:
    """Return whether a file may contain a loop around steps or a function that takes a step. Also return True for a
    script that calls such a function, and for a file that may make an object whose call replays or trains."""
    if names.may_be_made_in(data) or (IS_RUN in data and names.may_begin_in(data)):
        return True
    may_take = may_take_step(data) or names.may_be_called_in(data) or GRAPHED in data
    may_take = may_take or any(one.encode() in data for one in LENGTHS)
    return takes_surely(data) or (may_take and _LOOP.search(data) is not None)


class LoopRoots:
    """The loops around steps, file by file, and the scripts that make the loops' objects and start the loops."""

    def __init__(self, takers: StepTakers, paths: HotnessRules) -> None:
        self._takers = takers
        self._paths = paths
        self._known: dict[str, dict[str, Loops]] = {}

    def of(self, file: FileIndex) -> Mapping[str, Loops]:
        """Return the loops of each function. The function is `path::` for loops at module level."""
        if file.path not in self._known:
            self._known[file.path] = dict(self._found(file))
        return self._known[file.path]

    def loops_of(self, ref: str) -> Loops | None:
        """Return the loops of a function, or None if the function neither contains a step loop nor takes a step."""
        file = self._takers.engine.project.files.index(ref.partition("::")[0])
        return self.of(file).get(ref) if file is not None else None

    def objects_given(self, ref: str) -> dict[str, Value]:
        """Return the known objects that calls in the file pass to the parameters of a function with step loops."""
        path, _, name = ref.partition("::")
        file = self._takers.engine.project.files.index(path)
        return self._takers.of(file).objects_given(name) if file is not None else {}

    def generating(self, file: FileIndex) -> Set[str]:
        """Return the functions of a file that generate, and therefore run only once. Such a function contains a loop
        that generates, or calls another such function.

        A loop counts as one that generates if it runs a model without training or replaying, or if it shows its
        progress. Functions that are called only around such loops also run once. A function that trains in loops is
        left out, because another loop may call it. An agent's update is an example.
        """
        refs = [ref for ref, loops in self.of(file).items() if loops]
        takers = self._takers.of(file) if refs else None
        runs = {
            ref
            for ref in refs
            if takers and all(how == "runs" for _, how, _ in takers.steps_in(ref.partition("::")[2]))
        }
        found = {*runs, *self._showing_progress(file)}
        around = {
            name
            for ref in runs
            if takers
            for name in _called_around(takers.node(ref.partition("::")[2]), self.of(file)[ref])
        }
        lines = self._takers.engine.project.files.source(file.path).lines if found else ()
        new = set(found)
        while new:
            calls = re.compile("|".join(map(_own_call, sorted(new))))
            new = set()
            for name, facts in file.functions.items():
                ref = f"{file.path}::{name}"
                called = ("self." if facts.owner is not None else "") + name.rpartition(".")[2]
                if (
                    ref not in found
                    and ref not in self.of(file)
                    and (called in around or calls.search("\n".join(lines[facts.line : facts.end_line])))
                ):
                    new.add(ref)
            found |= new
        return found

    def is_pipeline(self, file: FileIndex, ref: str) -> bool:
        """Return whether a module's entry point generates a whole result. This is so for a method of a pipeline, and
        for an entry point with a loop that runs a model until the sequences are finished."""
        is_one = _RUNS_ONCE.search(ref) is not None or self._ends_with_sequences(file, ref)
        return is_one and ref in self.generating(file)

    def _ends_with_sequences(self, file: FileIndex, ref: str) -> bool:
        loops = self.of(file).get(ref)
        node = self._takers.engine.project.function_node(ref) if loops else None
        if not loops or node is None:
            return False
        return any(one.lineno in loops and ends_with_sequence(one) for kind in LOOPS for one in inside(node, kind))

    def _showing_progress(self, file: FileIndex) -> Set[str]:
        """Return the functions that show progress, the functions that receive the length of the result, and `__call__`
        of pipelines. Each of them takes many steps, or one long step."""
        project = self._takers.engine.project
        data = project.files.data(file.path) or b""
        shows = any(word in data for word in _PROGRESS_WORDS)
        lines = enumerate(project.files.source(file.path).lines, 1) if shows else ()
        found = [at for at, line in lines if _PROGRESS.search(line.encode())]
        generates = names_length(project.files.source(file.path).text)
        told = {name for name in file.functions if generates and takes_length(project, file, name)}
        return {
            f"{file.path}::{name}"
            for name, facts in file.functions.items()
            if name in told or name.endswith("Pipeline.__call__") or any(facts.holds(at) for at in found)
        }

    def scripts(self, file: FileIndex) -> Iterator[str]:
        """Yield the functions of a file that call functions with step loops, or make objects whose methods have step
        loops."""
        data = self._takers.engine.project.files.data(file.path) or b""
        if MEASURES.search(file.module) or not (self.of(file) or self._takers.names.may_begin_in(data)):
            return
        names = [name for name in (*file.functions, *file.classes, *file.imports) if "." not in name]
        begun = [name.encode() + b"(" for name in names if name.encode() + b"(" in data and self._begins(file, name)]
        project = self._takers.engine.project
        lines = project.files.source(file.path).lines
        for name, facts in file.functions.items() if begun else ():
            text = "\n".join(lines[facts.line : facts.end_line]).encode()
            is_script = facts.owner is None and not MEASURES.search(name) and any(each in text for each in begun)
            if is_script and not self._paths.is_cold(file.path, file.module, facts):
                node = project.function_node(f"{file.path}::{name}")
                if node is not None and _passes_on(node):
                    yield f"{file.path}::{name}"

    def _begins(self, file: FileIndex, name: str) -> bool:
        """Return whether a name in a file refers to a function with a step loop, or to a class whose methods have step
        loops."""
        project = self._takers.engine.project
        binding = project.resolve(file, name)
        if binding is None or binding.kind not in ("function", "class"):
            return False
        if binding.kind == "function":
            return self.loops_of(binding.ref) is not None
        for cls in project.mro(binding.ref):
            owner = project.files.index(cls.partition("::")[0]) if "::" in cls else None
            if owner is not None and any(ref.startswith(f"{cls}.") for ref in self.of(owner)):
                return True
        return False

    def _found(self, file: FileIndex) -> Iterator[tuple[str, Loops]]:
        data = self._takers.engine.project.files.data(file.path) or b""
        module = file.module.rpartition(".")[2]
        replays = b".replay(" in data
        is_beside = is_beside_modules(self._paths.relative(file.path), replays) or is_beside_steps(module, replays)
        if is_beside or not may_hold_loop(data, self._takers.names):
            return
        found = _File(self._takers, file)
        for name, loops in found.loops():
            facts = file.functions.get(name)
            if any(is_beside_steps(text, found.replays(name)) for text in (module, name)):
                continue
            if facts is None or not self._paths.is_cold(file.path, file.module, facts):
                yield f"{file.path}::{name}", loops


def _is_epochs(loop: ast.stmt, others: Set[ast.stmt]) -> bool:
    """Return whether a loop encloses whole epochs: it counts epochs and contains a training loop, or it contains a loop
    that counts epochs. The outer loop may also run the model itself, to evaluate or to make the inputs of all
    epochs."""
    last = loop.end_lineno or loop.lineno
    held = [other for other in others if loop.lineno < other.lineno <= last]
    if any(isinstance(other, ast.For) and "epoch" in ast.unparse(other.target) for other in held):
        return True
    return bool(held) and _counts_epochs(loop)


def _counts_epochs(loop: ast.stmt) -> bool:
    return isinstance(loop, ast.For) and "epoch" in f"{ast.unparse(loop.target)} {ast.unparse(loop.iter)}"


def _passes_on(script: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function makes values itself and passes them to a call. A call that only passes on the caller's
    parameters does not show which values these are."""
    made = stored_names(own(script, ast.Name))
    return any(
        isinstance(one, ast.Call) or (isinstance(one, ast.Name) and one.id in made)
        for call in own(script, ast.Call)
        for one in arguments_of(call)
    )


def _own_call(ref: str) -> str:
    """Return a pattern for calls of a function in its own class or file."""
    owner, _, name = ref.partition("::")[2].rpartition(".")
    if name == "__call__":
        return r"\bself(?:\.__call__)?\("
    return rf"\bself\.{name}\(" if owner else rf"(?<![\w.]){name}\("


def _called_around(body: Body, loops: Loops) -> set[str]:
    """Return the names of the functions that are called outside of these loops but not inside them."""
    within = [node for node in ast.walk(body) if isinstance(node, ast.stmt) and node.lineno in loops]
    return {dotted(call.func) or "" for call in inside(body, ast.Call)} - {
        dotted(call.func) or "" for call in calls_in(within)
    }


class _File:
    """The loops of one file."""

    def __init__(self, takers: StepTakers, file: FileIndex) -> None:
        self._takers = takers.of(file)
        self._file = file
        self._project = takers.engine.project
        self._text = self._project.files.source(file.path).text

    def loops(self) -> Iterator[tuple[str, Loops]]:
        """Yield the functions that run in every step, each with its loops. An empty name stands for the module
        level."""
        generates = names_length(self._text)
        for name, facts in self._file.functions.items():
            is_told = generates and takes_length(self._project, self._file, name)
            if not self._takers.is_read(name) and not is_told:
                continue
            loops = self._loops_in(name, facts) or (tuple(turning(self._takers.node(name))) if is_told else ())
            strength = self._takers.takes.get(name)
            is_step = bool(loops) and self._steps_outside_loops(name)
            if loops and not is_step:
                yield name, loops
            elif is_step or (
                strength in ("replays", "trains") and not self._prepares(name) and self._may_be_called_in_loop(name)
            ):
                yield name, ()
        if _SCRIPT.search(self._text) is not None and self._has_own_loop():
            loops = self._loops_in("", None)
            if loops:
                yield "", loops

    def _has_own_loop(self) -> bool:
        """Return whether a line outside all functions may begin a loop. This avoids parsing the whole file."""
        begins = (number for number, line in enumerate(self._text.split("\n"), 1) if _BEGINS_LOOP.match(line))
        functions = self._file.functions.values()
        return any(not any(facts.holds(line) for facts in functions) for line in begins)

    def replays(self, name: str) -> bool:
        """Return whether a function, or a loop in it, replays a graph."""
        return self._takers.takes.get(name) == "replays" or any(
            strength == "replays" for _, strength, _ in self._takers.steps_in(name)
        )

    def _may_be_called_in_loop(self, name: str) -> bool:
        """Return whether a loop may call a function. This is assumed for methods, and for functions with more than one
        argument.

        A script's `main` runs once, and so does a function that makes the graphs.
        """
        node = self._takers.node(name)
        if self._file.functions[name].owner is not None or isinstance(node, ast.Module):
            return self._file.functions[name].owner is not None
        return len(node.args.args) > 1 and name != "main" and not self._takers.makes_graphs(name)

    def _prepares(self, name: str) -> bool:
        """Return whether a function captures whenever it runs.

        A function that captures only under a condition (`if self.graph is None: …`) and then replays is a step.
        """
        if not self._file.functions[name].captures:
            return False
        parents = self._takers.parents(name)
        blocks = [
            one for one in parents if isinstance(one, (ast.With, ast.AsyncWith)) and any(map(is_capture, one.items))
        ]
        around = [next((one for one in ancestors(block, parents) if isinstance(one, ast.If)), None) for block in blocks]
        captured = {inner for branch in around if branch for one in branch.body for inner in ast.walk(one)}
        replays = [call for call in parents if is_plain_replay(call)]
        return not blocks or None in around or all(call in captured for call in replays)

    def _loops_in(self, name: str, facts: FunctionFacts | None) -> Loops:
        """Return the first lines of the innermost loops around calls that take a step."""
        captures = self._file.captures if facts is None else facts.captures
        # A loop in code that captures is a warm-up, unless the loop replays, or trains after the capture. In a loop
        # with only a few iterations, only the changes of state are recorded (statements.py).
        around = [
            (loop, strength)
            for call, strength, loop in self._takers.steps_in(name)
            if loop is not None
            and not is_over_validation_data(loop)
            and not (_counts_epochs(loop) and "epoch" in called_name(call))
            and (not is_short(loop) or (strength == "replays" and not captures))
            and (
                strength == "replays" or not captures or (strength == "trains" and self._is_after_captures(name, loop))
            )
        ]
        surely = {loop for loop, strength in around if strength != "runs"}
        parents = self._takers.parents(name)
        return tuple(
            sorted(
                {
                    loop.lineno
                    for loop, _ in around
                    if loop in surely or not (_is_epochs(loop, surely) or (surely and is_for_evaluation(loop, parents)))
                }
            )
        )

    def _is_after_captures(self, name: str, loop: ast.stmt) -> bool:
        """Return whether a loop begins after the captures of its function. `make_graphed_callables` is a
        capture too."""
        ends = [
            node.end_lineno or node.lineno
            for node in self._takers.parents(name)
            if (isinstance(node, (ast.With, ast.AsyncWith)) and any(map(is_capture, node.items)))
            or (isinstance(node, ast.Call) and called_name(node) == "make_graphed_callables")
        ]
        return bool(ends) and max(ends) < loop.lineno

    def _steps_outside_loops(self, name: str) -> bool:
        """Return whether a method replays or updates the weights outside its loops. The whole method is then a step."""
        if self._prepares(name) or not self._may_be_called_in_loop(name):
            return False
        return any(
            strength in ("replays", "trains")
            and (loop is None or (only_repeats(loop, call) and self._is_called_in_loop(name)))
            for call, strength, loop in self._takers.steps_in(name)
        )

    def _is_called_in_loop(self, name: str) -> bool:
        last = name.rpartition(".")[2]
        loops = [
            loop
            for other in self._file.functions
            for loop in self._takers.parents(other)
            if isinstance(loop, (ast.For, ast.While)) and not is_short(loop)
        ]
        return any(called_name(call) == last for loop in loops for call in calls_in(loop.body))
