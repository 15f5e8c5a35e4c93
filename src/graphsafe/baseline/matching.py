"""Matches findings with the entries of a baseline, and finds the entries that match no finding."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from graphsafe.baseline.baseline_file import Entry, Identity
from graphsafe.report.fingerprint import fingerprint
from graphsafe.report.model import Confidence, Finding, Location, Report, Suppression, in_order
from graphsafe.report.source import Lines, file_lines
from graphsafe.rulebook.book import UNREADABLE
from graphsafe.rulebook.rule import Rule

MOST = 100
"The largest number of characters of the code in an entry. Longer code is cut, and a hash is added."
_STRING_OR_COMMENT = re.compile(
    r"""(?P<string>\"{3}(?s:.)*?\"{3}|'{3}(?s:.)*?'{3}|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")|\#[^\n]*"""
)
_SPACE = re.compile(r"\\?\s+")
_TRAILING_COMMA = re.compile(r",(?=[)\]}])")


def span_text(location: Location, lines: Sequence[str] | None) -> str:
    """Return the code of a location in normalised form, or "" if it cannot be read."""
    if lines is None or not 0 < location.line <= location.end_line <= len(lines):
        return ""
    spanned = [*lines[location.line - 1 : location.end_line]]
    spanned[-1] = spanned[-1][: location.end_column - 1]
    spanned[0] = spanned[0][location.column - 1 :]
    return shortened(normalised("\n".join(spanned)))


def normalised(code: str) -> str:
    """Remove comments, line breaks, spaces around operators and brackets, and commas before a closing bracket."""
    parts: list[str] = []
    end = 0
    for found in _STRING_OR_COMMENT.finditer(code):
        parts += [_tight(code[end : found.start()]), _requoted(found["string"] or "")]
        end = found.end()
    parts.append(_tight(code[end:]))
    return _TRAILING_COMMA.sub("", "".join(parts)).strip()


def shortened(text: str) -> str:
    """Return a string as one line of limited length, with printable characters only. Different strings give different
    lines."""
    line = "".join(character if character.isprintable() else "?" for character in text)
    if len(line) <= MOST and line == text:
        return line
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{line[: MOST - 12]}... {digest}"


def _tight(code: str) -> str:
    """Remove all spaces except those between words."""
    return re.sub(r"(?<!\w) | (?!\w)", "", _SPACE.sub(" ", code))


def _requoted(string: str) -> str:
    """Return `'a'` as `"a"`, unless it contains a quote or a backslash."""
    inside = string[1:-1]
    return f'"{inside}"' if string[:1] == "'" and not re.search(r"""['"\\\n]""", inside) else string


STALE = "GS903"
_PARTIAL = frozenset(("nearest-roots", "unread-ways", "internal-error"))
"The kinds of limits that show that a scan may have missed findings."


@dataclass(frozen=True, slots=True)
class Scope:
    """The extent of a scan. An entry inside this extent that matches no finding is stale."""

    root: Path
    "The project root, with links resolved."
    paths: Sequence[Path]
    "The scanned paths, absolute and with links resolved."
    is_enabled: Callable[[str, str], bool]
    """A function that takes a code and a file's path from the root, and returns whether the scan searches for this code
    in this file. It returns True for a code that no rule has."""
    possible: bool

    def covers(self, entry: Entry) -> bool:
        at = entry.identity
        path = Path(os.path.normpath(self.root / at.path))
        return (
            (self.possible or entry.confidence is None)
            and self.is_enabled(at.code, at.path)
            and any(path.is_relative_to(given) for given in self.paths)
        )


@dataclass(frozen=True, slots=True)
class Matches:
    """Findings with their entries, and the entries that match no finding."""

    held: Sequence[tuple[Finding, Identity, Entry | None]]
    "Every finding in order, with its identity, and its entry or None."
    left: Sequence[tuple[Entry, int]]
    "Entries whose findings the scan should have found, with the number of findings that are missing."
    unjudged: Sequence[tuple[Entry, int]]
    "Entries whose findings the scan did not search for, with the number of these findings."


