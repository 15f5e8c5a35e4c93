"""Fingerprints: the identity of a finding when lines above it move.

A fingerprint is a hash of the code, the path from the project root, the qualified function, the line's text without
spacing and comment, and an ordinal that counts the places of one function where all of these are equal. It does not
depend on devices: the same finding on two devices, or from `scan` and from `capture`, has one fingerprint.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from graphsafe.report.model import Finding, in_order

Text = Callable[[str, int], str]
"""Returns the text of a line by a location's path and its number; empty if it cannot be read."""

_STRING_OR_COMMENT = re.compile(r"""(?P<string>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")|#.*""")


def fingerprint(code: str, path: str, function: str | None, text: str, ordinal: int) -> str:
    """Return 16 hexadecimal digits. `path` is from the project root, with forward slashes; `ordinal` counts from 0."""
    parts = (code, path, function or "", normalised(text), str(ordinal))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def normalised(text: str) -> str:
    """Return a line of Python without its comment, with every run of white space as one space."""
    code = _STRING_OR_COMMENT.sub(lambda found: found["string"] or "", text)
    return " ".join(code.split())


def fingerprinted(findings: Iterable[Finding], text_of: Text, from_root: Callable[[str], str]) -> list[Finding]:
    """Return the findings in order, each with its fingerprint; `from_root` turns a location's path into one from the
    root."""
    places: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    found = []
    for finding in in_order(findings):
        at = finding.location
        text = text_of(at.path, at.line)
        key = (finding.code, at.path, at.function or "", normalised(text))
        seen = places.setdefault(key, [])
        if (at.line, at.column) not in seen:
            seen.append((at.line, at.column))
        ordinal = seen.index((at.line, at.column))
        found.append(
            replace(finding, fingerprint=fingerprint(finding.code, from_root(at.path), at.function, text, ordinal))
        )
    return found
