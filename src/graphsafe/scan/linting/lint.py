"""Makes findings from events: matches rules, finds the chain of calls to each line, applies suppressions."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import cache
from itertools import chain

from graphsafe.config import Config
from graphsafe.files import from_here
from graphsafe.report.fingerprint import fingerprinted
from graphsafe.report.model import CONFIDENCES, CallSite, Confidence, Finding, Limit, Location, Suppression
from graphsafe.report.source import line_of
from graphsafe.rulebook.book import UNREADABLE, Rulebook
from graphsafe.rulebook.rule import Match, Rule
from graphsafe.scan.domain.events import Event, plainness
from graphsafe.scan.domain.record import COMPILED, TARGET, Edge, Place, Record
from graphsafe.scan.hazards.streams import copy_streams
from graphsafe.scan.linting import declared_support
from graphsafe.scan.linting.call_graph import CallGraph, root_of
from graphsafe.scan.linting.regions import Regions
from graphsafe.scan.linting.selection import Selection
from graphsafe.scan.linting.unnamed import UnnamedCode
from graphsafe.scan.roots.candidate_files import Candidates
from graphsafe.scan.roots.hot_roots import HotnessRules
from graphsafe.scan.sources.node_memo import memoize_method
from graphsafe.scan.sources.source import Source, Unreadable
from graphsafe.scan.sources.suppress import Comment, comments
from graphsafe.scan.state import across_steps, refilled_weights, seen_by_graphs
from graphsafe.scan.symbols.project import Project

COMPILE = re.compile(r"(^|[._])compile(\(|$)")
"Matches decorators that compile: `torch.compile`, `torch.compile(reduce-overhead)`, `support_torch_compile`."

_ONLY_IN_GRAPHS = frozenset(
    "appended unjoined foreign-stream literal-device capturing-branch query elapsed-time".split()
)
"Events that are faults only inside a graph."
_AROUND_GRAPHS = frozenset(
    "input-rebound output-kept output-awaited adopted refilled host-refilled host-read-early read-early read-aside"
    " given-early taken-early".split()
)
"Events that are faults in the code around a graph."
_Matched = tuple[Rule, Match, Place, Event]
LAMBDA = re.compile(r"(?<=<lambda>:)\d+")
"Matches the line number in the name of a lambda. The number is relative to the surrounding function."


class Linter:
    """Turns the record of a scan into findings."""

    def __init__(
        self,
        project: Project,
        record: Record,
        rulebook: Rulebook,
        config: Config,
        confidence: Confidence,
        candidates: Candidates,
        has_unread_module: Callable[[], bool],
    ) -> None:
        """Store the record of a scan, from which `findings` are made. `has_unread_module` tells whether files that were
        not read define modules."""
        self._project = project
        self._record = record
        self._rulebook = rulebook
        self._config = config
        self._least = CONFIDENCES.index(confidence)
        self._candidates = candidates
        self._has_unread_module = has_unread_module
        self._selection = Selection.of(config, rulebook)
        self._display: dict[str, str] = {}
        self._paths = HotnessRules(config)
        self._matched: dict[tuple[str, int, str], list[_Matched]] = defaultdict(list)
        "Path, line and rule code -> the events that match."
        self._hazards: dict[str, list[str]] = defaultdict(list)
        "Function -> the codes of the errors that it certainly contains."
        self._texts: dict[tuple[str, int], str] = {}
        "The displayed path and the line of each finding -> the source code of the line."
        self._doubts: dict[str, str] = {}
        "Function -> why every root that leads to the function is doubtful."
        self._hidden: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
        """Path -> first line, last line and rule code of each match that is not reported, because it is too uncertain
        or its region is not selected."""

    def findings(self, paths: Iterable[str], read: Iterable[str]) -> list[Finding]:
        """Return the findings of these files, fingerprinted and in order. Suppressed findings are marked, not dropped.

        `read` are the files that were searched for roots. Some of them may be files on which the scan does not report.
        """
        wanted = dict.fromkeys(paths)
        told = [path for path in read if path in wanted]
        calls = CallGraph(self._record)
        captures = calls.captures(self._is_compiled)
        regions = Regions(self._project, self._record, calls, self._candidates.with_graphs, self._has_unread_module)
        documents = self._project.files.documents if self._candidates.shows_uses else None
        unnamed = UnnamedCode(self._project, self._paths, self._record.roots, calls, documents)
        for place, event in self._events(wanted, regions):
            event = _captured(event, captures.get(place.ref))
            if place.path in wanted and self._is_above_note(event) and (doubt := unnamed.doubt(place.ref)):
                event = replace(event, confidence="possible")
                self._doubts[place.ref] = doubt
            self._match(place, event, wanted)
        for place, event in declared_support.events(self._project, calls, self._hazards, told):
            self._match(place, event, wanted)
        counts = calls.root_counts()
        # Findings are made one file at a time, because only the most recently used sources stay in memory.
        findings = []
        general = {
            (path, line, code)
            for (path, line, _), matched in self._matched.items()
            for rule, *_ in matched
            for code in rule.instead_of
        }
        for key in sorted(self._matched.keys() - general):
            finding = self._finding(self._matched[key], regions, counts)
            if self._config.region in (None, finding.region) or finding.region is None:
                findings.append(finding)
            else:
                at = finding.location
                self._hidden[key[0]].append((at.line, at.end_line, finding.code))
        problems = self._problems(wanted)
        findings += [self._unreadable(path, why) for path, why in problems if self._enabled(UNREADABLE, path)]
        findings = self._suppressed(findings, told)
        sources = {shown: path for path, shown in self._display.items()}

        def text_of(shown: str, line: int) -> str:
            known = self._texts.get((shown, line))
            source = self._source(sources.get(shown, shown)) if known is None else None
            return line_of(source.lines if source is not None else None, line) if known is None else known

        return fingerprinted(findings, text_of, cache(self._from_root))

    def hidden(self) -> int:
        """Return the number of possible findings that `findings` left out."""
        found = ((path, line, code) for path, hidden in self._hidden.items() for line, _, code in hidden)
        return len({one for one in found if self._enabled(one[2], one[0])})

    def ignored_problems(self, paths: Iterable[str]) -> list[Limit]:
        """Return a limit for each of these files that cannot be read, if the finding about the file is ignored."""
        return [
            Limit("unread-file", self.display(path), f"not checked, and {UNREADABLE} is ignored here: {problem.reason}")
            for path, problem in self._problems(paths)
            if not self._enabled(UNREADABLE, path)
        ]

    def _problems(self, paths: Iterable[str]) -> Iterable[tuple[str, Unreadable]]:
        problems = self._project.files.problems
        return [(path, problems[path]) for path in paths if path in problems]

    def _match(self, place: Place, event: Event, wanted: Container[str]) -> None:
        """Record the matches of an event, and the functions that certainly contain errors."""
        for rule, match in self._rulebook.matching(event.kind, event.how):
            certain = event.confidence != "possible" and event.guard is None and not event.once
            if certain and (event.level or match.level or rule.level) == "error":
                self._hazards[place.ref].append(rule.code)
            if place.path not in wanted:
                continue
            if CONFIDENCES.index(event.confidence) < self._least:
                self._hidden[place.path].append((event.span[0], event.span[2], rule.code))
            elif self._enabled(rule.code, place.path):
                self._matched[place.path, event.span[0], rule.code].append((rule, match, place, event))

    def _events(self, paths: Container[str], regions: Regions) -> Iterable[tuple[Place, Event]]:
        record, candidates = self._record, self._candidates
        for place, event in chain(record.events.items(), across_steps.events(record.state, regions.is_held)):
            if event.how == "outgrown" and regions.recaptures(place.ref, event.span[0]):
                continue
            chosen = event.how == "literal-device" and event.level == "warning" and candidates.chooses_device
            # The default capture stream is on the device that the process chose before the capture.
            chosen = chosen or (event.how == "no-stream" and place.path in candidates.on_one_device)
            refilled = event.how in ("refilled", "host-refilled", "read-early")
            chosen = chosen or (refilled and place.path not in candidates.with_graphs)
            chosen = chosen or self._reuses_buffer(place, event, regions)
            if chosen or (_needs_replay(event) and regions.of_event(place) == "step"):
                event = replace(event, confidence="possible")
            yield place, event
        yield from seen_by_graphs.events(record.state, regions)
        yield from refilled_weights.events(record.state, regions)
        yield from ((place, event) for place, event in record.replays.items() if place.path in paths)

    def _reuses_buffer(self, place: Place, event: Event, regions: Regions) -> bool:
        """Return whether the host waits, outside of graphs, only until it may refill a buffer."""
        node = self._project.function_node(place.ref) if event.how == "synchronize" else None
        if node is None or regions.of_event(place) == "captured":
            return False
        return copy_streams.waits_for_earlier_call(node, event.words["expr"], event.span[0])

    def _is_above_note(self, event: Event) -> bool:
        """Return whether an event leads to a warning or an error that is at least likely."""
        if event.confidence == "possible" or event.guard is not None:
            return False
        matches = self._rulebook.matching(event.kind, event.how)
        return any(rule.level_of(event.level or match.level) != "note" for rule, match in matches)

    @memoize_method
    def _is_compiled(self, ref: str) -> bool:
        """Return whether a function runs under torch.compile, by its decorators, its class or the configuration."""
        facts = self._project.function_facts(ref)
        path, why = ref.partition("::")[0], self._record.roots.get(ref, "")
        target = self._config.targets.get(why.removeprefix(TARGET)) if why.startswith(TARGET) else None
        owner = self._project.class_facts(f"{path}::{facts.owner}") if facts is not None and facts.owner else None
        decorators = (*(facts.decorators if facts else ()), *(owner.decorators if owner else ()))
        return (
            why.startswith(COMPILED)
            or (target is not None and target.compiled)
            or any(map(COMPILE.search, decorators))
            or (facts is not None and self._paths.is_compiled(path, self._project.module_of(path), facts))
        )

    def _enabled(self, code: str, path: str) -> bool:
        return self._selection.is_enabled(code, self._from_root(self.display(path)))

    def _finding(self, group: Sequence[_Matched], regions: Regions, counts: Mapping[str, int]) -> Finding:
        """Make one finding from a rule's events on one line. The finding describes one of these events: unguarded
        events are preferred, then certain ones, then the leftmost one."""
        rule, match, place, event = min(group, key=lambda item: (*plainness(item[3])[:2], item[3].span))
        level = rule.level_of(event.level or match.level)
        data: dict[str, str] = dict(event.words)
        if event.guard is not None:
            level = "note"
            data["guard"] = event.guard
        elif event.compile_test is not None:
            data["compile_test"] = event.compile_test.text
        words = _words(event.words)
        ref = place.ref
        region = regions.of_event(place)
        around = rule.around_graphs if region == "step" else None
        if around is not None and level == "error":
            level = "warning"
        chain = regions.chain_to(place)
        root = root_of(chain, ref)
        if root in self._record.roots:
            data["root"] = self._record.roots[root] + self._doubts.get(ref, "")
        line, column, end_line, end_column = event.span
        source = self._project.files.source(place.path)
        shown = self.display(place.path)
        self._texts[shown, line] = line_of(source.lines, line)
        function = place.function.partition(".<lambda>")[0] or None
        return Finding(
            code=rule.code,
            rule=rule.name,
            level=level,
            confidence=event.confidence,
            source="scan",
            device=None,
            location=Location(
                shown, line, source.column(line, column), end_line, source.column(end_line, end_column), function
            ),
            call_chain=tuple(map(self._site, chain)),
            further_roots=max(counts.get(ref, 1) - 1, 0),
            count=len({item[3].span for item in group}),
            message=(match.message or rule.message).format_map(words) + _about_compile(event),
            why=(match.why or rule.short_why) if around is None else around.why,
            fix=(match.fix_short or rule.fix_short).format_map(words) if around is None else around.fix,
            data=data,
            region=region,
        )

    @memoize_method
    def _site(self, edge: Edge) -> CallSite:
        """Return the call site of an edge. The findings of a large project share most call sites."""
        path, _, function = edge.caller.partition("::")
        around = self._project.function_around(edge.caller)
        if around is not None:
            first = around.line
            function = LAMBDA.sub(lambda line: str(first + int(line[0])), function)
        return CallSite(self.display(path), edge.line, function or None)

    def _unreadable(self, path: str, problem: Unreadable) -> Finding:
        at = Location(self.display(path), problem.line, problem.column, problem.line, problem.column + 1, None)
        return self._rulebook.rules[UNREADABLE].about(at, _words({"expr": problem.reason}), {"reason": problem.reason})

    # suppressions

    def _suppressed(self, findings: list[Finding], paths: Iterable[str]) -> list[Finding]:
        by_file: dict[str, list[Finding]] = {}
        for finding in findings:
            by_file.setdefault(finding.location.path, []).append(finding)
        result: list[Finding] = []
        for path in paths:
            shown = self.display(path)
            found = by_file.pop(shown, [])
            source = self._source(path) if path not in self._project.files.problems else None
            result += self._judged(path, found, comments(source) if source is not None else [])
        for rest in by_file.values():
            result += rest
        return result

    def _judged(self, path: str, findings: list[Finding], notes: Sequence[Comment]) -> list[Finding]:
        if not notes:
            return findings
        # If not all code that leads to the files was read, a line without a finding may still have a hazard.
        is_whole = self._candidates.scope is None
        used: set[tuple[int, str]] = set()
        for first, last, code in self._hidden.get(path, ()):
            used.update(*(note.covering(code) for note in notes if note.stands_for(first, last)))
        result = []
        for finding in findings:
            at = finding.location
            here = (note for note in notes if note.stands_for(at.line, at.end_line))
            note = next((note for note in here if note.covers(finding.code)), None)
            if note is not None and not finding.code.startswith("GS90"):
                used.update(note.covering(finding.code))
                finding = replace(finding, suppressed=Suppression(note.reason))
            result.append(finding)
        for note in notes:
            for named in note.names:
                is_known = any(code.upper().startswith(named) for code in self._rulebook.rules)
                ran = any(code.upper().startswith(named) for code in self._selection.codes)
                is_unused = (note.line, named) not in used and ran and is_whole
                if (is_unused or not is_known or not note.understood) and self._enabled("GS901", path):
                    text = note.text if len(note.names) == 1 else f"{named} in {note.text}"
                    found = self._about(path, note, "GS901", text)
                    if not note.understood:
                        found = replace(found, message=f"{found.message}; write `# graphsafe: ignore[CODE] reason`")
                    elif not is_known:
                        why = f"there is no rule {named}{self._rulebook.hint(named)}"
                        found = replace(found, message=f"{found.message}: {why}")
                    result.append(found)
                    break
            else:
                if note.reason is None and self._enabled("GS902", path):
                    result.append(self._about(path, note, "GS902", note.text))
        return result

    def _about(self, path: str, note: Comment, code: str, text: str) -> Finding:
        at = Location(self.display(path), note.line, note.column, note.line, note.column + len(note.text), None)
        return self._rulebook.rules[code].about(at, _words({"expr": text}), {"expr": text})

    # paths

    def display(self, path: str) -> str:
        """Return a path relative to the working directory, with forward slashes."""
        if path not in self._display:
            self._display[path] = from_here(path)
        return self._display[path]

    def _from_root(self, shown: str) -> str:
        path = os.path.abspath(shown)
        inside = path.removeprefix(os.path.join(self._config.root, ""))
        return inside.replace(os.sep, "/")

    def _source(self, path: str) -> Source | None:
        try:
            return self._project.files.source(path)
        except Unreadable:
            return None


def _words(known: Mapping[str, str]) -> dict[str, str]:
    """Return the known words for a message. Every unknown word becomes an ellipsis."""
    return defaultdict(lambda: "…", known)


def _needs_replay(event: Event) -> bool:
    """Return whether an event is a fault only inside a graph. In host code around graphs, such an event is at most
    `possible`."""
    if event.how in _AROUND_GRAPHS:
        return False
    return event.kind in ("AttrWrite", "Rng") or event.how in _ONLY_IN_GRAPHS


def _captured(event: Event, captures: Set[bool] | None) -> Event:
    """Return an event with the guard that applies to the captures that reach its function. `captures` is None if the
    captures are not known."""
    test = event.compile_test
    if event.guard is not None or captures is None:
        return event
    if not captures:
        return replace(event, guard="a test for torch.compile in one of the callers")
    if test is None:
        return event
    if test.compiling not in captures:
        return replace(event, guard=test.text)
    return event if False in captures else replace(event, compile_test=None)


def _about_compile(event: Event) -> str:
    test = event.compile_test
    if test is None or event.guard is not None:
        return ""
    return f"; {test.text} keeps it out of torch.compile, not out of a plain capture" if not test.compiling else ""
