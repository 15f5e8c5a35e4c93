"""Reading a project: from what each file makes hot to a record of all that this leads to.

All files share one engine, since nearly all of what a model runs it shares with others. Its answers do not depend on
the order in which files and roots are read, so several processes can read a part each (`reading_pool.py`). They tell
each other what is known only when all roots have been read: which functions are called, what calls put into the fields
of plain classes, and what they pass to methods of which only the name is known. On the last two rests a second round.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal

from graphsafe.config import Config
from graphsafe.rulebook import Rulebook
from graphsafe.scan.checks import replay_site
from graphsafe.scan.domain.arguments import Arguments, Call
from graphsafe.scan.domain.events import Event
from graphsafe.scan.domain.joins import join_all
from graphsafe.scan.domain.queries import Rests
from graphsafe.scan.domain.record import AROUND_GRAPHS, ENTRY_POINT, Place, Record, reason_weight
from graphsafe.scan.domain.summary import CallEdge, Field, Summary
from graphsafe.scan.domain.values import NONE, Function, Tensor, Value, holds_device, is_for_host, options
from graphsafe.scan.incremental.root_readings import RootReadings
from graphsafe.scan.interpreter import statements
from graphsafe.scan.interpreter.call_frame import Frame
from graphsafe.scan.interpreter.engine import Engine
from graphsafe.scan.linting.gather import constructions, gather, included, joined, new_roots, passed_by_name
from graphsafe.scan.roots.assumed_roots import FACTORY, PERHAPS, PUBLIC, RESULTS, assumed_roots_of
from graphsafe.scan.roots.candidate_files import TARGETS, Candidates
from graphsafe.scan.roots.hot_roots import COLD_PATHS, HotnessRules, capture_sites, roots_of, target_roots
from graphsafe.scan.sources.source import parse
from graphsafe.scan.symbols.index import FunctionFacts
from graphsafe.scan.symbols.project import Project
from graphsafe.scan.symbols.project_files import Files

Reason = tuple[int, int, str]
"Why a function is a root, in words; the smallest says most, and of its own lines comes before that of callers."
NO_REASON: Reason = (0, 0, "")


StepKind = Literal["root", "public", "perhaps", "factory", "site", "targets", "file"]
"""`public`: a root; reading it tells of what kind. `perhaps`: one if it gives tensors back. `factory`: what it makes is
a root. `file`: of a file."""
_ASSUMED_KINDS: Mapping[str, StepKind] = {PUBLIC: "public", PERHAPS: "perhaps", FACTORY: "factory"}


@dataclass(frozen=True, slots=True)
class Step:
    """Where reading begins: a root, a function that captures, or what configured targets return."""

    kind: StepKind
    ref: str
    receiver: Value | None = None
    guarded: bool = False


@dataclass(frozen=True, slots=True)
class Learnt:
    """What the first round has shown, for the second."""

    whys: Mapping[str, Reason]
    "Root -> why it is one."
    passed: Mapping[str, Mapping[str, Sequence[Tensor]]]
    "Method -> parameter -> the tensors that calls pass of which only the method's name is known."
    constructions: Mapping[Field, Sequence[Value]]
    "What calls of classes of plain fields put into these."


def learnt_together(parts: Sequence[Learnt]) -> Learnt:
    passed: dict[str, dict[str, list[Tensor]]] = {}
    built: dict[Field, dict[str, Value]] = {}
    for part in parts:
        for method, parameters in part.passed.items():
            for name, tensors in parameters.items():
                passed.setdefault(method, {}).setdefault(name, []).extend(tensors)
        for key, values in part.constructions.items():
            built.setdefault(key, {}).update((repr(value), value) for value in values)
    constructions = {key: [values[text] for text in sorted(values)] for key, values in built.items()}
    return Learnt(whys_together([part.whys for part in parts]), passed, constructions)


def whys_together(parts: Iterable[Mapping[str, Reason]]) -> dict[str, Reason]:
    found: dict[str, Reason] = {}
    for whys in parts:
        for ref, reason in whys.items():
            found[ref] = min(found.get(ref, reason), reason)
    return found


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one process has found when all is read."""

    record: Record
    whys: Mapping[str, Reason]
    readings: Sequence[str] = ()
    "What another process leaves to later scans."


