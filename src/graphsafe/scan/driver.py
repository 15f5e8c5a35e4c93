"""Reads a project from the roots of each file, and records all code that the roots lead to.

A root is a function at which hot code (code that runs in every step) begins.

All files share one engine, since models share nearly all of the code that they run. The engine's answers do not depend
on the order in which files and roots are read, so several processes can each read a part (`reading_pool.py`). When all
roots have been read, the processes exchange three kinds of facts: the functions that are called, the values that
constructor calls give to attributes, and the values that are passed to methods whose class is not known. A second round
of reading uses the last two facts.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Literal

from graphsafe.config import Config
from graphsafe.rulebook.book import Rulebook
from graphsafe.scan.domain.arguments import Arguments, Call, arguments_of
from graphsafe.scan.domain.frozen import dataclass
from graphsafe.scan.domain.record import AROUND_GRAPHS, ENTRY_POINT, LOOP, PASSING_HOOK, Failure, Record, reason_weight
from graphsafe.scan.domain.summary import Summary
from graphsafe.scan.domain.values import (
    NONE,
    Function,
    Instance,
    Passed,
    Tensor,
    Value,
    holds_device,
    is_for_host,
)
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards import made_twice, replay_site
from graphsafe.scan.hazards.outputs.givers import imports_runners
from graphsafe.scan.interpreter import statements
from graphsafe.scan.interpreter.interpreter import Interpreter
from graphsafe.scan.learnt import NO_REASON, Learnt, Reason, whys_together
from graphsafe.scan.linting.fresh_starts import FROM_FACTORY
from graphsafe.scan.linting.gather import (
    called_in,
    constructions,
    gather,
    include,
    included,
    joined,
    new_roots,
    on_host,
    passed_by_name,
)
from graphsafe.scan.roots.assumed_roots import (
    BY_FORM,
    FACTORY,
    PERHAPS,
    PUBLIC,
    RESULTS,
    RUNS_ONCE,
    UNCALLED,
    assumed_roots_of,
)
from graphsafe.scan.roots.between_steps import changing_methods, comes_again, has_threads
from graphsafe.scan.roots.candidate_files import TARGETS, Candidates
from graphsafe.scan.roots.capture_sites import capture_sites
from graphsafe.scan.roots.factories import assembling, closures_made, configured_factories, factories_of, steps_made
from graphsafe.scan.roots.hot_roots import COLD_PATHS, FORWARD, HotnessRules, is_graphed, roots_of
from graphsafe.scan.roots.loop_roots import LoopRoots
from graphsafe.scan.roots.module_search import has_module
from graphsafe.scan.roots.public_functions import loops_of_run
from graphsafe.scan.roots.step_takers import StepTakers
from graphsafe.scan.sources.source import parse
from graphsafe.scan.symbols.blocks import parameters
from graphsafe.scan.symbols.index import FunctionFacts
from graphsafe.scan.symbols.project import MAX_BASES, Project
from graphsafe.scan.symbols.project_files import Files

StepKind = Literal[
    "root", "closure", "public", "perhaps", "factory", "loops", "script", "site", "target", "between", "file"
]
"""The kinds of steps.

