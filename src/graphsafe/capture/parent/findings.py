"""Makes findings, in the texts of the rulebook, from the children's answers about one device and bucket.

Findings explain a verdict and never decide it: `report/verdict.py` decides it from the probes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graphsafe.capture.answers.events import Diagnosis
from graphsafe.capture.answers.probes import (
    ComparedRounds,
    EscapedWork,
    FiredEvents,
    Given,
    LaunchChoices,
    OwnGraphs,
    Ran,
    Reference,
    StateWrites,
    Watched,
)
from graphsafe.capture.parent.after_events import add_frozen_choices, add_stale_events
from graphsafe.capture.parent.finding_table import (
    OWN_GRAPHS,
    WITHOUT_COMPILED,
    WITHOUT_GRAPHS,
    FindingTable,
    Key,
    at_place,
    code_of_text,
    other_of,
    place_of,
    repair_of_generator,
)
from graphsafe.capture.parent.frozen_values import CODES, add_change, add_departure, add_frozen_values, rebound_by
from graphsafe.capture.parent.probes import BEHIND_HOST, IN_LATER_ROUND, DeviceAnswers, reported
from graphsafe.capture.parent.ranks.divergence import of_one_rank
from graphsafe.capture.shared.classify import CODE_OF_CAUSE, code_of, code_of_failure, how_of, reader_of, value_read
from graphsafe.capture.shared.places import is_within
from graphsafe.files import from_here
from graphsafe.report.model import CallSite, Finding, Level, Limit
from graphsafe.report.no_line import unplaced
from graphsafe.report.probes.horizon import Departure
from graphsafe.report.probes.replay import Check, differing
from graphsafe.rulebook.book import Rulebook


def findings_of(seen: DeviceAnswers, book: Rulebook) -> tuple[list[Finding], list[Limit]]:
    """Return one finding per line and cause. A fact without a line of the user's code becomes a limit."""
    writer = _Writer(seen, book)
    writer.construction()
    writer.events()
    writer.state()
    writer.escaped()
    add_frozen_values(writer.table)
    writer.horizon()
    writer.races()
    writer.capture_aware()
    writer.failed_capture()
    writer.collectives()
    writer.replay()
    add_frozen_choices(writer.table, seen.answers[LaunchChoices].choices)
    writer.own_graphs()
    return list(writer.table.found.values()), writer.table.limits


_MOST_MOVED = 3
_EXPLAIN_REPLAYS = frozenset(
    "GS402 GS502 GS503 GS504 GS602 GS604 GS608 GS615 GS701 GS702 GS703 GS705 GS707 GS712".split()
)
_EXPLAINED_BY_LINES = ("GS1", "GS2", "GS3", "GS503")


