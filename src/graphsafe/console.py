"""Output to the terminal and to files."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from graphsafe.errors import RequestError
from graphsafe.files import from_here
from graphsafe.report.text import count, level_counts, listed, printable, without_commands, wrapped

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from graphsafe.fixes.apply import Fixed
    from graphsafe.ignore_comments import Added
    from graphsafe.report.ci.sarif import RuleTexts
    from graphsafe.report.ledger.model import Ledger
    from graphsafe.report.model import Finding, Report
    from graphsafe.report.source import Lines
    from graphsafe.scan.linting.hotness import Hotness
    from graphsafe.scan_request.settings import Setting

_MOST = 8
"At most this many functions or uses are listed."


def say(text: str, *, err: bool = False) -> None:
    """Print lines. Control characters, and text that a CI system would execute as a command, are made harmless.

    Names, messages and settings come from files that anybody may have written. Functions that colour their output do
    not use this function.
    """
    click.echo("\n".join(without_commands(printable(line)) for line in text.split("\n")), err=err)


def complain(line: str) -> None:
    """Print one line on stderr, without control characters. If stderr cannot be written, drop the line."""
    with contextlib.suppress(OSError):
        say(f"graphsafe: {printable(line)}", err=True)


def check_writable(output: Path | None, option: str = "-o") -> None:
    """Raise RequestError if the output file of an option cannot be written, or is code that graphsafe did not write.

    It is called before the work begins, because a capture takes minutes.
    """
    if output is not None and (output.is_dir() or not os.access(output.absolute().parent, os.W_OK)):
        raise RequestError(f"{option} {output}: cannot be written")
    if output is not None:
        _check_replaceable(output, option)


def _check_replaceable(output: Path, option: str) -> None:
    """Raise RequestError if the file contains Python code that graphsafe did not write."""
    if output.suffix not in (".py", ".pyi") or not output.is_file():
        return
    from graphsafe.capture.plan.shared.marks import is_emitted

    text = output.read_text(encoding="utf-8", errors="replace")
    if text.strip() and not is_emitted(text):
        raise RequestError(f"{option} {output}: contains code that graphsafe did not write; name another file")


def put(
    reports: Report | Sequence[Report] | Ledger,
    form: str,
    output: Path | None,
    rules: Callable[[], RuleTexts],
    source: Lines | None = None,
) -> None:
    """Write reports in one format, to a file or to stdout. Raises RequestError if the file cannot be written.

    `source` returns the lines of code that are shown.
    """
    from graphsafe.report.forms import render
    from graphsafe.report.source import file_lines

    colour = output is None and _colour(sys.stdout)
    text = render(reports, form, colour=colour, width=_width(), rules=rules, source=source or file_lines)
    put_text(text, output)
    if output is None and form == "github":
        _put_summary(reports)


def put_text(text: str, output: Path | None) -> None:
    """Write a string unchanged to a file or to stdout. Raises RequestError."""
    from graphsafe.files import write_atomically

    if output is None:
        click.echo(text, nl=False, color=True)
        return
    _check_replaceable(output, "-o")  # the report of a refused request is written too
    try:
        write_atomically(output, text)
    except OSError as error:
        raise RequestError(f"-o {output}: {error.strerror}") from None


def put_ledger_on_stderr(ledger: Ledger) -> None:
    """Print a ledger on stderr, so that it is not mixed with the output of the program."""
    from graphsafe.report.forms import render

    with contextlib.suppress(OSError):
        text = render(ledger, "terminal", colour=_colour(sys.stderr), width=_width())
        click.echo(text, nl=False, err=True, color=True)


def _put_summary(reports: Report | Sequence[Report] | Ledger) -> None:
    """Add the reports to the job's summary, if the command runs in GitHub Actions."""
    from graphsafe.report.ci.github import render_summary
    from graphsafe.report.ledger.model import Ledger
    from graphsafe.report.model import Report

    file = os.environ.get("GITHUB_STEP_SUMMARY")
    if not file:
        return
    if isinstance(reports, Ledger):
        reports = reports.as_report()
    text = render_summary([reports] if isinstance(reports, Report) else reports)
    try:
        with open(file, "ab") as summary:
            summary.write(text.encode("utf-8", "replace"))
    except OSError as error:
        complain(f"GITHUB_STEP_SUMMARY: {file}: {error.strerror}")


