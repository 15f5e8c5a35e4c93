"""What a report depends on: after an edit anywhere else it holds, with its lines shifted.

Of a file that holds hot code a scan reads some statements, looks up some names, and uses what the file defines. Where
an edit leaves all that as it was, a scan would make the same report. In any doubt there is a scan.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from graphsafe.report.model import Report, in_order
from graphsafe.scan.incremental.line_shifts import LineShift, Span, Unclear, shifted
from graphsafe.scan.roots.candidate_files import RootPatterns, may_capture
from graphsafe.scan.sources.source import digest
from graphsafe.scan.symbols.custom_ops import operators_in
from graphsafe.scan.symbols.index import ClassFacts, FileIndex, FunctionFacts
from graphsafe.scan.symbols.overrides import subclasses_in
from graphsafe.scan.symbols.project import Project, Used
from graphsafe.scan.symbols.project_files import Files

MAX_CHANGED = 32
"If more files have changed, as with another branch, hardly any report still holds."
OWN_COMMENT = b"graphsafe:"


@dataclass(frozen=True, slots=True)
class FileDependencies:
    """What a scan used of one file."""

    names: tuple[str, ...]
    "Looked up at its module level, there or not."
    spans: Mapping[str, Span]
    "The statements that were read, by name: their first and last lines."
    searches: tuple[tuple[str, int], ...]
    "What its text was searched for: patterns and their flags."
    digest: str
    "Of what the names mean, what the searches find, the text of the statements, and the classes and methods."


@dataclass(frozen=True, slots=True)
class Dependencies:
    report: str
    "The key of the report."
    contents: Mapping[str, str]
    "Path -> digest, of every file of the project."
    hints: Mapping[str, str]
    "Path -> digest of what its bytes say without being parsed, where they say anything."
    files: Mapping[str, FileDependencies]
    whole: Sequence[str]
    "Files in which every character counts. One that is neither here nor among `files` was not looked into."


def dependencies(
    files: Files,
    project: Project,
    contents: Mapping[str, str],
    root_patterns: RootPatterns,
    report: str,
    before: Dependencies | None = None,
) -> Dependencies:
    """To be taken when the scan is over. `contents`: the digest of every file of the project.

    What has not changed since `before` is taken from there.
    """
    hints: dict[str, str] = {}
    found: dict[str, FileDependencies] = {}
    whole: list[str] = []
    asked = project.asked()
    for path, content in contents.items():
        earlier: FileDependencies | None = None
        if before is not None and before.contents.get(path) == content:
            hint, is_whole, earlier = before.hints.get(path, ""), path in files.read_whole, before.files.get(path)
        else:
            data = files.data(path) or b""
            hint, is_whole = _hint(data, root_patterns), path in files.read_whole or OWN_COMMENT in data
        if hint:
            hints[path] = hint
        index = files.indexes.get(path)
        if path in files.problems or path in files.rewritten or is_whole:
            whole.append(path)
        elif index is not None:
            of_file = _of_file(files, index, asked.get(path, ()), root_patterns, earlier)
            if of_file is not None:
                found[path] = of_file
            else:
                whole.append(path)
    return Dependencies(report, dict(contents), hints, found, whole)


def used(before: Dependencies, files: Files) -> Used:
    """What an earlier scan has used, as far as it is still there."""
    spans: dict[str, dict[tuple[int, int], int]] = {}
    for path, of_file in before.files.items():
        index = files.index(path) if path in files.names else None
        if index is not None:
            today = _spans(index)
            spans[path] = dict.fromkeys((today[name] for name in of_file.spans if name in today), 0)
    searches = {path: {re.compile(*search) for search in of.searches} for path, of in before.files.items()}
    names = {path: set(of.names) for path, of in before.files.items()}
    return Used({}, {}, set(), spans, set(before.whole), searches, names)


def _of_file(
    files: Files,
    index: FileIndex,
    asked: Iterable[str],
    root_patterns: RootPatterns,
    earlier: FileDependencies | None,
) -> FileDependencies | None:
    """None where a statement was read that the index has no name for. `earlier`: of the same content."""
    names = {span: name for name, span in _spans(index).items()}
    read = files.read_spans.get(index.path, {}).keys()
    if not read <= names.keys():
        return None
    spans = {names[span]: span for span in sorted(read)}
    searches = tuple(sorted((pattern.pattern, pattern.flags) for pattern in files.searches.get(index.path, ())))
    found = FileDependencies(tuple(sorted(asked)), spans, searches, "")
    if earlier is not None and replace(earlier, digest="") == found:
        return earlier
    return _digested(files, index, found, root_patterns)


def after_edit(
    before: Dependencies,
    report: Report,
    files: Files,
    contents: Mapping[str, str],
    root_patterns: RootPatterns,
    key: str,
) -> tuple[Report, Dependencies] | None:
    """The report after an edit, and what it depends on, under `key`; None where the edit may change more than lines."""
    if contents.keys() != before.contents.keys():
        return None
    changed = [path for path, content in contents.items() if content != before.contents[path]]
    if len(changed) > MAX_CHANGED or not set(changed).isdisjoint(before.whole):
        return None
    now: dict[str, FileDependencies] = {}
    for path in changed:
        data = files.data(path)
        if data is None or OWN_COMMENT in data or _hint(data, root_patterns) != before.hints.get(path, ""):
            return None
        if path in before.files:
            found = _unchanged(files, path, before.files[path], root_patterns)
            if found is None:
                return None
            now[path] = found
        else:
            files.check(path)
            if path in files.problems:
                return None
    shifts = {path: LineShift(before.files[path].spans, found.spans) for path, found in now.items()}
    try:
        findings = in_order(shifted(report.findings, shifts))
    except Unclear:
        return None
    after = replace(before, report=key, contents=dict(contents), files={**before.files, **now})
    return replace(report, findings=tuple(findings)), after


def _unchanged(
    files: Files, path: str, before: FileDependencies, root_patterns: RootPatterns
) -> FileDependencies | None:
    """The same with today's lines; None where anything else is not as it was."""
    index = files.index(path)
    if index is None or path in files.rewritten or index.replays:
        return None
    spans = _spans(index)
    if not before.spans.keys() <= spans.keys():
        return None
    found = _digested(files, index, replace(before, spans={name: spans[name] for name in before.spans}), root_patterns)
    return found if found.digest == before.digest else None