def matched(report: Report, entries: Sequence[Entry], scope: Scope, source: Lines = file_lines) -> Matches:
    """Match every finding with at most one entry.

    The entry has the finding's identity. If a function or a file was renamed, the two may differ in it, but then no
    finding may have the entry's own identity. So a copy of accepted code is a new finding.
    """
    findings = [finding for finding in in_order(report.findings) if finding.code != STALE]
    identities = [_identity(finding, scope.root, source) for finding in findings]
    found: dict[int, int] = {}
    "The index of a finding -> the index of its entry."
    remaining = [entry.count for entry in entries]
    is_partial = any(limit.kind in _PARTIAL for limit in report.limits)
    unread = {at.path for at in identities if at.code == UNREADABLE}
    unread |= {_from_root(limit.what, scope.root) for limit in report.limits if limit.kind == "unread-file"}

    def judged(entry: Entry) -> bool:
        return not is_partial and entry.identity.path not in unread and scope.covers(entry)

    def gone(entry: Entry) -> bool:
        return not is_partial and (judged(entry) or not (scope.root / entry.identity.path).exists())

    # A finding that a comment suppresses needs no entry. So it only gets an entry that no other finding matches.
    order = sorted(range(len(findings)), key=lambda number: findings[number].suppressed is not None)
    rounds: Sequence[tuple[Callable[[Identity], Hashable], Callable[[Entry], bool]]] = (
        (lambda at: at, lambda entry: True),
        (lambda at: (at.path, at.code, at.text), judged),
        (lambda at: (at.function, at.code, at.text), gone),
    )
    for key, is_free in rounds:
        free: dict[Hashable, list[int]] = {}
        for number, entry in enumerate(entries):
            if remaining[number] and is_free(entry):
                free.setdefault(key(entry.identity), []).append(number)
        for number in order:
            waiting = free.get(key(identities[number]), []) if number not in found else []
            while waiting and not remaining[waiting[0]]:
                del waiting[0]
            if waiting:
                found[number] = waiting[0]
                remaining[waiting[0]] -= 1
    over = [(entry, count) for entry, count in zip(entries, remaining, strict=True) if count]
    matching = [entries[found[number]] if number in found else None for number in range(len(findings))]
    return Matches(
        list(zip(findings, identities, matching, strict=True)),
        [(entry, count) for entry, count in over if judged(entry)],
        [(entry, count) for entry, count in over if not judged(entry)],
    )


def _identity(finding: Finding, root: Path, source: Lines) -> Identity:
    at = finding.location
    return Identity(_from_root(at.path, root), at.function or "", finding.code, span_text(at, source(at.path)))


def _from_root(path: str, root: Path) -> str:
    with contextlib.suppress(ValueError):  # the path is on another drive of Windows
        path = Path(os.path.relpath(path, root)).as_posix()
    # TOML cannot represent every byte of a name that is not UTF-8.
    return path.encode("utf-8", "replace").decode("utf-8")


def without_known(report: Report, matches: Matches, file: str, stale: Rule | None, today: datetime.date) -> Report:
    """Return the report with known findings suppressed, and with a finding for each stale entry of `file`.

    Findings of an expired entry are not suppressed, and their message says so. `stale` is the rule about stale entries,
    or None if that rule is not selected.
    """
    findings = [_judged(finding, entry, today) for finding, _, entry in matches.held]
    if stale is not None:
        findings += _stale(matches.left, file, stale)
    return replace(report, findings=tuple(in_order(findings)))


def recorded(matches: Matches) -> list[Entry]:
    """Return the entries of a new baseline: the unsuppressed findings, with what people have written about them."""
    counts: Counter[tuple[Identity, Entry | None, bool]] = Counter()
    for finding, identity, entry in matches.held:
        if finding.suppressed is None:
            counts[identity, entry, finding.confidence == "possible"] += 1
    kept = [replace(entry, count=count) for entry, count in matches.unjudged]
    for (identity, entry, possible), count in counts.items():
        made = entry or Entry(identity)
        confidence: Confidence | None = "possible" if possible else None
        kept.append(replace(made, identity=identity, count=count, confidence=confidence))
    return _joined(kept)


def _joined(entries: Iterable[Entry]) -> list[Entry]:
    """Join entries that differ only in their count."""
    counts: Counter[Entry] = Counter()
    for entry in entries:
        counts[replace(entry, count=1, line=1)] += entry.count
    return [replace(entry, count=count) for entry, count in counts.items()]


def _judged(finding: Finding, entry: Entry | None, today: datetime.date) -> Finding:
    if entry is None or finding.suppressed is not None:
        return finding
    said = {"owner": entry.owner, "reason": entry.reason}
    expires = entry.expires.isoformat() if entry.expires else None
    data: Mapping[str, object] = {**finding.data, "baseline": {**said, "expires": expires}}
    if entry.is_expired(today):
        about = "".join(f", {key} {value}" for key, value in said.items() if value)
        message = f"{finding.message} (its baseline entry expired on {expires}{about})"
        return replace(finding, message=message, data=data)
    return replace(finding, data=data, suppressed=Suppression(entry.reason))


def _stale(left: Iterable[tuple[Entry, int]], file: str, rule: Rule) -> Iterable[Finding]:
    seen: Counter[Identity] = Counter()
    for entry, count in left:
        at = entry.identity
        seen[at] += 1
        number = "" if entry.count == 1 else f"{entry.count} times "
        what = f"{number}{at.code} `{at.text}` in {at.function or 'the module level'} of {at.path}"
        words = {
            "expr": what,
            "gone": "which is" if count == entry.count else f"of which {count} {'is' if count == 1 else 'are'}",
        }
        where = Location(file, entry.line, 1, entry.line, len("[[finding]]") + 1, None)
        finding = rule.about(where, words, {"expr": what, "missing": count})
        yield replace(finding, fingerprint=fingerprint(rule.code, Path(file).name, None, f"{at}", seen[at] - 1))
