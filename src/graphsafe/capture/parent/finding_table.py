"""Collects a capture's findings, with texts from the rulebook. For one device and bucket, each code has at most one
finding per line. Also makes sentences from the answers of probes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from typing import Any

from graphsafe.capture.answers.build import Built
from graphsafe.capture.parent.probes import DeviceAnswers
from graphsafe.capture.shared.places import at_line, chain, line_text, location, text_at
from graphsafe.files import from_here
from graphsafe.optable.entries import version_matches
from graphsafe.report.kernel_names import readable
from graphsafe.report.model import LEVELS, CallSite, Finding, Level, Limit, Region, Source, Span, most_severe
from graphsafe.report.no_line import without_line
from graphsafe.report.probes.horizon import Departure
from graphsafe.report.probes.order import Race
from graphsafe.report.probes.twin import Difference
from graphsafe.report.text import count
from graphsafe.rulebook.book import Rulebook
from graphsafe.rulebook.rule import Rule

OWN_GRAPHS = "it replays CUDA graphs of its own, which PyTorch refuses during a capture"
WITHOUT_GRAPHS = "; to capture the whole step, build it without graphs of its own"
WITHOUT_COMPILED = (
    '; to capture the whole step, compile it without CUDA graphs: `mode="max-autotune-no-cudagraphs"` or the default'
)


def what_was_frozen(one: Difference) -> str:
    """Return a sentence about two captures and the values that they froze. The sentence is appended to other
    sentences."""
    op = f"{readable(one.op)}{at_place(one.frames)}"
    if one.what == "count":
        return f" Here one capture has {one.before}, and a later one has {one.after}; they differ from {op} on."
    if one.what == "operation":
        before, after = readable(one.before), readable(one.after)
        return f" Here one capture has {before} where a later one has {after}{at_place(one.frames)}."
    return f" Here one capture froze {one.before} into {op}, and a later one froze {one.after}."


def what_departed(departure: Departure) -> str:
    """Return a sentence about how a later step differs from the captured one. The sentence is appended to other
    sentences."""
    place, under = at_place(departure.frames), departure.under
    later = f"{count(departure.step, 'step')} later" if under == "further steps" else f"with {under}"
    if departure.what == "operation":
        place = "" if departure.after.endswith(at_line(departure.frames)) else place
        return (
            f" Here a branch changes: the capture runs {departure.before}, but {departure.after}{place} runs {later}."
        )
    if departure.what == "count":
        return f" Here the capture runs {departure.before}, and the step runs {departure.after} {later}{place}."
    return f" Here {departure.op}{place} has {departure.before} at capture and {departure.after} {later}."


def repair_of_generator(works: bool) -> str:
    tried = "tried here: the next draw works" if works else "tried here, but the next draw fails"
    return (
        "; to repair a running process, call `torch.cuda.default_generators[i].graphsafe_set_state(fresh)`, "
        f"`fresh` being a new Generator with the old seed and offset ({tried})"
    )


def place_of(frames: Sequence[CallSite]) -> dict[str, Any]:
    return {"path": from_here(frames[-1].path), "line": frames[-1].line} if frames else {}


def at_place(frames: Sequence[CallSite]) -> str:
    return f" ({line_text(frames[-1])})" if frames else ""


def other_of(race: Race) -> tuple[str, dict[str, Any]]:
    """Return the earlier operation of a race as text, and the data of a finding about the race."""
    data = {"op": race.op, "other": {"op": race.other_op, **place_of(race.other_frames)}}
    return f"{readable(race.other_op)}{at_place(race.other_frames)}", data


def finding_at(
    frame: CallSite | None,
    rule: Rule,
    how: str | None,
    level: Level,
    words: Mapping[str, str],
    because: str,
    data: Mapping[str, Any],
    device: str | None,
    source: Source,
    why: str | None = None,
) -> Finding | Limit:
    """Return a finding, or a limit if no line of the user's code is known.

    `how` selects the rule's message, and `words` fill its placeholders. `level` is the rulebook's level. `because`
    describes the observation. `why` replaces the rule's own reason.
    """
    words = {"expr": "the step", "value": "a value", **words}
    if frame is None:
        return without_line(rule.code, rule.name, rule.level_of(level), rule.texts(how)[0].format_map(words))
    about = rule.about(location(frame, None), words, data, how)
    return replace(
        about,
        level=rule.level_of(level),
        confidence="proven" if source == "capture" else "likely",
        source=source,
        device=device,
        why=f"{why or about.why} {because}".rstrip() + played_version(rule, source),
    )


def played_version(rule: Rule, source: Source) -> str:
    """If the simulated device shows behaviour that the installed torch does not have on a GPU, return a sentence about
    this behaviour, else ""."""
    if source != "simulate" or not rule.torch:
        return ""
    try:
        installed = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return ""
    if version_matches(installed, rule.torch):
        return ""
    measured = rule.evidence[0].torch.partition("+")[0]
    return (
        f" The simulated device behaves like torch {measured}, on which this was measured. This applies to torch "
        f"{rule.torch}: on a GPU, the installed torch {installed.partition('+')[0]} does not do this."
    )


Key = tuple[str, str, int]
"The code, the file and the line of a finding."


class FindingTable:
    """Collects findings, and limits for facts whose line in the user's code is not known."""

    def __init__(self, seen: DeviceAnswers, book: Rulebook) -> None:
        self.seen = seen
        self._book = book
        entry = seen.answers[Built].entry
        self.entry: tuple[CallSite, ...] = () if entry is None else (entry,)
        "The step's function. Findings whose line is not known are placed at this function."
        self.found: dict[Key, Finding] = {}
        self.limits: list[Limit] = []

    def add(
        self,
        code: str,
        frames: Sequence[CallSite],
        span: Span | None = None,
        *,
        level: Level | None = None,
        expr: str | None = None,
        value: str = "a device value",
        count: int = 1,
        data: Mapping[str, Any] | None = None,
        repair: str = "",
        region: Region | None = "captured",
        here: str = "",
        how: str | None = None,
    ) -> None:
        """Add a finding at the last of `frames`. `how` selects the rule's message. If that line already has a finding
        of the same code, the two are merged, with the text of the more severe one and the data of both."""
        rule = self._book.rules.get(code)
        if rule is None:
            self.limits.append(Limit("unknown-rule", code, "the rulebook has no rule of this code"))
            return
        if not frames:
            at_level = lowered(rule.level_of(level), self.seen)
            says = expr or "no line of the user's code was running"
            self.limits.append(without_line(code, rule.name, at_level, says))
            return
        at = location(frames[-1], span)
        key = (code, at.path, at.line)
        level, data = lowered(level or rule.level, self.seen), data or {}
        known = self.found.get(key)
        if known is not None:
            count, data = known.count + count, {**known.data, **data}
            if LEVELS.index(level) <= LEVELS.index(known.level):
                self.found[key] = replace(known, count=count, data=data)
                return
        words = defaultdict(lambda: "a value", expr=expr or text_at(frames[-1], span), value=value)
        about = rule.about(at, words, data, how)
        self.found[key] = replace(
            about,
            level=level,
            confidence="proven" if self.seen.source == "capture" else "likely",
            source=self.seen.source,
            device=self.seen.device,
            region=region,
            call_chain=chain(frames),
            why=about.why + here + played_version(rule, self.seen.source),
            fix=about.fix + repair,
            count=count,
        )


def lowered(level: Level, seen: DeviceAnswers) -> Level:
    """Return the level. An error becomes a warning if a replay, or a capture in shapes mode, has shown that the cause
    does no harm here."""
    capture = seen.probes.capture
    harmless = "inconclusive" if capture.from_shapes and capture.status == "pass" else "ready"
    return "warning" if level == "error" and seen.verdict == harmless else level


def at_configured_levels(findings: Iterable[Finding], seen: DeviceAnswers, book: Rulebook) -> list[Finding]:
    """Return the findings at their configured levels. Levels are lowered if a correct replay has shown that the cause
    does no harm."""
    return [replace(one, level=lowered(book.rules[one.code].level_of(one.level), seen)) for one in findings]


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Merge findings over buckets. Findings with the same device, code and line become one, with the most
    severe level."""
    return most_severe(findings, lambda one: (one.device, one.code, one.location.path, one.location.line))


def code_of_text(message: str, book: Rulebook) -> str | None:
    """Return the code of the rule that lists the message of an error, if exactly one rule does."""
    codes = [rule.code for rule in book.rules.values() if any(text in message for text in rule.error_text)]
    return codes[0] if len(codes) == 1 else None
