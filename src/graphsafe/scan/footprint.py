"""What a scan has looked at: an edit anywhere else moves its findings and changes none.

Of a file that holds hot code a scan reads some statements, asks for some names, and notes what the file defines.
Where an edit leaves all that as it was, the report from before holds, with today's lines. Any doubt means: scan.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from graphsafe.report.model import CallSite, Finding, Report, in_order
from graphsafe.scan.cache import digest
from graphsafe.scan.custom_ops import operators_in
from graphsafe.scan.files import Files
from graphsafe.scan.index import ClassFacts, FileIndex, FunctionFacts
from graphsafe.scan.overrides import subclasses_in
from graphsafe.scan.project import Project
from graphsafe.scan.starts import Entrances

MAX_CHANGED = 32
"Files; after a larger edit, such as another branch, hardly any report holds."
OWN_COMMENT = b"graphsafe:"
LINES = re.compile(r"\.py:\d|\blines? \d|^\d+(, \d+)*$")
"Text that names lines of a file."

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a scan saw of one file."""

    names: tuple[str, ...]
    "That were asked for at its module level, there or not."
    spans: Mapping[str, Span]
    "The statements that were read, and their first and last lines."
    searches: tuple[tuple[str, int], ...]
    "What its text was searched for: patterns and their flags."
    digest: str
    "Of these statements' text, of what the names mean and the searches find, and of the classes and methods."


@dataclass(frozen=True, slots=True)
class Footprint:
    report: str
    "The key of the report that was made."
    contents: Mapping[str, str]
    "Path -> digest, of every file of the project."
    told: Mapping[str, str]
    "Path -> digest of what its bytes tell without being parsed, where they tell anything."
    seen: Mapping[str, Seen]
    whole: Sequence[str]
    "Files in which every character counted. One that is neither here nor among those seen was not looked into."


def footprint(
    files: Files, project: Project, contents: Mapping[str, str], entrances: Entrances, report: str
) -> Footprint:
    """To be taken when the scan is over. `contents`: the digest of every file of the project."""
    told: dict[str, str] = {}
    seen: dict[str, Seen] = {}
    whole: list[str] = []
    asked = project.asked()
    for path in contents:
        data = files.data(path) or b""
        if said := _told(data, entrances):
            told[path] = said
        index = files.indexes.get(path)
        if path in files.problems or path in files.read_whole or path in files.rewritten or OWN_COMMENT in data:
            whole.append(path)
        elif index is not None:
            now = _seen(files, index, asked.get(path, ()), entrances)
            if now is not None:
                seen[path] = now
            else:
                whole.append(path)
    return Footprint(report, dict(contents), told, seen, whole)


def _seen(files: Files, index: FileIndex, asked: Iterable[str], entrances: Entrances) -> Seen | None:
    """None where a statement was read that the index has no name for."""
    names = {span: name for name, span in _spans(index).items()}
    read = files.read_spans.get(index.path, set())
    if not read <= names.keys():
        return None
    searches = sorted((pattern.pattern, pattern.flags) for pattern in files.searches.get(index.path, ()))
    seen = Seen(tuple(sorted(asked)), {names[span]: span for span in sorted(read)}, tuple(searches), "")
    return replace(seen, digest=_digest(files, index, seen, entrances))


def carried(
    before: Footprint, report: Report, files: Files, contents: Mapping[str, str], entrances: Entrances, key: str
) -> tuple[Report, Footprint] | None:
    """The report of a project after an edit, and its footprint under `key`; None where it may say something new."""
    if contents.keys() != before.contents.keys():
        return None
    changed = [path for path, content in contents.items() if content != before.contents[path]]
    if len(changed) > MAX_CHANGED or not set(changed).isdisjoint(before.whole):
        return None
    seen = dict(before.seen)
    for path in changed:
        data = files.data(path)
        if data is None or OWN_COMMENT in data or _told(data, entrances) != before.told.get(path, ""):
            return None
        if path in seen:
            now = _again(files, path, seen[path], entrances)
            if now is None:
                return None
            seen[path] = now
        else:
            files.check(path)
            if path in files.problems:
                return None
    moved = [path for path in changed if path in seen and seen[path].spans != before.seen[path].spans]
    moves = {path: _Move(before.seen[path].spans, seen[path].spans) for path in moved}
    try:
        findings = in_order(_moved(finding, moves) for finding in report.findings)
    except _Unclear:
        return None
    after = replace(before, report=key, contents=dict(contents), seen=seen)
    return replace(report, findings=tuple(findings)), after


