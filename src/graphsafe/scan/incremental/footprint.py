"""What a scan has looked at: an edit anywhere else moves its findings and changes none.

Of a file that holds hot code a scan reads some statements, asks for some names, and notes what the file defines.
Where an edit leaves all that as it was, the report from before holds, with today's lines; where it has rewritten a
function that was read, this one may be enough to read again (rereading.py). Any doubt means: scan.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from graphsafe.report.model import Report, in_order
from graphsafe.scan.checks.declared_support import may_promise
from graphsafe.scan.incremental.cache import digest
from graphsafe.scan.incremental.moves import Move, Span, Unclear, moved
from graphsafe.scan.incremental.seen import Seen, SeenFiles
from graphsafe.scan.roots.candidate_files import Entrances
from graphsafe.scan.symbols.custom_ops import operators_in
from graphsafe.scan.symbols.index import ClassFacts, FileIndex, FunctionFacts
from graphsafe.scan.symbols.overrides import subclasses_in
from graphsafe.scan.symbols.project import Project
from graphsafe.scan.symbols.project_files import Files

MAX_CHANGED = 32
"Files; after a larger edit, such as another branch, hardly any report holds."
OWN_COMMENT = b"graphsafe:"
FUNCTION = "def "
"Before a function's name, among those of statements."


@dataclass(frozen=True, slots=True)
class Footprint:
    report: str
    "The key of the report that was made."
    contents: Mapping[str, str]
    "Path -> digest, of every file of the project."
    told: Mapping[str, str]
    "Path -> digest of what its bytes tell without being parsed, where they tell anything."
    seen: SeenFiles
    whole: Sequence[str]
    "Files in which every character counted. One that is neither here nor among those seen was not looked into."
    judged: Sequence[str]
    "Files in which classes, comments or replays are judged when all hot code has been read."
    unreadable: Sequence[str]
    scan: str = ""
    "The key of the scan whose readings are kept; empty: none are."
    record: str = ""
    "The key of the record, which may be a later one; empty: none is, but the scan's."
    rewritten: Mapping[str, str] = field(default_factory=dict)
    "Function -> the key of its readings, where they are later ones."


@dataclass(frozen=True, slots=True)
class Edit:
    """What became of a footprint."""

    seen: SeenFiles
    "What the scan would see of each file now, but for the text of rewritten functions."
    moves: Mapping[str, Move]
    "Of the files whose statements have moved."
    rewritten: Sequence[str]
    "Functions, as `path::Qual.name`, of another text than before."
    replaying: Sequence[str]
    "Edited files that replay a graph, where everything may count."
    attributes: frozenset[str]
    "Names of attributes that other methods assign than before, or to which a class binds something else."
    bindings: frozenset[tuple[str, str]]
    "Files and the names at their level that are bound to something else."

    @property
    def has_only_moved(self) -> bool:
        """Whether all that the scan has looked at is as it was, but for the lines."""
        return not (self.rewritten or self.replaying or self.attributes or self.bindings)


def footprint(
    files: Files, project: Project, contents: Mapping[str, str], entrances: Entrances, report: str
) -> Footprint:
    """To be taken when the scan is over. `contents`: the digest of every file of the project."""
    told: dict[str, str] = {}
    seen: dict[str, Seen] = {}
    whole: list[str] = []
    judged: list[str] = []
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
        if _is_judged(files, path, data):
            judged.append(path)
    return Footprint(report, dict(contents), told, SeenFiles({}).but(seen), whole, judged, sorted(files.problems))


def with_more(before: Footprint, files: Files, project: Project, entrances: Entrances) -> Footprint:
    """A footprint, and what `files` have been asked for since: for functions that were read again."""
    seen: dict[str, Seen] = {}
    asked = project.asked()
    whole = {*before.whole, *files.read_whole, *files.rewritten, *files.problems}
    for path in {*files.read_spans, *asked, *files.searches} - whole:
        known = before.seen.get(path)
        if known is not None and _is_known(files, path, asked.get(path, ()), known):
            continue
        index = files.index(path)
        more = None if index is None else _seen(files, index, asked.get(path, ()), entrances, known)
        if more is None:
            whole.add(path)
        else:
            seen[path] = more
    new = (seen.keys() | whole) - before.seen.keys() - {*before.whole}
    judged = {*before.judged, *(path for path in new if _is_judged(files, path, files.data(path) or b""))}
    return replace(before, seen=before.seen.but(seen), whole=sorted(whole), judged=sorted(judged))


def _is_known(files: Files, path: str, asked: Iterable[str], known: Seen) -> bool:
    """Whether a file has been asked for nothing else."""
    spans = frozenset(known.spans.values())
    return (
        spans.issuperset(files.read_spans.get(path, ()))
        and frozenset(known.names).issuperset(asked)
        and path not in files.searches
        and path not in files.searched_spans
    )


def _is_judged(files: Files, path: str, data: bytes) -> bool:
    index = files.indexes.get(path)
    if index is None:
        return OWN_COMMENT in data
    return OWN_COMMENT in data or index.replays or any(map(may_promise, index.classes.values()))


def _seen(
    files: Files, index: FileIndex, asked: Iterable[str], entrances: Entrances, known: Seen | None = None
) -> Seen | None:
    """With what is `known` already. None where a statement was read that the index has no name for."""
    now = _spans(index)
    names = {span: name for name, span in now.items()}
    read = files.read_spans.get(index.path, set())
    if not read <= names.keys():
        return None
    spans = {names[span]: span for span in sorted(read)}
    searches = {(pattern.pattern, pattern.flags) for pattern in files.searches.get(index.path, ())}
    searched = {names[span] for span in files.searched_spans.get(index.path, ())}
    written: Mapping[str, Span] = {}
    if known is not None:
        asked = {*asked, *known.names}
        spans.update((name, now[name]) for name in known.spans)
        searches.update(known.searches)
        searched.update(known.searched)
        written = known.written
    seen = Seen(tuple(sorted(asked)), spans, tuple(sorted(searches)), tuple(sorted(searched)), {}, "", {}, written)
    return _digested(files, index, seen, entrances)


def compare(before: Footprint, files: Files, contents: Mapping[str, str], entrances: Entrances) -> Edit | None:
    """What an edit has done; None where the scan may see something new anywhere but in the bodies of functions."""
    if contents.keys() != before.contents.keys():
        return None
    changed = [path for path, content in contents.items() if content != before.contents[path]]
    if len(changed) > MAX_CHANGED or not set(changed).isdisjoint(before.whole):
        return None
    seen: dict[str, Seen] = {}
    rewritten: list[str] = []
    replaying: list[str] = []
    attributes: set[str] = set()
    bindings: set[tuple[str, str]] = set()
    for path in changed:
        data = files.data(path)
        if data is None or OWN_COMMENT in data or _told(data, entrances) != before.told.get(path, ""):
            return None
        if path in before.seen:
            known = before.seen[path]
            now = _again(files, path, known, entrances)
            if now is None:
                return None
            others = [name for name, text in now.texts.items() if text != known.texts[name]]
            if not set(others).isdisjoint(known.searched):
                return None
            for name in others:
                bound, _, number = name.partition(" ")
                if name.startswith(FUNCTION):
                    rewritten.append(f"{path}::{name.removeprefix(FUNCTION)}")
                elif number:
                    bindings.add((path, bound))
                else:
                    attributes.add(bound.rpartition(".")[2])
            attributes.update(name for name, _ in known.writers.items() ^ now.writers.items())
            seen[path] = now
            index = files.index(path)
            if index is not None and index.replays:
                replaying.append(path)
        else:
            files.check(path)
            if path in files.problems:
                return None
    moved = [path for path in seen if seen[path].spans != before.seen[path].spans]
    moves = {path: Move(before.seen[path].spans, seen[path].spans) for path in moved}
    return Edit(before.seen.but(seen), moves, rewritten, replaying, frozenset(attributes), frozenset(bindings))


def carried(
    before: Footprint, report: Report, edit: Edit, contents: Mapping[str, str], key: str
) -> tuple[Report, Footprint] | None:
    """The report after an edit that has only moved lines, its footprint under `key`; None where it tells of lines."""
    try:
        findings = in_order(moved(report.findings, edit.moves))
    except Unclear:
        return None
    after = replace(before, report=key, contents=dict(contents), seen=edit.seen)
    return replace(report, findings=tuple(findings)), after


def _again(files: Files, path: str, known: Seen, entrances: Entrances) -> Seen | None:
    """What the scan would see of a file now, if that is what it saw, but for the text of its statements."""
    index = files.index(path)
    if index is None or path in files.rewritten:
        return None
    now = _spans(index)
    if not known.spans.keys() <= now.keys():
        return None
    spans = {name: now[name] for name in known.spans}
    seen = _digested(files, index, replace(known, spans=spans, written=known.written or known.spans), entrances)
    return seen if seen.digest == known.digest else None


# what a file shows


def _told(data: bytes, entrances: Entrances) -> str:
    said = (entrances.are_told_by(data), [*subclasses_in(data)], [*operators_in(data)])
    return digest(repr(said).encode()) if any(said) else ""


def _spans(index: FileIndex) -> dict[str, Span]:
    """The lines of every statement that a scan may read by itself."""
    found = {f"{FUNCTION}{name}": (facts.line, facts.end_line) for name, facts in index.functions.items()}
    for cls in index.classes.values():
        found.update((f"{cls.name}.{name}", span) for name, span in cls.fields.items())
    for name, bound in index.assigns.items():
        found.update((f"{name} {number}", span) for number, span in enumerate(bound))
    return found


def _digested(files: Files, index: FileIndex, seen: Seen, entrances: Entrances) -> Seen:
    """With the digests of what stands there now."""
    source = files.source(index.path)
    texts = {name: _text_digest(source.lines[first - 1 : last]) for name, (first, last) in seen.spans.items()}
    parts = (
        (index.module, index.is_package, index.stars, index.captures, index.replays),
        [_meaning(index, name) for name in seen.names],
        [_class(facts) for facts in index.classes.values()],
        [_function(facts) for facts in index.functions.values() if _counts(facts, seen.names, entrances)],
        [re.findall(pattern, source.text, flags) for pattern, flags in seen.searches],
    )
    whole = digest(repr(parts).encode("utf-8", "surrogatepass"))
    return replace(seen, texts=texts, digest=whole, writers=_writers(index))


def _writers(index: FileIndex) -> Mapping[str, str]:
    found: dict[str, list[tuple[str, Sequence[str]]]] = {}
    for facts in index.classes.values():
        for attribute, methods in facts.writers.items():
            found.setdefault(attribute, []).append((facts.name, methods))
    return {attribute: digest(repr(who).encode("utf-8", "surrogatepass"))[:16] for attribute, who in found.items()}


def _text_digest(lines: Sequence[str]) -> str:
    return digest("\n".join(lines).encode("utf-8", "surrogatepass"))


def _meaning(index: FileIndex, name: str) -> tuple[object, ...]:
    return (
        name,
        name in index.functions,
        name in index.classes,
        index.imports.get(name),
        len(index.assigns.get(name, ())),
    )


def _class(facts: ClassFacts) -> tuple[object, ...]:
    return (facts.name, facts.bases, facts.decorators, [*facts.methods.items()], [*facts.fields])


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


# in the cache

_OTHERS = tuple(field.name for field in fields(Footprint) if field.name != "seen")


def footprint_text(footprint: Footprint) -> str:
    """A line for all else, and one for each file."""
    texts = footprint.seen.texts
    head = {**{name: getattr(footprint, name) for name in _OTHERS}, "seen": [*texts]}
    return "\n".join((json.dumps(head, separators=(",", ":")), *texts.values()))


def parse_footprint(text: str) -> Footprint | None:
    try:
        head, *lines = text.split("\n")
        data = json.loads(head)
        seen = dict(zip(data.pop("seen"), lines, strict=True))
        return Footprint(seen=SeenFiles(seen), **data)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