A function of kind `root`, `closure` or `public` is certainly a root. A `perhaps` function is a root only if it returns
tensors. A `factory` makes roots. `loops` are the loops of a function that runs once. A `script` makes objects and
starts loops. A `site` is a function that contains a capture. A `target` is the factory of a configured target. A
`between` method runs between steps. A `file` holds the facts that were recorded while a file was searched for roots.
"""
_ASSUMED_KINDS: Mapping[str, StepKind] = {PUBLIC: "public", PERHAPS: "perhaps", FACTORY: "factory"}


@dataclass(frozen=True, slots=True)
class Step:
    """A place where reading begins: a root, a function that captures, or a target's factory, for example. This is not a
    step of the user's program."""

    kind: StepKind
    ref: str
    receiver: Value | None = None
    guarded: bool = False
    given: Passed | None = None
    "The arguments of the call, if known."
    loops: tuple[int, ...] = ()
    "For a function that runs once: the loops whose body runs in every step."

    @property
    def is_shareable(self) -> bool:
        """Whether any process can read the step. This is so if the step refers neither to syntax trees nor to targets,
        which belong to one process."""
        receiver = self.receiver
        is_plain = receiver is None or (type(receiver) is Instance and receiver.given is None)
        return is_plain and self.given is None and self.kind != "target"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of one process after both rounds."""

    record: Record
    whys: Mapping[str, Reason]


class Driver:
    def __init__(self, files: Files, config: Config, rulebook: Rulebook, candidates: Candidates) -> None:
        self.project = Project(files)
        self._config = config
        self._rulebook = rulebook
        self._paths = HotnessRules(config)
        self._candidates = candidates
        self._cold: dict[str, bool] = {}
        self._engine = Interpreter(
            self.project, rulebook.ops, self._is_cold, rulebook.libraries, candidates.scope, self._is_named_cold
        )
        self._loops = LoopRoots(StepTakers(self._engine, candidates.step_names), self._paths)
        self._engine.loops_of = self._loops.loops_of
        self._engine.applied = candidates.applied
        self._targets: dict[str, str] = {}
        "Factory -> the reason why the step that it returns is a root."
        self._replaying: set[str] = set()
        "The files that capture or replay a graph."
        self._holding: set[str] = set()
        "The files that import a class from a file that replays a graph."
        self._preparing: set[str] = set()
        "The files that may assign different tensors for a capture and for the steps (made_twice.py)."
        self._whys: dict[str, Reason] = {}
        self._looked_for_roots: list[str] = []
        "The files in which this process has looked for roots."
        self._read: dict[Step, Summary] = {}
        self._looked_into: set[tuple[int, bool]] = set()
        "The ids of summaries whose new roots are known. `_read` keeps these summaries alive, so their ids stay unique."
        self._on_host: Mapping[str, Mapping[str, Tensor]] = {}
        "Method (ref, or name if calls show only the name) -> parameter -> the host tensor that calls pass to it."
        self.record = Record()

    @property
    def is_budget_spent(self) -> bool:
        """Whether a scan of a few files stopped early, because too much code leads to these files."""
        return self._engine.budget.is_spent()

    def look_into(self, path: str) -> list[Step]:
        """Return the steps that a file contains. For TARGETS, return the configured targets. Failures are recorded."""
        if path == TARGETS:
            self._targets.update(configured_factories(self.project, self._config))
            return [Step("target", ref) for ref in self._targets]
        self._looked_for_roots.append(path)
        steps: list[Step] = []
        found = self._engine.collect(lambda: self._look_into(path, steps), f"{path}::")
        if found.items:
            self._read[Step("file", path)] = found
        return steps

    def read(self, steps: Iterable[Step]) -> None:
        """Read these steps and all steps that they lead to."""
        waiting = [*steps]
        while waiting:
            waiting += self.take(waiting.pop())

    def finish(self) -> None:
        """Read the functions that are assumed to run in a step, compute doubtful answers again, and make the record."""
        self.read(self.assumed(self.reached()))
        self.read(self.again(self.learnt()))
        self.conclude([self.outcome()])

    def reached(self) -> frozenset[str]:
        """Return the roots, and the functions that hot code calls, in the part that this process has read."""
        return frozenset(called_in(included(self._read.values()))).union(self._whys)

    def learnt(self) -> Learnt:
        summaries = [*included(self._read.values())]
        composed = self._engine.attributes.composed
        return Learnt(self._whys, passed_by_name(summaries), constructions(summaries, composed))

    def again(self, learnt: Learnt) -> list[Step]:
        """Return the steps of the second round, which uses the facts that all processes found in the first round."""
        engine = self._engine
        self._whys = dict(learnt.whys)
        self._on_host = on_host(learnt.passed)
        engine.attributes.learn(learnt.constructions)
        engine.invalidate(self._may_have_changed)
        # Closures are left out: the second round finds them again, with the values that their variables have then.
        steps = [step for step in self._read if step.kind not in ("file", "closure")]
        self._read = {step: summary for step, summary in self._read.items() if step.kind == "file"}
        self._looked_into.clear()
        return steps

    def outcome(self) -> Outcome:
        """Return the results of this process and free its summaries. Afterwards, the process can read no further
        steps."""
        steps = sorted(self._read, key=repr)
        named = [(FROM_FACTORY if step.kind in ("target", "factory") else step.ref, step) for step in steps]
        record = gather([(name, self._read[step]) for name, step in named if not self._is_doubtful(step)])
        doubtful = gather([(name, self._read[step]) for name, step in named if self._is_doubtful(step)])
        include(record, doubtful, doubtful=True)
        for path in self._replaying | self._holding:
            record.replays.update(replay_site.placed_events(self.project, path))
        for path in self._preparing:
            record.replays.update(replay_site.placed_metadata(self.project, path))
        self._read.clear()
        self._engine.forget()
        return Outcome(record, self._whys)

    def conclude(self, outcomes: Sequence[Outcome]) -> None:
        """Make the record from the results of all processes."""
        whys = whys_together([outcome.whys for outcome in outcomes])
        texts = {ref: why for ref, (*_, why) in whys.items()}
        self.record = joined(self.project, [outcome.record for outcome in outcomes], texts)

    def has_unread_module(self) -> bool:
        """Return whether a file that was not searched for roots defines a module."""
        return has_module(self._engine, self._candidates.paths, self._paths, self._loops, self._rulebook.entry_points)

    def assumed(self, reached: Set[str]) -> Iterator[Step]:
        """Yield the functions that hot code has not reached, but that look as if they run in a step."""
        for path in self._looked_for_roots:
            file = self.project.files.index(path)
            if file is None:
                continue
            assumed: set[str] = set()
            generating, loops_of = self._loops.generating(file), self._loops.of(file)
            with_public, is_applied = path in self._candidates.public, path in self._candidates.applied
            for ref, receiver, why in assumed_roots_of(self._engine, file, self._paths, with_public, is_applied):
                # A pipeline's `__call__` runs once. Only the lines in its loops run in every step.
                is_beside = path in self._candidates.beside_steps and why in (*BY_FORM, PERHAPS)
                # A public function of a library may itself run in a loop, so its own loops are not the whole step.
                is_step = why in (PUBLIC, PERHAPS) and (is_applied or not loops_of.get(ref))
                has_loops = ref in loops_of and (why == FACTORY or is_step)
                if is_beside or has_loops or (why in RUNS_ONCE and ref in generating):
                    continue
                if ref not in reached and ref not in self._whys and self._engine.budget.holds(ref):
                    assumed.add(ref)
                    run = loops_of_run(self._engine, file, ref.partition("::")[2]) if why in (PUBLIC, PERHAPS) else ()
                    kind = "loops" if run else _ASSUMED_KINDS.get(why, "root")
                    if kind in ("root", "loops"):
                        self._note_why(ref, LOOP if run else why, 1)
                    yield Step(kind, ref, receiver, loops=run)
            scripts = [*self._loops.scripts(file)]
            known = {ref for ref in (*loops_of, *scripts) if ref in reached or ref in self._whys or ref in assumed}
            for ref, loops in loops_of.items():
                if ref not in known and self._engine.budget.holds(ref):
                    facts = file.functions.get(ref.partition("::")[2])
                    owner = facts.owner if facts is not None else None
                    receiver = Instance(f"{path}::{owner}", declared=True) if owner is not None else None
                    self._note_why(ref, LOOP, 2)
                    yield Step("loops" if loops else "root", ref, receiver, loops=loops)
            if path in self._replaying or has_threads(file):
                for ref, cls in changing_methods(self.project, file, self._paths):
                    if ref not in reached and ref not in self._whys:
                        yield Step("between", ref, Instance(cls, declared=True))
            for ref in scripts:
                if ref not in known and self._engine.budget.holds(ref):
                    yield Step("script", ref, loops=self._loops.loops_of(ref) or ())

    def _may_have_changed(self, key: Hashable) -> bool:
        """Return whether an attribute's value may have changed, now that the calls of constructors are known."""
        if not isinstance(key, tuple) or key[0] not in ("attribute", "constructed"):
            return False
        kind, ref, given, *name = key
        attributes = self._engine.attributes
        known = attributes.constructions
        return (ref, name[0]) in known if kind == "attribute" else attributes.shares_arguments(ref, given)

    def _look_into(self, path: str, steps: list[Step]) -> Value:
        engine = self._engine
        file = self.project.files.index(path)
        if file is None:
            return NONE
        if file.replays or file.captures or any(one.captures or is_graphed(one) for one in file.functions.values()):
            self._replaying.add(path)
        elif imports_runners(self.project, path):
            self._holding.add(path)
        if made_twice.has_method_for_captures(file.functions) and (
            self.project.files.search(path, made_twice.KEPT)
            or made_twice.fills_twice(self.project.files.search(path, made_twice.FILLED))
        ):
            self._preparing.add(path)
        for ref, receiver, why in roots_of(engine, file, self._paths, self._rulebook.entry_points):
            if not engine.budget.holds(ref):
                continue
            if why == FORWARD and self._loops.is_pipeline(file, ref):
                continue  # a pipeline runs once
            self._note_why(ref, why, 0)
            steps.append(Step("root", ref, receiver))
        steps += [Step("site", site) for site in capture_sites(self.project, file)]
        for ref, why in factories_of(self.project, file):
            self._targets.setdefault(ref, why)
            steps.append(Step("target", ref))
        for ref in self.project.cut_chains():
            engine.note(Failure("not-followed", ref, f"too many bases; {MAX_BASES} classes are looked at"))
        return NONE

    def take(self, step: Step) -> list[Step]:
        """Read a step and return the steps that it leads to. Return no steps if this step has been read before."""
        if step in self._read or (step.kind == "root" and self._engine.budget.is_spent()):
            return []
        summary = self._engine.collect(lambda: self._take(step), step.ref)
        if step.kind == "perhaps" and not holds_device(summary.value):
            return []
        if step.kind in ("public", "perhaps"):
            why = RESULTS if is_for_host(summary.value) else PUBLIC
            self._note_why(step.ref, *((UNCALLED, 3) if self._is_uncalled(step) else (why, 1)))
        elif self._whys.get(step.ref, NO_REASON)[2] == ENTRY_POINT and is_for_host(summary.value):
            # If an entry point returns only numbers and strings, the host waits for its result.
            self._whys[step.ref] = (-reason_weight(RESULTS), 0, RESULTS)
        self._read[step] = summary
        steps = []
        for root in new_roots(summary, self._looked_into):
            if root.why:
                self._note_why(root.ref, root.why, 1)
            kind: StepKind = "closure" if type(root.receiver) is Function else "root"
            steps.append(Step(kind, root.ref, root.receiver, root.guarded, given=root.given))
        return steps

    def _is_doubtful(self, step: Step) -> bool:
        """Return whether all findings in a step, and in the code that the step leads to, are only `possible`."""
        return self._is_uncalled(step) or self._whys.get(step.ref, NO_REASON)[2] == PASSING_HOOK

    def _is_uncalled(self, step: Step) -> bool:
        """Return whether a step is a public function of an application, and no known step calls this function."""
        return step.kind in ("public", "perhaps") and step.ref.partition("::")[0] in self._candidates.applied

    def _note_why(self, ref: str, why: str, others: int) -> None:
        reason = (-reason_weight(why), others, why)
        self._whys[ref] = min(self._whys.get(ref, reason), reason)

    def _take(self, step: Step) -> Value:
        engine = self._engine
        if step.kind in ("root", "public", "perhaps"):
            on_host = Arguments(keywords=self._host_parameters(step.ref))
            told = on_host if step.given is None else arguments_of(step.given)
            return engine.read(Call(step.ref, step.receiver, told, hot=True), guarded=step.guarded)
        if step.kind == "factory":
            for made in closures_made(engine, step.ref):
                self._note_why(made.ref, FACTORY, 1)
                engine.closures.call_as_root(made)
            return NONE
        if step.kind == "closure" and type(step.receiver) is Function:
            return engine.closures.call_as_root(step.receiver)
        if step.kind == "target":
            why = self._targets[step.ref]
            for closure, given in steps_made(engine, step.ref, why):
                self._note_why(closure.ref, why, 1)
                engine.closures.call_as_root(closure, given)
            return NONE
        if step.kind == "script":
            return engine.read(assembling(engine, step.ref, step.loops))
        path, _, name = step.ref.partition("::")
        if name:
            between = step.kind == "between" or comes_again(self.project.function_facts(step.ref))
            objects = self._loops.objects_given(step.ref) if step.kind == "loops" else {}
            told = Arguments(keywords=objects) if objects else self._constructor_arguments(step)
            return engine.read(Call(step.ref, step.receiver, told, loops=step.loops, between=between))
        file = self.project.files.index(path)
        if file is not None:
            tree = parse(self.project.files.source(path).text)
            frame = Frame(engine, file, step.ref, {}, hot=False, step_loops=step.loops)
            statements.execute(frame, tree.body)
        return NONE

    def _constructor_arguments(self, step: Step) -> Arguments:
        """Return the known arguments of a constructor that captures. For any other step, return no arguments."""
        cls, _, name = step.ref.rpartition(".")
        captures = step.kind == "site" and name == "__init__"
        return self._engine.attributes.told(cls, step.ref) if captures else Arguments()

    def _host_parameters(self, ref: str) -> dict[str, Value]:
        """Return the parameters to which all calls in steps pass host tensors. For an entry point, all calls of unknown
        methods with the entry point's name are considered."""
        on_host = self._on_host.get(ref, {})
        if self._whys.get(ref, NO_REASON)[2] in (ENTRY_POINT, AROUND_GRAPHS):
            on_host = self._on_host.get(ref.rpartition(".")[2].rpartition("::")[2], on_host)
        node = self.project.function_node(ref)
        names = [one.arg for one in parameters(node)] if node is not None else []
        return {name: on_host[name] for name in names if name in on_host}

    def _is_named_cold(self, ref: str, facts: FunctionFacts) -> bool:
        path = ref.partition("::")[0]
        return self._paths.cold_because(path, self.project.module_of(path), facts) == COLD_PATHS

    def _is_cold(self, ref: str, facts: FunctionFacts) -> bool:
        if ref not in self._cold:
            path = ref.partition("::")[0]
            self._cold[ref] = self._paths.is_cold(path, self.project.module_of(path), facts)
        return self._cold[ref]
