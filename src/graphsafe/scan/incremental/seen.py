"""What a scan saw of each file, as the cache keeps it: of thousands of files an edit asks after few."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from graphsafe.scan.incremental.moves import Span

UNMOVED = "[{},"
"How the text begins of a file whose statements are where the record has them."


@dataclass(frozen=True, slots=True)
class Seen:
    """What a scan saw of one file."""

    names: tuple[str, ...]
    "That were asked for at its module level, there or not."
    spans: Mapping[str, Span]
    "The statements that were read, and their first and last lines."
    searches: tuple[tuple[str, int], ...]
    "What its text was searched for: patterns and their flags."
    searched: tuple[str, ...]
    "The statements in which something was looked for, so that readings of a function are not all that counts."
    texts: Mapping[str, str]
    "The same statements, with the digests of their text."
    digest: str
    "Of what the names mean and the searches find, and of the classes and methods."
    writers: Mapping[str, str]
    "Attribute -> digest of the classes and their methods that assign it."
    written: Mapping[str, Span] = field(default_factory=dict)
    "Where the statements were when the scan's record was written, if that was elsewhere."


class SeenFiles(Mapping[str, Seen]):
    """By path. To look one up raises ValueError, KeyError or TypeError where the cache is damaged."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts
        "Each file's as JSON, in one line."
        self._parsed: dict[str, Seen] = {}

    def __getitem__(self, path: str) -> Seen:
        if path not in self._parsed:
            self._parsed[path] = _parsed(self.texts[path])
        return self._parsed[path]

    def __contains__(self, path: object) -> bool:
        return path in self.texts

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def __len__(self) -> int:
        return len(self.texts)

    def moved(self) -> dict[str, Seen]:
        """The files in which statements are elsewhere than the record has them."""
        return {path: self[path] for path, text in self.texts.items() if not text.startswith(UNMOVED)}

    def but(self, seen: Mapping[str, Seen]) -> SeenFiles:
        """The same, with these in place of what there was, or as well."""
        return SeenFiles({**self.texts, **{path: _text(one) for path, one in seen.items()}})


def _text(seen: Seen) -> str:
    columns = (
        seen.written,
        seen.names,
        seen.spans,
        seen.searches,
        seen.searched,
        seen.texts,
        seen.digest,
        seen.writers,
    )
    return json.dumps(columns, separators=(",", ":"))


def _parsed(text: str) -> Seen:
    written, names, spans, searches, searched, texts, digest, writers = json.loads(text)
    return Seen(
        tuple(names),
        _spans(spans),
        tuple((pattern, flags) for pattern, flags in searches),
        tuple(searched),
        texts,
        digest,
        writers,
        _spans(written),
    )


def _spans(columns: Mapping[str, list[int]]) -> dict[str, Span]:
    return {name: (first, last) for name, (first, last) in columns.items()}
