"""The identity of findings.

Fingerprints stay the same when lines move. `same_cause` finds out whether a predicted finding and an observed finding
have the same cause.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from graphsafe.report.model import Finding, in_order


def same_cause(prediction: Finding, seen: Finding) -> bool:
    """Return whether a predicted finding and an observed finding have the same cause.

    They have the same cause if they have the same rule and the same line. If only the line is the same, they also have
    the same cause if both rules are about host reads, extents or copies. Findings about streams and state (GS6 and GS7)
    do not belong to a single line: for these, the same rule in the same function is enough.
    """
    here, there = prediction.location, seen.location
    in_one_function = (here.path, here.function) == (there.path, there.function)
    if in_one_function and prediction.code == seen.code and seen.code.startswith(("GS6", "GS7")):
        return True
    if here.path != there.path or not here.line <= there.line <= max(here.line, here.end_line):
        return False
    if prediction.code == seen.code:
        return True
    return all(code[:3] in ("GS1", "GS2", "GS3") for code in (prediction.code, seen.code))


Text = Callable[[str, int], str]
"""Returns a line of code, given a location's path and a line number. It is "" if the line cannot be read."""

_STRING_OR_COMMENT = re.compile(r"""(?P<string>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")|#.*""")


def fingerprint(code: str, path: str, function: str | None, text: str, ordinal: int) -> str:
    """Return a fingerprint of 16 hexadecimal digits.

    `path` is relative to the project root, with forward slashes. `ordinal` counts equal lines in the function, from 0.
    """
    parts = (code, path, function or "", normalised(text), str(ordinal))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def normalised(text: str) -> str:
    """Return a line of Python without its comment, and with white space reduced to single spaces."""
    code = _STRING_OR_COMMENT.sub(lambda found: found["string"] or "", text)
    return " ".join(code.split())


def fingerprinted(findings: Iterable[Finding], text_of: Text, from_root: Callable[[str], str]) -> list[Finding]:
    """Return the findings in order, with fingerprints.

    `from_root` turns a location's path into a path relative to the project root.
    """
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