def put_summary(named: Sequence[tuple[str, Report]]) -> None:
    """Print a line for each target: its name, verdict, seconds and devices."""
    from graphsafe.report.capture_text import summary_lines
    from graphsafe.report.text import painter

    click.echo(without_commands("\n" + "\n".join(summary_lines(named, painter(_colour(sys.stdout))))), color=True)


def put_written(file: Path, findings: int, new: int, gone: int) -> None:
    """Print how many findings a new baseline contains."""
    more = [f"{new} new"] * bool(new) + [f"{gone} gone"] * bool(gone)
    text = f"{count(findings, 'finding')}{f' ({listed(more)})' if more else ''}"
    say(f"{from_here(str(file))}: {text}")


def put_added(added: Added) -> None:
    """Print where comments were added, and which findings could not get a comment."""
    files = f" in {count(added.files, 'file')}" if added.files else ""
    say(f"{count(added.findings, 'finding')} ignored{files}")
    for failure in added.failures:
        complain(failure)


def put_fixed(fixed: Fixed) -> None:
    """Print on stderr how many findings were repaired, and which ones could not be repaired."""
    if not _without_repair(fixed):
        say(f"graphsafe: {count(fixed.count, 'finding')} fixed in {count(len(fixed.files), 'file')}", err=True)
    for risk in fixed.risks:
        complain(risk)
    put_unfixed(fixed)


def put_unfixed(fixed: Fixed) -> None:
    """Print on stderr which files could not be fixed, or that no finding has a repair."""
    for failure in fixed.failures:
        complain(failure)
    if left := _without_repair(fixed):
        unsafe = sum(bool(finding.edits) for finding in left)
        kind, more = ("a safe", f", {unsafe} of them with an unsafe repair (--unsafe-fixes)") if unsafe else ("an", "")
        complain(f"no finding has {kind} automatic repair; {count(len(left), 'finding')} left{more}")


def _without_repair(fixed: Fixed) -> Sequence[Finding]:
    """Return all findings if none of them could be fixed because none has a suitable repair."""
    from graphsafe.report.model import unsuppressed

    return () if fixed.made or fixed.failures else unsuppressed(fixed.first)


def put_diff(lines: Iterable[bytes]) -> None:
    """Print a diff.

    On a terminal, control characters of the files are replaced. In a pipe, the diff is printed unchanged, so that `git
    apply` can read it.
    """
    for line in lines:
        if is_live(sys.stdout):
            say(line.decode("utf-8", "replace").rstrip("\r\n"))
        else:
            click.echo(line, nl=False)


def put_statistics(report: Report) -> None:
    """Print a line for each rule that has findings, the most frequent first, and the sum."""
    from graphsafe.report.model import grouped, unsuppressed

    def levels(findings: Sequence[Finding]) -> str:
        return listed(level_counts([finding.level for finding in findings]))

    shown = unsuppressed(report)
    width = len(str(len(shown)))
    rules = grouped(shown, lambda finding: (finding.code, finding.rule))
    for (code, rule), same in sorted(rules.items(), key=lambda item: (-len(item[1]), item[0])):
        say(f"{len(same):>{width}}  {code}  {rule} ({levels(same)})")
    files = count(len({finding.location.path for finding in shown}), "file")
    say(f"{len(shown):>{width}}  in all, in {files}" + f" ({levels(shown)})" * bool(shown))


def put_settings(configurations: Iterable[Iterable[Setting]]) -> None:
    """Print a block for each configuration, with a line for each setting: its name, its value, and where the value
    comes from."""
    say("\n\n".join("\n".join(line for row in rows for line in _setting(*row)) for rows in configurations))


def _setting(name: str, value: str, origin: str) -> list[str]:
    lines = wrapped(value, max(_width(), 40), f"{name}: ", "    ", cut=False)
    fits = len(lines[-1]) + 1 + len(f"({origin})") <= _width()
    return [*lines[:-1], f"{lines[-1]} ({origin})"] if fits else [*lines, f"    ({origin})"]


def put_page(markdown: str) -> None:
    """Print a page. It is rendered on a terminal, and plain Markdown in a pipe. The address of each link is shown."""
    if _colour(sys.stdout):
        from rich.console import Console
        from rich.markdown import Markdown

        page = Markdown("\n".join(map(printable, markdown.split("\n"))), hyperlinks=False)
        Console(width=min(_width(), 100), force_terminal=True, color_system="standard").print(page)
    else:
        say(markdown.removesuffix("\n"))