# what a file says


def _hint(data: bytes, root_patterns: RootPatterns) -> str:
    begins = root_patterns.may_be_in(data), may_capture(data), b"torch" in data
    said = (*begins, [*subclasses_in(data)], [*operators_in(data)])
    return digest(repr(said).encode()) if any(said) else ""


def _spans(index: FileIndex) -> dict[str, Span]:
    """The lines of every statement that a scan may read by itself."""
    found = {f"def {name}": (facts.line, facts.end_line) for name, facts in index.functions.items()}
    for cls in index.classes.values():
        found.update((f"{cls.name}.{name}", span) for name, span in cls.fields.items())
    for name, bound in index.assigns.items():
        found.update((f"{name} {number}", span) for number, span in enumerate(bound))
    return found


def _digested(files: Files, index: FileIndex, found: FileDependencies, root_patterns: RootPatterns) -> FileDependencies:
    """With the digest of what stands there now."""
    source = files.source(index.path)
    parts = (
        (index.module, index.is_package, index.stars, index.captures, index.replays),
        [_meaning(index, name) for name in found.names],
        [_class(facts) for facts in index.classes.values()],
        [_function(facts) for facts in index.functions.values() if _counts(facts, found.names, root_patterns)],
        [re.findall(pattern, source.text, flags) for pattern, flags in found.searches],
        [(name, source.lines[first - 1 : last]) for name, (first, last) in found.spans.items()],
    )
    return replace(found, digest=digest(repr(parts).encode("utf-8", "surrogatepass")))


def _meaning(index: FileIndex, name: str) -> tuple[object, ...]:
    return (
        name,
        name in index.functions,
        name in index.classes,
        index.imports.get(name),
        len(index.assigns.get(name, ())),
    )


def _class(facts: ClassFacts) -> tuple[object, ...]:
    writers = [(attribute, tuple(methods)) for attribute, methods in facts.writers.items()]
    return (facts.name, facts.bases, facts.decorators, [*facts.methods.items()], [*facts.fields], writers)


def _function(facts: FunctionFacts) -> tuple[object, ...]:
    return (facts.name, facts.decorators, facts.owner, facts.mark, facts.captures, facts.hands_over)


def _counts(facts: FunctionFacts, names: Sequence[str], root_patterns: RootPatterns) -> bool:
    """All functions but those at module level that nobody asked for and that nothing makes a root."""
    return (
        facts.owner is not None
        or root_patterns.anywhere
        or bool(facts.decorators or facts.mark or facts.captures or facts.hands_over)
        or facts.name in names
        or facts.name in root_patterns.names
    )


# in the cache


def dependencies_text(found: Dependencies) -> str:
    files = {path: (of.names, of.spans, of.searches, of.digest) for path, of in found.files.items()}
    parts = (found.report, found.contents, found.hints, files, found.whole)
    return json.dumps(parts, separators=(",", ":"))


def parse_dependencies(text: str) -> Dependencies | None:
    """None for text that was damaged."""
    try:
        report, contents, hints, files, whole = json.loads(text)
        found = {
            path: FileDependencies(
                tuple(names),
                {name: (first, last) for name, (first, last) in spans.items()},
                tuple((pattern, flags) for pattern, flags in searches),
                of_text,
            )
            for path, (names, spans, searches, of_text) in files.items()
        }
        return Dependencies(report, contents, hints, found, whole)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
