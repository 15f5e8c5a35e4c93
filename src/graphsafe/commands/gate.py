"""Compares the results of `graphsafe capture --all` with the lock, and divides the targets among machines."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from graphsafe.console import complain, say
from graphsafe.errors import RequestError
from graphsafe.report.text import count

if TYPE_CHECKING:
    from graphsafe.capture.request import CaptureRequest
    from graphsafe.lock.file import Lock
    from graphsafe.lock.proven import Key, Proven
    from graphsafe.lock.regressions import Comparison, Introduced
    from graphsafe.report.model import Report

    Again = Callable[[CaptureRequest], Report]
    Runs = Mapping[str, tuple[CaptureRequest, Report]]

_SHARD = re.compile(r"([1-9]\d*)/([1-9]\d*)")
OF_TESTS = "::"
"Only the names of targets in test files contain this text. pytest writes the entries of these targets."


@dataclass(frozen=True, slots=True)
class Shard:
    """One machine's share of all targets: part `number` (counted from 1) of `of` parts."""

    number: int = 1
    of: int = 1

    @staticmethod
    def parsed(text: str | None) -> Shard:
        """Parse `number/of`. Without a text, all targets form one shard. Raises RequestError for any other form."""
        if text is None:
            return Shard()
        match = _SHARD.fullmatch(text)
        if match is None or int(match[1]) > int(match[2]):
            raise RequestError(f"--shard {text}: expected K/N with K from 1 to N, for example 2/8")
        return Shard(int(match[1]), int(match[2]))

    def part_of(self, requests: Sequence[CaptureRequest]) -> list[CaptureRequest]:
        """Return every `of`-th target. Neighbouring targets are similar, so they run on different machines."""
        shard = None if self.of == 1 else f"{self.number}/{self.of}"
        return [replace(one, shard=shard) for one in requests[self.number - 1 :: self.of]]


@dataclass(frozen=True, slots=True)
class Gate:
    """Compares proven targets with the lock, or writes them into it."""

    path: Path
    is_updated: bool
    "Whether the lock is written instead of compared."
    is_whole: bool
    "Whether all targets have run, so that entries without a target can be removed."

    def passes(self, requests: Sequence[CaptureRequest], reports: Sequence[Report], again: Again) -> dict[str, bool]:
        """Compare the reports with the lock, or write them into it. The result is reported on stderr.

        Return, for each target in the lock, whether nothing has become worse. The value is False for a target that no
        longer exists. A target without an entry for the devices of this machine is left out. If a target has only
        become slower, `again` proves it once more. Raises RequestError.
        """
        from graphsafe.capture.request import gave_no_answer
        from graphsafe.lock import file
        from graphsafe.lock.proven import proven_by

        before = file.read(self.path)
        runs = {one.name or one.target: (one, report) for one, report in zip(requests, reports, strict=True)}
        left = (name for name in before if OF_TESTS not in name and name not in runs)
        gone = sorted(left) if self.is_whole else []
        if not self.is_updated:
            return self._compared(before, runs, gone, again)
        now = {name: proven_by(report) for name, (_, report) in runs.items() if not gave_no_answer(report)}
        file.write(self.path, file.joined(before, now, gone))
        for name in runs:
            if name not in now:
                kept = "its entry stays as it was" if name in before else "has no entry"
                complain(f"{self.path.name}: {name} could not be run, and {kept}")
        say(f"{self.path.name}: {count(len(now), 'target')} written", err=True)
        return {}

    def _compared(self, before: Lock, runs: Runs, gone: Sequence[str], again: Again) -> dict[str, bool]:
        from graphsafe.capture.request import gave_no_answer
        from graphsafe.lock.regressions import introduced_since

        introduced = introduced_since(self.path)
        outcome: dict[str, bool] = {}
        entries = worse = 0
        for name, (request, report) in runs.items():
            if gave_no_answer(report):
                complain(f"{name}: could not be run, so it is not compared")
                outcome[name] = False
                continue
            found = _of_target(name, before.get(name, {}), request, report, introduced, again)
            better = (f"{text}; --update-lock keeps it" for text in found.better)
            for line in (*found.worse, *found.skipped, *better):
                complain(line)
            entries += found.compared
            worse += len(found.worse)
            if found.compared or found.worse:
                outcome[name] = not found.worse
        _report_gone(gone)
        outcome |= dict.fromkeys(gone, False)
        worse += len(gone)
        meant = "; if they are intended, --update-lock records them" if worse else ""
        result = f"{count(entries, 'entry')} compared, {count(worse, 'regression')}{meant}"
        say(f"{self.path.name}: {result}", err=True)
        return outcome


def _of_target(
    name: str,
    locked: Mapping[Key, Proven],
    request: CaptureRequest,
    report: Report,
    introduced: Introduced,
    again: Again,
) -> Comparison:
    from graphsafe.capture.request import gave_no_answer
    from graphsafe.lock.proven import proven_by
    from graphsafe.lock.regressions import compared, confirmed

    def anew() -> Report | None:
        one = again(request)
        return None if gave_no_answer(one) else one

    return confirmed(report, lambda one: compared(name, locked, proven_by(one), one, introduced), anew)


def any_is_gone(root: Path) -> bool:
    """Report the targets that are still in the lock of a project without targets.

    Return whether there are any. Raises RequestError if the lock cannot be read.
    """
    from graphsafe.lock import file

    gone = sorted(name for name in file.read(root / file.NAME) if OF_TESTS not in name)
    _report_gone(gone)
    return bool(gone)


def _report_gone(names: Sequence[str]) -> None:
    for name in names:
        complain(f"{name}: in the lock, but no longer a target; --update-lock removes it")


def gate_for(requests: Sequence[CaptureRequest], locked: bool, update_lock: bool, part: Shard) -> Gate | None:
    """Return the gate, or None if the lock is not needed. Raises RequestError if the lock cannot be read."""
    if not (locked or update_lock) or not requests:
        return None
    from graphsafe.lock.file import NAME, check_place, read

    path = requests[0].config.root / NAME
    if update_lock:
        check_place(path)
    read(path)
    return Gate(path, update_lock, is_whole=part.of == 1)
