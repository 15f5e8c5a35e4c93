"""The modes of `graphsafe scan`: they make a report or do something else instead."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from graphsafe.commands.options import FINDINGS, OK, is_quiet
from graphsafe.console import (
    ProgressBar,
    complain,
    is_live,
    put_added,
    put_diff,
    put_fixed,
    put_hotness,
    put_settings,
    put_unfixed,
    put_written,
)
from graphsafe.scan_request.request import Buffers, Part, ScanRequest, changes_of, joined, parts_of, run_part, scope

if TYPE_CHECKING:
    from graphsafe.report.model import Report

Outcome: TypeAlias = "tuple[Report, int]"
"The joined report, and the exit code."
_NO_ROOT = "no-root"
_TOLD_ALWAYS = (_NO_ROOT, "internal-error", "not-python", "unread-folder", "submodule")
_TOLD = (*_TOLD_ALWAYS, "unmatched-setting")


class ScanModes:
    """A request, with one part for each configuration. All methods may raise RequestError."""

    def __init__(self, request: ScanRequest, buffers: Buffers, exit_zero: bool) -> None:
        self.request = request
        self._exit_zero = exit_zero
        self._changes = changes_of(request)
        self.parts = parts_of(request)
        self._buffers = buffers
        self._bar = ProgressBar("reading hot code")
        self._progress = self._bar.show if is_live(sys.stderr) and not is_quiet() else None

    def explain(self, function: str) -> None:
        """Print why a function is hot or not hot."""
        from graphsafe.scan.api import explain_path

        jobs, reported = self.request.jobs, []
        try:
            for part in self.parts:
                reported += explain_path(function, part.paths, part.config, jobs, self._progress)
        finally:
            self._bar.clear()
        put_hotness(reported)

    def show_settings(self) -> None:
        from graphsafe.scan_request.settings import settings

        put_settings([settings(part, self.request) for part in self.parts])

    def write_baseline(self) -> Outcome:
        from graphsafe.baseline import api as known

        reports = [self._scanned(part, is_known=False) for part in self.parts]
        for part, report in zip(self.parts, reports, strict=True):
            if self.request.baseline is None:
                known.check_place(part.baseline, part.config.root)
            put_written(part.baseline, *known.write(report, part.baseline, scope(part, self.request)))
        return joined(reports), OK

    def add_ignores(self, reason: str) -> Outcome:
        from graphsafe.ignore_comments import add_ignores

        code, reports = OK, []
        for part in self.parts:
            added = add_ignores(partial(self._scanned, part), part.config.root, part.failing, reason)
            reports.append(added.report)
            put_added(added)
            code = FINDINGS if added.failures else code
        return joined(reports), code

    def fix(self, unsafe: bool, is_written: bool) -> Outcome:
        """Repair the code and report the remaining findings. If `is_written` is false, print the changes instead, and
        report all findings."""
        from graphsafe.fixes.apply import diff, fix_all, write

        code, reports = OK, []
        for part in self.parts:
            scan = partial(self._scanned, part)
            fixed = fix_all(scan, part.config.root, unsafe)
            if is_written:
                fixed = write(fixed, scan)
                put_fixed(fixed)
            else:
                put_diff(diff(fixed))
                put_unfixed(fixed)
            reports.append(fixed.report if is_written else fixed.first)
            code = FINDINGS if fixed.failures else code
        return joined(reports), max(code, self._judged(reports))

    def report(self, hot: dict[str, set[tuple[int, int]]] | None = None) -> Outcome:
        """Report the findings. The statements of hot code are added to `hot`, by the absolute paths of their files."""
        reports = [self._scanned(part, hot=hot) for part in self.parts]
        return joined(reports), self._judged(reports)

    def _judged(self, reports: Sequence[Report]) -> int:
        failing = any(part.failing(report) for part, report in zip(self.parts, reports, strict=True))
        return FINDINGS if failing and not self._exit_zero else OK

    def _scanned(
        self,
        part: Part,
        held: Buffers = MappingProxyType({}),
        is_known: bool = True,
        hot: dict[str, set[tuple[int, int]]] | None = None,
    ) -> Report:
        """Scan with the contents in `held` in place of the saved files."""
        try:
            return run_part(
                part,
                self.request,
                buffers={**self._buffers, **held},
                changes=self._changes,
                is_known=is_known,
                hot=hot,
                progress=self._progress,
                complain=complain,
            )
        finally:
            self._bar.clear()


def on_screen(report: Report) -> Report:
    """Return the report for the terminal format on stdout, without the limits that stderr shows in any case."""
    return replace(report, limits=tuple(limit for limit in report.limits if limit.kind != _NO_ROOT))


def complain_of_limits(report: Report, is_shown: bool) -> None:
    """Print on stderr the limits that the user must know, for every format of the report.

    With --quiet, print only the limits that make a report without findings meaningless. `is_shown` says that the report
    is on the same terminal, so that the limits which it shows need not be repeated.
    """
    from graphsafe.report.terminal import MOST_LIMITS

    told = _TOLD_ALWAYS if is_quiet() else _TOLD
    seen = on_screen(report).limits[:MOST_LIMITS] if is_shown else ()
    for limit in report.limits:
        if limit.kind in told and limit not in seen:
            complain(f"{limit.what}: {limit.why}")