def _again(files: Files, path: str, known: Seen, entrances: Entrances) -> Seen | None:
    """What the scan would see of a file now, if that is what it saw."""
    index = files.index(path)
    if index is None or path in files.rewritten:
        return None
    now = _spans(index)
    if not known.spans.keys() <= now.keys():
        return None
    seen = replace(known, spans={name: now[name] for name in known.spans})
    return seen if _digest(files, index, seen, entrances) == known.digest else None


# what a file shows


def _told(data: bytes, entrances: Entrances) -> str:
    said = (bool(entrances.words.search(data)), [*subclasses_in(data)], [*operators_in(data)])
    return digest(repr(said).encode()) if any(said) else ""


def _spans(index: FileIndex) -> dict[str, Span]:
    """The lines of every statement that a scan may read by itself."""
    found = {f"def {name}": (facts.line, facts.end_line) for name, facts in index.functions.items()}
    for cls in index.classes.values():
        found.update((f"{cls.name}.{name}", span) for name, span in cls.fields.items())
    for name, bound in index.assigns.items():
        found.update((f"{name} {number}", span) for number, span in enumerate(bound))
    return found


def _digest(files: Files, index: FileIndex, seen: Seen, entrances: Entrances) -> str:
    source = files.source(index.path)
    parts = (
        (index.module, index.is_package, index.stars, index.captures, index.replays),
        [_meaning(index, name) for name in seen.names],
        [_class(facts) for facts in index.classes.values()],
        [_function(facts) for facts in index.functions.values() if _counts(facts, seen.names, entrances)],
        [(name, source.lines[first - 1 : last]) for name, (first, last) in sorted(seen.spans.items())],
        [re.findall(pattern, source.text, flags) for pattern, flags in seen.searches],
    )
    return digest(repr(parts).encode("utf-8", "surrogatepass"))


def _meaning(index: FileIndex, name: str) -> tuple[object, ...]:
    return (
        name,
        name in index.functions,
        name in index.classes,
        index.imports.get(name),
        len(index.assigns.get(name, ())),
    )


def _class(facts: ClassFacts) -> tuple[object, ...]:
    return (facts.name, facts.bases, facts.decorators, [*facts.methods.items()], facts.writers, [*facts.fields])


def _function(facts: FunctionFacts) -> tuple[object, ...]:
    return (facts.name, facts.decorators, facts.owner, facts.mark, facts.captures)


def _counts(facts: FunctionFacts, names: Sequence[str], entrances: Entrances) -> bool:
    """All functions but those at module level that nobody asked for and that nothing makes a root."""
    return (
        facts.owner is not None
        or entrances.anywhere
        or bool(facts.decorators or facts.mark or facts.captures)
        or facts.name in names
        or facts.name in entrances.names
    )


# where it stands now


class _Unclear(Exception):
    """A finding names a line that may be another one now."""


class _Move:
    """From the lines of a file before to those of today."""

    def __init__(self, before: Mapping[str, Span], after: Mapping[str, Span]) -> None:
        self._shifts = [(*span, after[name][0] - span[0]) for name, span in before.items()]

    def line(self, line: int) -> int:
        for first, last, shift in self._shifts:
            if first <= line <= last:
                return line + shift
        raise _Unclear


def _moved(finding: Finding, moves: Mapping[str, _Move]) -> Finding:
    at = finding.location
    move = moves.get(os.path.abspath(at.path))
    if move is None and not any(os.path.abspath(site.path) in moves for site in finding.call_chain):
        return finding
    if finding.edits or any(map(_names_a_line, _texts(finding))):
        raise _Unclear
    if move is not None:
        at = replace(at, line=move.line(at.line), end_line=move.line(at.end_line))
    return replace(finding, location=at, call_chain=tuple(_moved_site(site, moves) for site in finding.call_chain))


def _moved_site(site: CallSite, moves: Mapping[str, _Move]) -> CallSite:
    move = moves.get(os.path.abspath(site.path))
    return site if move is None else replace(site, line=move.line(site.line))


def _texts(finding: Finding) -> Iterator[str]:
    """Where a line may be named in passing: a lambda is called by its line."""
    yield from (finding.message, finding.fix, *map(str, finding.data.values()))
    yield finding.location.function or ""
    yield from (site.function or "" for site in finding.call_chain)


def _names_a_line(text: str) -> bool:
    return "<lambda>" in text or LINES.search(text) is not None


# in the cache


def footprint_text(footprint: Footprint) -> str:
    return json.dumps(asdict(footprint), separators=(",", ":"))


def parse_footprint(text: str) -> Footprint | None:
    try:
        data = json.loads(text)
        seen = {
            path: Seen(
                tuple(one["names"]),
                {name: (first, last) for name, (first, last) in one["spans"].items()},
                tuple((pattern, flags) for pattern, flags in one["searches"]),
                one["digest"],
            )
            for path, one in data.pop("seen").items()
        }
        return Footprint(seen=seen, **data)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