def put_hotness(found: Sequence[Hotness]) -> None:
    """Print why functions are hot or not. If there are many functions, print the first ones and explain how to select
    fewer."""
    blocks = ["\n".join(_hotness(each)) for each in found[:_MOST]]
    more = (
        f"Not shown: {count(len(found) - _MOST, 'further function')} with this name. "
        "To select one, write its class or file before the name, as above."
    )
    say("\n\n".join([*blocks, more] if len(found) > _MOST else blocks))


def _hotness(found: Hotness) -> Iterator[str]:
    at, root = found.definition, found.root
    title = f"{at.name} ({from_here(at.path)}:{at.line})"
    if root is not None:
        if not found.chain:
            yield f"{title} is hot: {found.why}."
        else:
            yield f"{title} is hot."
            yield f"  root: {root.name or 'the module level'} ({from_here(root.path)}:{root.line}), {found.why}"
        callees = [*(edge.caller for edge in found.chain[1:]), at.ref]
        for edge, callee in zip(found.chain, callees, strict=False):
            path, _, caller = edge.caller.partition("::")
            behind = ", behind a guard that keeps it out of captures" if edge.guarded else ""
            called = callee.partition("::")[2]
            yield f"  {from_here(path)}:{edge.line}: {caller or 'the module level'} calls {called}{behind}"
        if any(edge.guarded for edge in found.chain):
            yield "  Every path to it is guarded, so its findings are notes at most."
        if found.further_roots:
            yield f"  {count(found.further_roots, 'more root')} can reach it."
    else:
        yield f"{title} is not hot: {found.cold or 'no hot code is known to call it'}."
        for use in found.uses[:_MOST]:
            around = use.function or "the module level"
            yield f"  {from_here(use.path)}:{use.line}: named in {around}, which is {'hot' if use.hot else 'not hot'}"
        if len(found.uses) > _MOST:
            yield f"  and in {count(len(found.uses) - _MOST, 'further place')}"
        if not found.uses:
            yield "  Nothing in the project names it."
        elif any(use.hot for use in found.uses) and found.cold is None:
            yield "  Hot code names it, but no capture reaches that line, or the method's object is not known."
        if found.is_factory:
            yield "  It is a factory: scan reads it for the step that it returns, which is hot."
        else:
            yield f"  To make it hot: {_mending(found)}."
    if not found.reported:
        yield "  Its file is not among the paths given: nothing is reported in it."


def _mending(found: Hotness) -> str:
    if found.pattern is None:
        return "`# graphsafe: hot` on the function around it"
    if found.is_marked:
        return "remove this mark, or write `# graphsafe: hot` instead"
    mark = "`# graphsafe: hot` on its `def` line"
    return mark if found.cold is not None else f'{mark}, or hot-paths = ["{found.pattern}"]'


class StatusLine:
    """One line on stderr that says what is being done. It is erased at the end."""

    def __init__(self) -> None:
        self.from_here = False

    def show(self, line: str) -> None:
        click.echo(f"\r\033[K{printable(line)[: _width() - 1]}", nl=False, err=True)
        self.from_here = True

    def clear(self) -> None:
        if self.from_here:
            click.echo("\r\033[K", nl=False, err=True)


class ProgressBar:
    """A progress bar on stderr, which only long runs show."""

    PATIENCE = 2.0
    "The number of seconds before the bar is shown."

    def __init__(self, what: str) -> None:
        self._what = what
        self._start = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def show(self, done: int, total: int) -> None:
        if self._bar is None:
            if time.monotonic() - self._start < self.PATIENCE:
                return
            from rich.console import Console
            from rich.progress import Progress

            self._bar = Progress(console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(self._what, total=total)
            self._bar.start()
        if self._task is not None:
            self._bar.update(self._task, completed=done, total=total)

    def clear(self) -> None:
        if self._bar is not None:
            self._bar.stop()


def _colour(stream: TextIO) -> bool:
    """Return whether to use colour on a stream. As in Python, NO_COLOR takes precedence over FORCE_COLOR. If neither is
    set, the stream is coloured if it is a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or is_live(stream)


def is_live(stream: TextIO) -> bool:
    """Return whether a stream is a terminal that can show colours and move its cursor."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _width() -> int:
    return shutil.get_terminal_size((80, 24)).columns
