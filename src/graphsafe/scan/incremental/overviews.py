"""What a file says without being read line by line: what makes roots, and what its names may mean."""

from __future__ import annotations

from graphsafe.scan.roots.assumed_roots import hooks_in
from graphsafe.scan.roots.candidate_files import RootPatterns, may_capture, may_choose_device
from graphsafe.scan.sources.source import digest
from graphsafe.scan.symbols.custom_ops import operators_in
from graphsafe.scan.symbols.default_device import default_device_in
from graphsafe.scan.symbols.index import ClassFacts, FileIndex, FunctionFacts
from graphsafe.scan.symbols.overrides import subclasses_in

OWN_COMMENT = b"graphsafe"
"Where it stands every character counts: suppressions and marks are told by their lines."


def words(data: bytes, root_patterns: RootPatterns) -> str:
    """A digest of what a file's text is searched for in every scan."""
    parts = (
        (root_patterns.may_be_in(data), may_capture(data), may_choose_device(data), b"torch" in data),
        default_device_in(data),
        ([*subclasses_in(data)], [*operators_in(data)], [*hooks_in(data)]),
        digest(data) if OWN_COMMENT in data else "",
    )
    return digest(repr(parts).encode("utf-8", "surrogatepass"))[:16]


def overview(data: bytes, index: FileIndex, root_patterns: RootPatterns) -> str:
    """A digest of what else decides which roots a file holds, and what is said about lines that were read."""
    implementing = frozenset(function for _, function in operators_in(data))
    lines = data.split(b"\n")
    parts = (
        (index.module, index.is_package, index.captures, index.replays),
        index.imports_torch,
        [class_parts(facts) for facts in index.classes.values()],
        [
            (facts.name, facts.decorators, facts.owner, facts.mark, facts.captures, facts.hands_over)
            for facts in index.functions.values()
            if facts.name in implementing or _may_be_root(facts, root_patterns)
        ],
        # Tables hold functions.
        [
            name
            for name, spans in index.assigns.items()
            if name.isupper() and any(b"{" in line for first, last in spans for line in lines[first - 1 : last])
        ],
    )
    return digest(repr(parts).encode("utf-8", "surrogatepass"))[:16]


def class_parts(facts: ClassFacts) -> tuple[object, ...]:
    """What a class declares, lines and text aside."""
    methods, writers = [*facts.methods.items()], [*facts.writers.items()]
    return facts.name, facts.bases, facts.decorators, methods, [*facts.fields], writers


def declarations(index: FileIndex) -> tuple[object, ...]:
    """All that decides what names mean that are looked up in a file, or through it."""
    bound = [(name, len(spans)) for name, spans in index.assigns.items()]
    classes = [class_parts(facts) for facts in index.classes.values()]
    return index.module, index.is_package, index.stars, [*index.imports.items()], [*index.functions], classes, bound


def _may_be_root(facts: FunctionFacts, root_patterns: RootPatterns) -> bool:
    """All functions but those at module level that nothing makes a root."""
    return (
        facts.owner is not None
        or root_patterns.anywhere
        or bool(facts.decorators or facts.mark or facts.captures or facts.hands_over)
        or facts.name in root_patterns.names
    )
