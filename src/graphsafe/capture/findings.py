"""What the children saw of one device and bucket, as findings in the words of the rulebook.

Findings explain a verdict and never make it: `report/verdict.py` reads the probes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphsafe.capture.classify import code_of
from graphsafe.capture.lines.places import chain, is_within, location, shown, text_at
from graphsafe.capture.ranks.divergence import of_one_rank
from graphsafe.capture.wording import (
    OWN_GRAPHS,
    WITHOUT_COMPILED,
    WITHOUT_GRAPHS,
    Words,
    at_place,
    place_of,
    repair_of_generator,
    what_was_frozen,
)
from graphsafe.report.model import Finding, Level, Limit, Region, Source, Verdict
from graphsafe.rulebook import Rulebook

Result = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """The results of the children of one device and bucket; missing ones are empty."""

    device: str
    source: Source
    verdict: Verdict
    probes: Mapping[str, Mapping[str, Any]]
    build: Result
    step: Result
    reference: Result
    capture: Result
    diagnose: Result
    plan: dict[str, Any] | None = None
    "As the report has it."
    own: Result = field(default_factory=dict)
    "Graphs and marks that the target has itself, and what is known against them."
    rank: int | None = None
    divergence: Mapping[int, Any] = field(default_factory=dict)
    "Rank -> the collective that it issued where the ranks did not issue the same; None for one that issued none."


def findings_of(seen: Seen, book: Rulebook) -> tuple[list[Finding], list[Limit]]:
    """One finding a line and cause, each with a line of the user's code; what has none becomes a limit."""
    writer = _Writer(seen, book)
    writer.construction()
    writer.events()
    writer.state()
    writer.frozen()
    writer.capture_aware()
    writer.failed_capture()
    writer.escaped()
    writer.collectives()
    writer.replay()
    writer.own_graphs()
    return list(writer.found.values()), writer.limits


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Over buckets of one device: the same code on the same line is one finding, at its worst level."""
    found: dict[tuple[Any, ...], Finding] = {}
    for finding in findings:
        key = (finding.device, finding.code, finding.location.path, finding.location.line)
        known = found.get(key)
        if known is None or _LEVEL_ORDER[finding.level] > _LEVEL_ORDER[known.level]:
            found[key] = finding
    return list(found.values())


_LEVEL_ORDER: Mapping[Level, int] = {"note": 0, "warning": 1, "error": 2}
_CAUSES = {"unjoined-stream": "GS603", "foreign-stream": "GS604"}
_STATE_CODES = {"grows": "GS402", "rebound": "GS703", "host": "GS702", "cached": "GS705"}
_EXPLAIN_REPLAYS = frozenset(
    ("GS402", "GS502", "GS503", "GS504", "GS602", "GS604", "GS608", "GS615", "GS701", "GS702", "GS703", "GS705")
)
_EXPLAINED_BY_LINES = ("GS1", "GS2", "GS3")


class _Writer:
    def __init__(self, seen: Seen, book: Rulebook) -> None:
        self._seen = seen
        self._book = book
        self.found: dict[tuple[str, str, int], Finding] = {}
        self.limits: list[Limit] = []

    def add(
        self,
        code: str,
        frames: Sequence[Mapping[str, Any]],
        span: Sequence[int] | None = None,
        *,
        level: Level | None = None,
        expr: str | None = None,
        value: str = "a device value",
        count: int = 1,
        data: Mapping[str, Any] | None = None,
        repair: str = "",
        region: Region | None = "captured",
        here: str = "",
    ) -> None:
        rule = self._book.rules.get(code)
        if rule is None:
            self.limits.append(Limit("unknown-rule", code, "the rulebook has no rule of this code"))
            return
        if not frames:
            self.limits.append(
                Limit("no-line", f"{code} {rule.name}", expr or "no line of the user's code was running")
            )
            return
        at = location(frames[-1], span)
        key = (code, at.path, at.line)
        if key in self.found:
            known = self.found[key]
            lower = min(level or rule.level, known.level, key=lambda one: -_LEVEL_ORDER[one])
            self.found[key] = replace(
                known, count=known.count + count, level=lower, data={**known.data, **(data or {})}
            )
            return
        expr = expr or text_at(frames[-1], span)
        self.found[key] = Finding(
            code=code,
            rule=rule.name,
            level=self._lowered(level or rule.level),
            confidence="proven" if self._seen.source == "capture" else "likely",
            source=self._seen.source,
            device=self._seen.device,
            location=at,
            region=region,
            call_chain=chain(frames),
            message=rule.message.format_map(Words(str, expr=expr, value=value)),
            why=rule.short_why + here,
            fix=rule.fix_short.format_map(Words(str, expr=expr, value=value)) + repair,
            count=count,
            data=data or {},
        )

    def _lowered(self, level: Level) -> Level:
        """A replay that was right proved every error harmless in this step."""
        return "warning" if level == "error" and self._seen.verdict == "ready" else level

    def construction(self) -> None:
        construct = self._seen.build.get("construct") or {}
        failed = [attempt for attempt in construct.get("captures") or () if attempt["failure"] is not None]
        broken = {name: state["draw"] for name, state in (construct.get("rng") or {}).items() if state["draw"]}
        repaired = construct.get("repaired") or {}
        draw = next(iter(broken.values()), None)
        works = all(repaired.get(name) for name in broken)
        repair = repair_of_generator(works)
        says = {"devices": sorted(broken), "draw": draw, "repair_works": works}
        for attempt in failed:
            failure = attempt["failure"]
            error = {"message": failure["message"], **place_of(failure["frames"])}
            if broken:
                text = f"{failure['message']}{at_place(failure['frames'])}"
                data = {**says, "first_error": error}
                at = (attempt["frames"], attempt["span"])
                self.add("GS501", *at, level="error", expr=text, data=data, repair=repair, region=None)
            self.add("GS605", attempt["frames"], attempt["span"], data={"first_error": error}, region=None)
        if broken and not failed:
            self.add("GS501", self._entry, level="error", expr=draw, data=says, repair=repair, region=None)

    @property
    def _entry(self) -> Sequence[Mapping[str, Any]]:
        """The function that the factory returned, for what no line of it can be blamed for."""
        entry = self._seen.build.get("entry")
        return [entry] if entry else []

    def events(self) -> None:
        for event in (self._seen.step.get("step") or {}).get("events", ()):
            code = code_of(event, self._book.ops)
            if code is None:
                continue
            data = {key: value for key, value in (event["data"] or {}).items() if value is not None}
            data |= {"op": event["op"], "via": event["via"]}
            if event["nbytes"] is not None:
                data["bytes"] = event["nbytes"]
            level: Level | None = "note" if event["first_only"] else None
            if event["first_only"]:
                data["when"] = "only in step 1"
            value = "a host tensor" if code == "GS304" else "a device value"
            count = max(event["count"], 1)
            self.add(code, event["frames"], event["span"], level=level, value=value, count=count, data=data)

    def state(self) -> None:
        lazy = self._seen.reference.get("lazy") or []
        reported: list[str] = []
        changed = (self._seen.step.get("state") or {}).get("changed", ())
        for change in changed:
            name, frames = change["name"], change["frames"]
            if change["how"] == "born":
                if any(is_within(path, name) for path in lazy):
                    reported.append(name)
                    self._lazy(name, frames)
                continue
            code = _STATE_CODES.get(change["how"])
            level = self._level_of(change["how"])
            if code is None or name in self._causes:
                continue
            values = {key: change[key] for key in ("before", "after") if change[key] is not None}
            self.add(code, frames, value=f"`{name}`", level=level, data={"attribute": name, **values})
        for path in lazy:
            if not any(is_within(path, name) for name in reported):
                self._lazy(path, self._entry)
        if not lazy and (self._seen.probes.get("replay") or {}).get("first_step") == "fail":
            births = {change["name"]: change["frames"] for change in changed if change["how"] == "born"}
            for path in self._seen.reference.get("lazy_caches") or ():
                self._lazy(path, births.get(path, ()))

    @property
    def _twin(self) -> Mapping[str, Any]:
        return self._seen.capture.get("twin") or {}

    @property
    def _causes(self) -> dict[str, Mapping[str, Any]]:
        """What twin captures blame for their differences, by path."""
        return {cause["path"]: cause for cause in self._twin.get("causes") or ()}

    def _level_of(self, how: str) -> Level:
        """Of a change of state that no two captures blame. One without effect on the graph is a note at most where it
        is a number, and a warning where it is memory: the graph goes on using what was there at capture."""
        if how == "cached":
            return "warning"
        if self._twin.get("status") in ("pass", "fail"):
            return "note" if how == "host" else "warning"
        if how == "host":
            return "warning"
        return "error" if self._differs else "warning"

    def frozen(self) -> None:
        """What Python decided at capture, and what changed: proven by captures that differ."""
        if self._twin.get("status") != "fail" or not self._twin.get("differences"):
            return
        first = self._twin["differences"][0]
        froze = {"what": first["what"], "op": first["op"], "before": first["before"], "after": first["after"]}
        froze |= place_of(first["frames"])
        here = what_was_frozen(first)
        changes = {change["name"]: change for change in (self._seen.step.get("state") or {}).get("changed", ())}
        for path, cause in self._causes.items():
            change = changes.get(path) or next((changes[name] for name in changes if is_within(path, name)), None)
            frames = (change or {}).get("frames") or first["frames"] or self._entry
            code = _cause_code(cause)
            values = {key: cause[key] for key in ("before", "after") if cause[key] is not None}
            data = {"attribute": path, **values, "froze": froze}
            self.add(code, frames, value=f"`{path}`", expr=f"{path}", level="error", data=data, here=here)
        if self._causes:
            return
        wanted = "random" if self._twin.get("elsewhere") == "host-random" else "clock"
        calls = [call for call in self._seen.step.get("host_calls") or () if call["kind"] == wanted]
        for call in calls:
            code = "GS504" if wanted == "random" else "GS702"
            data = {"call": call["function"], "froze": froze}
            self.add(code, call["frames"], call["span"], level="error", data=data, here=here)
        hidden = [change for change in changes.values() if change["how"] == "opaque" and change["frames"]]
        for change in hidden if not calls and wanted == "clock" else ():
            data = {"attribute": change["name"], "froze": froze}
            self.add("GS702", change["frames"], level="error", data=data, here=here)
        if not calls and not hidden:
            frames = first["frames"] or self._entry
            code = "GS504" if wanted == "random" else "GS702"
            span = first["span"] if first["frames"] else None
            self.add(code, frames, span, expr=None if first["frames"] else "a Python value", data={"froze": froze})

    def capture_aware(self) -> None:
        """The step computes something else along the path that captures take: the lines that ask are to blame."""
        path: Any = self._seen.reference.get("path") or {}
        differing = [check for check in path.get("checks") or () if check["result"] == "different"]
        if not differing or (self._seen.probes.get("capture") or {}).get("status") != "pass":
            return
        for asked in path["asked"]:
            self.add("GS608", asked["frames"], asked["span"], level="error", data={"checks": differing[:4]})

    def _lazy(self, name: str, frames: Sequence[Mapping[str, Any]]) -> None:
        frames = frames or self._entry
        harmless = (self._seen.probes.get("replay") or {}).get("first_step") == "pass"
        level: Level = "warning" if harmless else "error"
        self.add("GS701", frames, value=f"`{name}`", level=level, data={"attribute": name})

    @property
    def _differs(self) -> bool:
        replay = self._seen.probes.get("replay") or {}
        return replay.get("status") == "fail" or (self._seen.probes.get("capture") or {}).get("status") == "fail"

    def failed_capture(self) -> None:
        capture = self._seen.probes.get("capture") or {}
        if capture.get("empty"):
            self.add("GS602", self._entry, expr="it has no node at all")
        if capture.get("status") != "fail":
            return
        error = capture.get("first_error") or {}
        replays = next(iter(self._seen.own.get("replays") or ()), None)
        if replays is not None:
            # Captured with instruments, a compiled function runs as it was written: that would name another cause.
            says = {"broke_the_capture": error.get("message")}
            without = WITHOUT_COMPILED if self._seen.own.get("compiled") else WITHOUT_GRAPHS
            self.add("GS607", replays or self._entry, expr=OWN_GRAPHS, data=says, repair=without)
            return
        diagnosis = self._seen.diagnose.get("diagnosis") or {}
        event = diagnosis.get("event") or error.get("event")
        cause = _CAUSES.get(diagnosis.get("cause", ""))
        if event is not None and event["frames"]:
            code = cause or self._code_of_failure(event, error)
            frames, span = event["frames"], event["span"]
        else:
            code, frames, span = self._by_text(error) or "GS607", error.get("frames") or self._entry, error.get("span")
        says = {"broke_the_capture": error.get("message")}
        known = None if cause else self._explained(frames, code)
        if known is not None:
            self.found[known] = replace(self.found[known], data={**self.found[known].data, **says})
        else:
            self.add(code, frames, span, expr=error.get("message") if code == "GS607" else None, data=says)

    def _code_of_failure(self, event: Mapping[str, Any], error: Mapping[str, Any]) -> str:
        by_text = self._by_text(error)
        if by_text is not None:
            return by_text
        known = self._book.ops.aten(event["op"]) or self._book.ops.python(event.get("via") or "")
        plain = event["kind"] == "hidden-sync" and (known is None or not any(effect.rule for effect in known.effects))
        return "GS607" if plain else code_of(event, self._book.ops) or "GS607"

    def _by_text(self, error: Mapping[str, Any]) -> str | None:
        """The one rule that lists the error's text, if there is just one."""
        message = error.get("message") or ""
        codes = [rule.code for rule in self._book.rules.values() if any(text in message for text in rule.error_text)]
        return codes[0] if len(codes) == 1 else None

    def _explained(self, frames: Sequence[Mapping[str, Any]], code: str) -> tuple[str, str, int] | None:
        """What the step probe has said of this very line: of this code, else of another that breaks captures."""
        if not frames:
            return None
        place = (shown(frames[-1]["path"]), frames[-1]["line"])
        there = [key for key in self.found if key[1:] == place and key[0].startswith(_EXPLAINED_BY_LINES)]
        return next((key for key in there if key[0] == code), there[0] if there else None)

    def escaped(self) -> None:
        for event in self._seen.capture.get("escaped") or ():
            self.add("GS604", event["frames"], event["span"])
        diagnosis = self._seen.diagnose.get("diagnosis") or {}
        code = _CAUSES.get(diagnosis.get("cause", ""))
        if code is not None and (self._seen.probes.get("capture") or {}).get("status") == "pass":
            self.add(code, diagnosis["event"]["frames"], diagnosis["event"]["span"])

    def replay(self) -> None:
        """A replay that differs needs a cause; where no finding is one, it is GS704 at the step itself."""
        replay = self._seen.probes.get("replay") or {}
        if replay.get("status") != "fail":
            return
        differing = [check for check in replay.get("checks") or () if check["result"] == "different"]
        if not differing and replay.get("rng_law") != "fail":
            return
        growth = (self._seen.probes.get("memory") or {}).get("growth") or {}
        drifts = growth.get("drifts") or ()
        if drifts and all(drift["moved"] for drift in drifts) and len(differing) == len(drifts):
            return  # state that was replaced between replays: `long_run/growth.py` tells it
        if any(code in _EXPLAIN_REPLAYS and finding.level == "error" for (code, _, _), finding in self.found.items()):
            return
        names = ", ".join(check["name"] for check in differing[:3]) or "the random numbers"
        self.add("GS704", self._entry, expr=names, value=names, data={"checks": differing[:8]})

    def own_graphs(self) -> None:
        own = self._seen.own
        judged = own.get("marks") or {}
        for cause in judged.get("missing") or ():
            self.add("GS611", cause["frames"], expr=cause["reason"], data={"cause": cause["code"]})
        for mark in judged.get("needless") or ():
            self.add("GS612", [mark], expr=f"`{mark['function']}`", region="step")
        given = own.get("given") or {}
        if given.get("reason") is not None:
            replays = next(iter(own["replays"]), ())
            names = ", ".join(given["different"][:3]) or given["reason"]
            self.add("GS704", replays or self._entry, level="error", expr=names)
        for left in ((self._seen.probes.get("step") or {}).get("compiled") or {}).get("left") or ():
            self.add("GS613", left["frames"] or self._entry, expr=left["reason"], data={"partition": left["part"]})

    def collectives(self) -> None:
        """Asynchronous ones that nobody waits for; and what this rank issues, and another does not."""
        for call in self._seen.step.get("never_waited") or ():
            self.add("GS615", call["frames"], call["span"])
        own = of_one_rank(self._seen.divergence, self._seen.rank)
        if own is not None:
            call, data, here = own
            self.add("GS614", call["frames"], call["span"], expr=f"`{call['op']}`", data=data, here=here)


def _cause_code(cause: Mapping[str, Any]) -> str:
    if cause["kind"] == "tensor":
        return "GS703"
    grows = cause["kind"] == "length" and int(cause["after"]) > int(cause["before"])
    return "GS402" if grows else "GS702"