class _Writer:
    def __init__(self, seen: DeviceAnswers, book: Rulebook) -> None:
        self._seen = seen
        self._probes = seen.probes
        self._answers = seen.answers
        self._book = book
        self.table = FindingTable(seen, book)
        self.add = self.table.add
        self._entry = self.table.entry

    def construction(self) -> None:
        construct = self._probes.construct
        attempts = construct.captures or ()
        failed = [(attempt, attempt.first_error) for attempt in attempts if attempt.first_error is not None]
        broken = {name: state.draw for name, state in (construct.rng or {}).items() if state.draw}
        draw = next(iter(broken.values()), None)
        works = all((construct.repaired or {}).get(name) for name in broken)
        repair = repair_of_generator(works)
        says = {"devices": sorted(broken), "draw": draw, "repair_works": works}
        for attempt, failure in failed:
            error = {"message": failure.message, **place_of(failure.frames)}
            at = (attempt.frames, attempt.span)
            if broken:
                text = f"{failure.message}{at_place(failure.frames)}"
                data = {**says, "first_error": error}
                self.add("GS501", *at, level="error", expr=text, data=data, repair=repair, region=None)
            self.add("GS605", *at, data={"first_error": error}, region=None)
        if broken and not failed:
            self.add("GS501", self._entry, level="error", expr=draw, data=says, repair=repair, region=None)

    def events(self) -> None:
        for event in self._answers[Watched].events:
            code = code_of(event, self._book.ops)
            if code is None or (code == "GS401" and event.first_only):
                continue  # a buffer that the first step makes is no fresh buffer in every step
            data = event.details()
            level: Level | None = "note" if event.first_only or event.guarded else None
            if event.first_only:
                data["when"] = "only in step 1"
            elif event.guarded:
                data["when"] = "not in a capture"
            count = max(event.count, 1)
            value, how = value_read(code, reader_of(event, code)), how_of(event, code, self._book.ops)
            self.add(code, event.frames, event.span, level=level, value=value, count=count, data=data, how=how)

    def state(self) -> None:
        lazy = self._answers[Reference].lazy
        reported: list[str] = []
        changed = self._probes.state.changed or ()
        growing = [change.name for change in changed if change.how == "grows"]
        unread = set(self._answers[StateWrites].unread)
        explained = {cause.path for cause in self._probes.twin.changes}
        for change in changed:
            name, frames = change.name, change.frames
            if change.how == "born":
                # A container that grows in every step also grows in step 1. This first growth is not a lazy
                # initialisation.
                if any(is_within(path, name) for path in lazy) and not any(is_within(name, one) for one in growing):
                    reported.append(name)
                    self._lazy(name, frames)
                continue
            code = CODES.get(change.how)
            level = self._level_of(change.how)
            if change.how == "opaque" and any(check.result is None for check in self._probes.replay.checks or ()):
                # The generator cannot be put back, so equal steps cannot be compared. It is the likely cause.
                code, level = "GS702", "warning"
            if code is None or name in explained:
                continue
            if name.endswith(".grad") and (name in unread or self._seen.verdict == "ready"):
                continue  # `p.grad = None` in a training step: backward allocates it again, in the graph's own pool
            is_harmless = self._seen.verdict == "ready" or name in unread
            if is_harmless and change.how == "rebound":
                level = "warning"
            add_change(self.table, code, change, level, is_harmless)
        for path in lazy:
            if not any(is_within(path, name) for name in (*reported, *growing)):
                self._lazy(path, ())
        if not lazy and self._probes.replay.first_step == "fail":
            births = {change.name: change.frames for change in changed if change.how == "born"}
            for path in self._answers[Reference].lazy_caches:
                self._lazy(path, births.get(path, ()))

    def _level_of(self, how: str) -> Level:
        """Return the level of a finding about a change of state, if the change did not make two captures differ.

        If a number changes without effect on the graph, the finding is at most a note. If memory moves, the finding is
        a warning, because the graph still uses the memory of the capture.
        """
        if how == "cached":
            return "warning"
        if self._probes.twin.status in ("pass", "fail") or self._seen.verdict == "ready":
            return "note" if how == "host" else "warning"
        if how == "host":
            return "warning"
        differs = "fail" in (self._probes.replay.status, self._probes.capture.status)
        return "error" if differs else "warning"

    def horizon(self) -> None:
        """Add a finding if Python decides differently in a later step than at capture."""
        departure = self._probes.horizon.departure
        if departure is not None and self._probes.twin.status != "fail" and not self._is_found_by_long_run(departure):
            add_departure(self.table, departure)

    def _is_found_by_long_run(self, departure: Departure) -> bool:
        """Return whether the long run has also found that the tensor was replaced. The long run's finding names the
        line that replaces the tensor."""
        growth = self._probes.memory.growth
        moved = {path for drift in (growth.drifts if growth else ())[:1] for path in drift.moved}
        return rebound_by(departure) in moved

    def races(self) -> None:
        """Add a finding for each race: a pair of unordered nodes that use the same memory. The finding is at the node
        that was captured later. A collective that the step never waits for causes such races too, but it already has a
        finding."""
        unwaited = {waited.frames[-1] for waited in self._answers[Ran].never_waited if waited.frames}
        for race in self._probes.order.races or ():
            if unwaited.intersection([*race.frames[-1:], *race.other_frames[-1:]]):
                continue
            other, data = other_of(race)
            frames = race.frames or race.other_frames or self._entry
            self.add("GS619", frames, race.span if race.frames else None, value=other, data=data)

    def capture_aware(self) -> None:
        """If the captured step computes something other than the eager step, add findings at the lines that ask whether
        a capture is under way."""
        reference = self._answers[Reference]
        if not reference.differs or self._probes.capture.status != "pass":
            return
        data = {"checks": reported(differing(reference.checks)[:4])}
        for asked in reference.asked:
            self.add("GS608", asked.frames, asked.span, level="error", data=data)

    def _lazy(self, name: str, frames: Sequence[CallSite]) -> None:
        harmless = self._probes.replay.first_step == "pass"
        level: Level = "note" if harmless else "error"
        # Without a known line, the finding is at the first line of the step. The text of that line says nothing about
        # the state, so the message names the state itself.
        says = None if frames else name
        self.add("GS701", frames or self._entry, expr=says, value=f"`{name}`", level=level, data={"attribute": name})

    def failed_capture(self) -> None:
        if self._probes.capture.empty:
            self.add("GS602", self._entry, expr="it has no nodes")
        died = self._probes.capture.status == "crashed" and self._probes.capture.phase == "capture"
        if self._probes.capture.status != "fail" and not died:
            return
        error = self._probes.capture.first_error
        says = {"broke_the_capture": None if error is None else error.message}
        own = self._answers[OwnGraphs]
        replays = next(iter(own.replays), None)
        if replays is not None:
            # With instruments, compiled functions run uncompiled, so another cause would be found.
            without = WITHOUT_COMPILED if own.compiled else WITHOUT_GRAPHS
            self.add("GS607", replays or self._entry, expr=OWN_GRAPHS, data=says, repair=without)
            return
        diagnosis = self._answers.get(Diagnosis)
        message = "" if error is None else error.message
        event = None if diagnosis is None else diagnosis.event
        cause = None if diagnosis is None else CODE_OF_CAUSE.get(diagnosis.cause)
        listed = code_of_text(message, self._book)
        code, frames, span = listed or "GS607", self._entry, None if error is None else error.span
        how = None
        if event is not None and event.frames:
            code = cause or listed or code_of_failure(event, self._book.ops)
            frames, span, how = event.frames, event.span, how_of(event, code, self._book.ops)
        elif error is not None and error.frames:
            frames = error.frames
        known = None if cause else self._explained(frames, code)
        if known is not None:
            self.table.found[known] = replace(self.table.found[known], data={**self.table.found[known].data, **says})
        elif frames or code != "GS607" or not self._explained_without_line():
            self.add(code, frames, span, expr=(message or None) if code == "GS607" else None, data=says, how=how)

    def _explained(self, frames: Sequence[CallSite], code: str) -> Key | None:
        """Return the step child's finding on this line: a finding of the same rule, or else of another rule about
        captures that fail."""
        if not frames:
            return None
        place = (from_here(frames[-1].path), frames[-1].line)
        there = [key for key in self.table.found if key[1:] == place and key[0].startswith(_EXPLAINED_BY_LINES)]
        return next((key for key in there if key[0] == code), there[0] if there else None)

    def _explained_without_line(self) -> bool:
        """Return whether the step child found a cause of failed captures while no line of the user's code was
        running."""
        return any(one.code.startswith(_EXPLAINED_BY_LINES) for one in unplaced(self.table.limits))

    def escaped(self) -> None:
        for event in self._answers[EscapedWork].operations:
            self.add("GS604", event.frames, event.span)
        diagnosis = self._answers.get(Diagnosis)
        if diagnosis is not None and diagnosis.cause in CODE_OF_CAUSE and self._probes.capture.status == "pass":
            self.add(CODE_OF_CAUSE[diagnosis.cause], diagnosis.event.frames, diagnosis.event.span)

    def replay(self) -> None:
        """Add GS704 if replays differ and no other finding explains the difference. GS704 is placed at the line that
        writes the differing state, if there is exactly one such line, else at the step itself."""
        replay = self._probes.replay
        if replay.status != "fail":
            return
        rounds = self._answers[ComparedRounds]
        add_stale_events(self.table, (*self._answers[FiredEvents].events, *rounds.after))
        wrong, failed = differing(replay.checks or ()), rounds.error
        if failed is not None:
            self.add("GS704", failed.frames or self._entry, expr=failed.message, value="the refresh")
            return
        wrong = [one for one in wrong if not one.name.endswith((IN_LATER_ROUND, BEHIND_HOST))] or self._rounds(wrong)
        if not wrong and replay.rng_law != "fail":
            return
        growth = self._probes.memory.growth
        drifts = () if growth is None else growth.drifts
        if drifts and all(drift.moved for drift in drifts) and len(wrong) == len(drifts):
            return  # `growth.py` reports state that was replaced between replays
        if any(
            code in _EXPLAIN_REPLAYS and finding.level == "error" for (code, _, _), finding in self.table.found.items()
        ):
            return
        if self._raised(wrong):
            return
        data = {"checks": reported(wrong[:8])}
        if rounds.freed and rounds.refresh is not None:
            lost = "memory that is freed between replays"
            self.add("GS711", (rounds.refresh,), value=lost, expr="the graph", data=data)
            return
        names = ", ".join(check.name for check in wrong[:3]) or "the random numbers"
        self.add("GS704", self._line_that_writes(wrong) or self._entry, expr=names, value=names, data=data)

    def _line_that_writes(self, wrong: Sequence[Check]) -> tuple[CallSite, ...]:
        """Return the frames of the line that writes the differing state, for example that of `optimizer.step()`. Return
        () if outputs differ too, or if several lines write the state."""
        names = [check.name.removesuffix(IN_LATER_ROUND) for check in wrong]
        if not all(name.startswith("state ") for name in names):
            return ()
        return self._answers[StateWrites].line_of([name.removeprefix("state ") for name in names])

    def _rounds(self, wrong: list[Check]) -> list[Check]:
        """Add findings for later rounds that differ. The findings are in the refresh, because nothing else runs between
        replays. Return the checks that these findings do not explain."""
        rounds = self._answers[ComparedRounds]
        if rounds.after:
            return []  # the event caused the differences
        frames = () if rounds.refresh is None else (rounds.refresh,)
        if rounds.moved and frames:
            for path, line in zip(rounds.moved[:_MOST_MOVED], rounds.moved_by, strict=False):
                self.add("GS707", line, expr=path, data={"attribute": path, "checks": reported(wrong[:8])})
            return []
        late = [check for check in wrong if check.name.endswith(BEHIND_HOST)]
        if late and len(late) == len(wrong):
            self.add("GS714", frames or self._entry, how="late", data={"checks": reported(late[:8])})
            return []
        return wrong

    def _raised(self, wrong: Sequence[Check]) -> bool:
        """Raise a finding to an error if its line changes state that differs after replays, or if its line changes host
        state from which an output is computed. Return whether there is such a finding."""
        paths = [check.name.removeprefix("state ") for check in wrong if check.name.startswith("state ")]
        found = [
            key
            for key, finding in self.table.found.items()
            if key[0] in _EXPLAIN_REPLAYS
            and any(is_within(path, finding.data.get("attribute", "")) for path in paths)
            and finding.data.get("attribute") not in self._answers[StateWrites].unread
        ]
        host_states = [key for key in self.table.found if key[0] == "GS702"]
        is_made_of_state = all(check.on_host for check in wrong) and not self._answers[Ran].host_calls
        if wrong and is_made_of_state and len(host_states) == 1:
            found = host_states
        for key in found:
            self.table.found[key] = replace(self.table.found[key], level="error")
        return bool(found)

    def own_graphs(self) -> None:
        for cause in self._seen.marks.missing:
            self.add("GS611", cause.frames, expr=cause.reason, data={"cause": cause.code})
        for mark in self._seen.marks.needless:
            self.add("GS612", [mark], expr=f"`{mark.function}`", region="step")
        given = self._answers[Given]
        if given.reason is not None:
            replays = next(iter(self._answers[OwnGraphs].replays), ())
            names = ", ".join(given.different[:3]) or given.reason
            self.add("GS704", replays or self._entry, level="error", expr=names)
        compiled = self._probes.step.compiled
        for left in () if compiled is None else compiled.left:
            self.add("GS613", left.frames or self._entry, expr=left.reason, data={"partition": left.part})

    def collectives(self) -> None:
        """Add findings for collectives that the step never waits for, and for collectives that only some ranks
        issue."""
        for waited in self._answers[Ran].never_waited:
            self.add("GS615", waited.frames, waited.span)
        own = of_one_rank(self._seen.divergence, self._seen.rank)
        if own is not None:
            call, data, here = own
            self.add("GS614", call.frames, call.span, expr=f"`{call.op}`", data=data, here=here)