class Driver:
    def __init__(
        self,
        files: Files,
        config: Config,
        rulebook: Rulebook,
        candidates: Candidates,
        readings: RootReadings | None = None,
    ) -> None:
        """`readings`: what earlier scans still answer, and where this one leaves what it has read."""
        files.uses.is_kept = readings is not None
        self.project = Project(files)
        self._config = config
        self._rulebook = rulebook
        self._paths = HotnessRules(config)
        self._candidates = candidates
        self._cold: dict[str, bool] = {}
        self._engine = Engine(
            self.project, rulebook.ops, self._is_cold, rulebook.libraries, candidates.scope, self._is_named_cold
        )
        self._replaying: set[str] = set()
        "Files that replay a graph."
        self._whys: dict[str, Reason] = {}
        self._looked_for_roots: list[str] = []
        "The files that this process was given to read."
        self._readings = readings
        self._read: dict[Step, Summary] = {}
        self._anew: dict[Step, Summary] = {}
        "Those that were read anew in this round."
        self._rests: dict[Step, Rests] = {}
        "What they rest on, in both rounds."
        self._texts_told: dict[Step, str] = {}
        "What the second round knew of their parameters."
        self._is_second_round = False
        self._looked_into: set[int] = set()
        "The ids of summaries whose new roots are known; those that have been read keep them alive."
        self._on_host: Mapping[str, Mapping[str, Tensor]] = {}
        "Method -> parameter -> the host tensor that calls pass which only know the method's name."
        self.record = Record()

    @property
    def is_budget_spent(self) -> bool:
        """Whether only a few files were in question, and more than that would have had to be read for them."""
        return self._engine.budget.is_spent()

    def read(self, path: str) -> None:
        """Follow what a file makes hot; what cannot be followed is among the record's failures."""
        if path == TARGETS:
            self._follow([Step("targets", path)])
        else:
            self._looked_for_roots.append(path)
            steps: list[Step] = []
            found = self._engine.collect(lambda: self._look_into(path, steps), f"{path}::")
            if found.items:
                self._read[Step("file", path)] = found
            self._follow(steps)

    def finish(self) -> None:
        """What no known step calls but is likely to run in one; the second round; and the record of all."""
        self.read_assumed(self.reached())
        self.read_again(self.learnt())
        self.conclude([self.outcome()])

    def reached(self) -> frozenset[str]:
        """The functions that are called from hot code or are roots, as far as this process has read."""
        summaries = included(self._read.values())
        called = {item.callee for summary in summaries for item in summary.items if type(item) is CallEdge}
        return frozenset(called.union(self._whys))

    def read_assumed(self, reached: Set[str]) -> None:
        """Follow what runs in a step by its form, of the files that were read, where no hot code calls it."""
        self._follow([*self._assumed(reached)])

    def learnt(self) -> Learnt:
        summaries = [*included(self._read.values())]
        return Learnt(self._whys, passed_by_name(summaries), constructions(summaries))

    def read_again(self, learnt: Learnt) -> None:
        """The second round."""
        engine = self._engine
        # What is read now stands elsewhere than what was read last, and old answers and new ones take memory together.
        self.project.files.forget_trees()
        self._whys = dict(learnt.whys)
        self._on_host = _on_host(learnt.passed)
        engine.attributes.constructions = learnt.constructions
        self._is_second_round = True
        if self._readings is not None:
            self._readings.keep_first({_name(step): summary for step, summary in self._anew.items()})
            self._anew.clear()
            self._readings.begin_second_round(learnt.constructions)
        engine.invalidate(self._may_be_other)
        steps = [step for step in self._read if step.kind != "file"]
        self._read = {step: summary for step, summary in self._read.items() if step.kind == "file"}
        self._looked_into.clear()
        self._follow(steps)

    def outcome(self) -> Outcome:
        """Nothing can be read after it: summaries are forgotten."""
        if self._readings is not None:
            self._readings.keep_second({_name(step): summary for step, summary in self._anew.items()})
        record = gather([self._read[step] for step in sorted(self._read, key=repr)])
        for path in self._replaying:
            record.replays.update(replays_of(self.project, path))
        self._read.clear()
        self._anew.clear()
        queries = self._engine.forget()
        if self._readings is not None:
            read = {_name(step): (rests, self._texts_told.get(step, "")) for step, rests in self._rests.items()}
            self._rests.clear()
            self._readings.keep_rests(read, queries.rests, queries)
        return Outcome(record, self._whys)

    def left(self) -> Iterator[str]:
        """What this process leaves to later scans, as text."""
        if self._readings is not None:
            self._readings.keep_facts(self.project.files.uses.now)
            yield from self._readings.parts()

    def conclude(self, outcomes: Sequence[Outcome]) -> None:
        """Make the record, of what all processes have found."""
        whys = whys_together([outcome.whys for outcome in outcomes])
        for outcome in outcomes:
            if outcome.readings and self._readings is not None:
                self._readings.add(outcome.readings)
        texts = {ref: why for ref, (*_, why) in whys.items()}
        self.record = joined(self.project, [outcome.record for outcome in outcomes], texts)

    def _assumed(self, reached: Set[str]) -> Iterator[Step]:
        # A function that is added there may be a root.
        for path in self._candidates.public:
            self.project.files.uses.note("text", path)
        for path in self._looked_for_roots:
            file = self.project.files.overview(path)
            if file is None:
                continue
            with_public = path in self._candidates.public
            for ref, receiver, why in assumed_roots_of(self._engine, file, self._paths, with_public):
                if ref not in reached and ref not in self._whys and self._engine.budget.holds(ref):
                    kind = _ASSUMED_KINDS.get(why)
                    if kind is not None:
                        yield Step(kind, ref, receiver)
                    else:
                        self._note_why(ref, why, 1)
                        yield Step("root", ref, receiver)

    def _may_be_other(self, key: Hashable) -> bool:
        """Whether a question about an attribute may have another answer, now that constructions are known."""
        if not isinstance(key, tuple) or key[0] != "attribute":
            return False
        _, ref, name, _ = key
        return (ref, name) in self._engine.attributes.constructions

    def _look_into(self, path: str, steps: list[Step]) -> Value:
        engine = self._engine
        file = self.project.files.overview(path)
        if file is None:
            return NONE
        if file.replays:
            self._replaying.add(path)
        for ref, receiver, why in roots_of(engine, file, self._paths, self._rulebook.entry_points):
            if not engine.budget.holds(ref):
                continue
            self._note_why(ref, why, 0)
            steps.append(Step("root", ref, receiver))
        steps += [Step("site", site) for site in capture_sites(file)]
        return NONE

    def _follow(self, steps: Sequence[Step]) -> None:
        """Read these, and all that they make hot."""
        waiting = [*steps]
        while waiting:
            step = waiting.pop()
            if step in self._read or (step.kind == "root" and self._engine.budget.is_spent()):
                continue
            summary = self._summary(step)
            if step.kind == "perhaps" and not holds_device(summary.value):
                continue
            if step.kind in ("public", "perhaps"):
                self._note_why(step.ref, RESULTS if is_for_host(summary.value) else PUBLIC, 1)
            self._read[step] = summary
            for found in included([summary], self._looked_into):
                for root in new_roots([found]):
                    if root.why:
                        self._note_why(root.ref, root.why, 1)
                    waiting.append(Step("root", root.ref, root.receiver, root.guarded))

    def _summary(self, step: Step) -> Summary:
        """What reading begins there gives, as an earlier scan has found it or now."""

        def read() -> Summary:
            return self._engine.collect(lambda: self._take(step), step.ref)

        name = _name(step)
        if self._readings is None or not name:
            return read()
        if self._is_second_round:
            told = repr(sorted(self._told(step.ref).items())) if step.kind != "site" else ""
            known = self._readings.second(name, told)
            self._texts_told[step] = told
        else:
            known = self._readings.first(name)
        if known is not None:
            return known
        self._anew[step], rests = self._engine.queries.watch(read)
        before = self._rests.setdefault(step, rests)
        before.asked |= rests.asked
        before.facts |= rests.facts
        return self._anew[step]

    def _note_why(self, ref: str, why: str, others: int) -> None:
        reason = (-reason_weight(why), others, why)
        self._whys[ref] = min(self._whys.get(ref, reason), reason)

    def _take(self, step: Step) -> Value:
        engine = self._engine
        if step.kind in ("root", "public", "perhaps"):
            told = Arguments(keywords=self._told(step.ref))
            return engine.read(Call(step.ref, step.receiver, told, hot=True), guarded=step.guarded)
        if step.kind == "factory":
            for made in options(engine.read(Call(step.ref, depth=1))):
                if type(made) is Function and made.node is not None:
                    self._note_why(made.ref, FACTORY, 1)
                    engine.closures.call_as_root(made)
            return NONE
        if step.kind == "targets":
            target_roots(engine, self._config, self.project.paths)
            return NONE
        path, _, name = step.ref.partition("::")
        if name:
            return engine.read(Call(step.ref, depth=1))
        file = self.project.file(path)
        if file is not None:
            tree = parse(self.project.source(path).text)
            statements.execute(engine, Frame(file, step.ref, {}, hot=False), tree.body)
        return NONE

    def _told(self, ref: str) -> dict[str, Value]:
        """What calls of an entry point's name have shown of its parameters."""
        on_host = self._on_host.get(ref.rpartition(".")[2].rpartition("::")[2])
        if not on_host or self._whys.get(ref, NO_REASON)[2] not in (ENTRY_POINT, AROUND_GRAPHS):
            return {}
        node = self.project.function_node(ref)
        names = [argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)] if node is not None else []
        return {name: on_host[name] for name in names if name in on_host}

    def _is_named_cold(self, ref: str, facts: FunctionFacts) -> bool:
        path = ref.partition("::")[0]
        index = self.project.file(path)
        return self._paths.cold_because(path, index.module if index is not None else "", facts) == COLD_PATHS

    def _is_cold(self, ref: str, facts: FunctionFacts) -> bool:
        if ref not in self._cold:
            path = ref.partition("::")[0]
            index = self.project.file(path)
            self._cold[ref] = self._paths.is_cold(path, index.module if index is not None else "", facts)
        return self._cold[ref]


def _name(step: Step) -> str:
    """A name by which later scans know it; empty for what is always read."""
    if step.kind in ("root", "public", "perhaps", "site"):
        return f"{step.kind} {step.ref} {step.receiver!r} {step.guarded}"
    return ""


def _on_host(passed: Mapping[str, Mapping[str, Sequence[Tensor]]]) -> dict[str, dict[str, Tensor]]:
    """Of each method the parameters whose tensors the host keeps, whoever calls it."""
    found: dict[str, dict[str, Tensor]] = {}
    for method, parameters in passed.items():
        for name, tensors in parameters.items():
            joined = join_all(sorted(tensors, key=repr))
            if type(joined) is Tensor and joined.where == "host":
                found.setdefault(method, {})[name] = joined
    return found


def replays_of(project: Project, path: str) -> dict[Place, Event]:
    """What a file does wrong around the replays of its graphs, hot or not."""
    file = project.file(path)
    if file is None:
        return {}
    found = replay_site.events(parse(project.source(path).text), file.module)
    return {Place(path, function, event.span, event.kind, event.how): event for function, event in found}
