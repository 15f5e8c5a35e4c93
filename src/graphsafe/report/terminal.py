"""The format `terminal`, for people: findings with their code and carets under the span, then the summary."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

from graphsafe.report.fresh_buffers import further_lines, is_folded
from graphsafe.report.model import (
    LEVELS,
    Finding,
    Level,
    Limit,
    Location,
    Reach,
    Report,
    grouped,
    is_in_baseline,
    unsuppressed,
)
from graphsafe.report.no_line import totals
from graphsafe.report.source import Lines
from graphsafe.report.text import Sheet, cells, chained, count, listed, printable

_TAB = 4
_CUT = "..."


def code_frame(location: Location, lines: Sequence[str] | None, sheet: Sheet, style: str) -> list[str]:
    """Return the first line of a span and its carets, no wider than the sheet. Return nothing if the line does not
    exist.

    A line that is too long loses its indentation first, then the parts that are far from the span.
    """
    if lines is None or not 0 < location.line <= len(lines):
        return []
    gutter = f"{location.line} | "
    margin = sheet.paint("blue", f"{' ' * (len(gutter) - 2)}|")
    text, start, end = _placed(lines[location.line - 1], location)
    code, before, marked = _cropped(text, start, end, max(sheet.width - len(gutter), 20))
    caret = f"{margin} {' ' * before}{sheet.paint(style, '^' * marked)}"
    return [margin, sheet.paint("blue", gutter.rstrip()) + f" {code}".rstrip(), caret]


def _placed(line: str, location: Location) -> tuple[str, int, int]:
    """Return the line without tabs. Also return the columns, in characters, at which the span begins and ends in this
    line."""
    raw_end = location.end_column - 1 if location.end_line == location.line else len(line.rstrip())
    starts = []
    text = ""
    for character in line:
        starts.append(len(text))
        text += " " * (_TAB - len(text) % _TAB) if character == "\t" else printable(character)
    starts.append(len(text))
    start = starts[min(location.column - 1, len(line))]
    end = starts[min(raw_end, len(line))]
    return text, start, max(end, start + 1)


def _cropped(text: str, start: int, end: int, room: int) -> tuple[str, int, int]:
    """Return the part of `text` to show, the number of cells before the carets, and the number of carets."""
    if cells(text) > room:
        indent = min(len(text) - len(text.lstrip()), start)
        text, start, end = text[indent:], start - indent, end - indent
    at = [0, *accumulate(map(cells, text))]
    first, last = 0, len(text)
    if at[-1] > room:
        from_cell = min(_window(at[start], at[end], room), at[-1] - room)
        if from_cell:
            first = bisect_left(at, from_cell + len(_CUT))
        if at[-1] > from_cell + room:
            last = max(bisect_right(at, from_cell + room - len(_CUT)) - 1, start + 1)
    left, right = _CUT if first else "", _CUT if last < len(text) else ""
    marked = at[min(end, last)] - at[start]
    return left + text[first:last] + right, len(left) + at[start] - at[first], max(marked, 1)


def _window(start: int, end: int, room: int) -> int:
    """For a line that is too long, return the first cell to show.

    If the span is visible from cell 0 on, return 0. Otherwise return a cell a little before the span.
    """
    if end + len(_CUT) <= room:
        return 0
    near = max(start - room // 4, 0)
    to_see_all = end - room + 2 * len(_CUT)
    return near if to_see_all > start - len(_CUT) else max(near, to_see_all)


STYLES: dict[Level, str] = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan"}
MOST_LIMITS = 20
_MOST_FILES = 20
_MOST_LINES = 8
"""At most this many further lines are listed for a group of notes. A reader does not need all of them."""
_MANY = 50
"""If there are more findings than this, each function and code has only one line, without source code.

A reader then needs an overview first.
"""
_FIRST = 5
"""This many findings are proposed as a start."""


def render_terminal(reports: Sequence[Report], source: Lines, *, colour: bool, width: int) -> str:
    """Return lines of at most `width` cells. The location of a finding is never broken, so that terminals can open
    it."""
    sheet = Sheet.of(colour, width)
    blocks = [block for report in reports for block in _blocks(report, source, sheet)]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def render_findings(findings: Sequence[Finding], source: Lines, *, colour: bool, width: int) -> str:
    """Return only the findings, in the given order, each with its code."""
    sheet, printed = Sheet.of(colour, width), _Printed(set(), [])
    blocks = [_finding([finding], source, sheet, printed) for finding in findings]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _blocks(report: Report, source: Lines, sheet: Sheet) -> list[list[str]]:
    shown = unsuppressed(report)
    main = [finding for finding in shown if finding.level != "note"]
    notes = [finding for finding in shown if finding.level == "note" and not is_folded(finding)]
    folded = [finding for finding in shown if is_folded(finding)]
    printed = _Printed(set(), [])
    if len(main) <= _MANY:
        # Equal findings about several devices or processes are shown once.
        groups = groupby(main, lambda one: (one.location, one.code, one.level, one.message))
        blocks = [_finding([*same], source, sheet, printed) for _, same in groups]
    else:
        blocks = [_lines(main, sheet), _advice(main, sheet)]
    blocks += [_lines(notes, sheet)] if notes else []
    blocks += [_files(folded, sheet)] if folded else []
    limits, of_devices = report.limits, list[list[str]]()
    if report.devices is not None:
        from graphsafe.report import capture_text  # imports all probes, which a scan does not need

        limits, of_devices = capture_text.further_limits(report), capture_text.capture_blocks(report, sheet)
    blocks += [_limits(limits, sheet)] if limits else []
    blocks += of_devices
    if len(main) > _MANY:
        blocks += [_by_code(shown), _start(main, sheet)]
    return [*blocks, _summary(report, shown, sheet)]


@dataclass(slots=True)
class _Printed:
    """Texts that were already printed and need not be repeated."""

    reasons: set[tuple[str, str]]
    "The codes whose `why` was printed, each with this text."
    chain: list[str]
    "The call chain of the previous finding."


def _finding(same: Sequence[Finding], source: Lines, sheet: Sheet, printed: _Printed) -> list[str]:
    finding, at = same[0], same[0].location
    style = STYLES[finding.level]
    lines = [
        *_titled(f"{finding.code} {finding.level}:", finding.message, sheet, style),
        *_place(same, sheet),
        *code_frame(at, source(at.path), sheet, style),
        *_again(_chain(finding, sheet), printed),
    ]
    reason = (finding.code, finding.why)
    why = f"as above; more with `graphsafe explain {finding.code}`" if reason in printed.reasons else finding.why
    if finding.why:
        printed.reasons.add(reason)
    for label, text in (("why", why), ("fix", finding.fix)):
        if text:
            lines += _labelled(label, _first_paragraph(text), sheet)
    return lines


def _titled(title: str, text: str, sheet: Sheet, style: str) -> list[str]:
    first, *rest = sheet.wrapped(text, f"{title} ", "    ")
    bold = [sheet.paint("bold", line) for line in (first[len(title) :], *rest)]
    return [sheet.paint(style, title) + bold[0], *bold[1:]]


def _labelled(label: str, text: str, sheet: Sheet) -> list[str]:
    first, *rest = sheet.wrapped(text, f"  {label}: ", "       ")
    return [f"  {sheet.paint('bold', f'{label}:')}{first[len(label) + 3 :]}", *rest]


def _place(same: Sequence[Finding], sheet: Sheet) -> list[str]:
    finding, at = same[0], same[0].location
    place = printable(f"{at.path}:{at.line}:{at.column}")
    about: list[str] = [finding.confidence]
    devices = list(dict.fromkeys(one.device for one in same if one.device))
    if devices:
        about[0] += f" on {listed(devices)}"
    if finding.status:
        about.append(finding.status)
    processes = list(dict.fromkeys(str(one.data["process"]) for one in same if "process" in one.data))
    times = sum(one.count for one in same) if len(processes) > 1 else finding.count
    if len(processes) > 1:
        about.append(f"in processes {listed(processes, most=_MOST_LINES)}")
    if times > 1 and times > len(processes):
        about.append(f"{times} times")
    where = f"in {at.function} ({', '.join(about)})" if at.function else f"({', '.join(about)})"
    return _pointed(place, where, sheet)


def _pointed(place: str, where: str, sheet: Sheet) -> list[str]:
    if len("  --> ") + cells(place) + 1 + cells(where) <= sheet.width:
        return [f"  --> {sheet.paint('cyan', place)} {printable(where)}".rstrip()]
    return [f"  --> {sheet.paint('cyan', place)}", *sheet.wrapped(where, "      ", "      ")]


def _chain(finding: Finding, sheet: Sheet) -> list[str]:
    """Describe how a step reaches the finding.

    If only `capture` has seen a line, the line is not called hot, because a constructor may have run it.
    """
    calls = [f"{call.function or 'module level'} ({call.path}:{call.line})" for call in finding.call_chain]
    further = f" (and from {count(finding.further_roots, 'further root')})" if finding.further_roots else ""
    title = "  hot because: " if finding.source == "scan" else "  called by: "
    if calls:
        return chained([*calls, f"here{further}"], sheet.width, title, "      ")
    root = finding.data.get("root")
    if root is None or finding.source != "scan":
        return []
    text = f"{finding.location.function or 'module level'} begins a step: {root}{further}"
    return sheet.wrapped(text, title, "      ")


def _again(chain: list[str], printed: _Printed) -> list[str]:
    """Return the call chain, or `as above` if it is long and equal to the previous chain."""
    same = chain == printed.chain and len(chain) > 2
    printed.chain = chain
    return [f"{chain[0].partition(':')[0]}: as above"] if same else chain


def _files(findings: Sequence[Finding], sheet: Sheet) -> list[str]:
    """Return a line for each file with fresh buffers. The files with the most of them come first."""
    first = findings[0]
    by_file = grouped(findings, lambda finding: finding.location.path)
    text = f"{count(len(findings), 'fresh buffer')} every step, in {count(len(by_file), 'file')}"
    lines = _titled(f"{first.code} {first.level}:", text, sheet, STYLES[first.level])
    most = sorted(by_file, key=lambda path: -len(by_file[path]))[:_MOST_FILES]
    for path in most:
        at = min(finding.location.line for finding in by_file[path])
        lines += _pointed(printable(f"{path}:{at}"), further_lines(by_file[path]), sheet)
    if len(by_file) > len(most):
        lines.append(f"  and {count(len(by_file) - len(most), 'more file')}")
    return [*lines, *_labelled("fix", _first_paragraph(first.fix), sheet)]


def _lines(findings: Sequence[Finding], sheet: Sheet) -> list[str]:
    """Return an output line for each function and code."""
    return [line for group in _by_function(findings) for line in _line(group, sheet)]


def _advice(findings: Sequence[Finding], sheet: Sheet) -> list[str]:
    """Return the repair for each code once, in the order of codes."""
    first = {finding.code: finding for finding in sorted(findings, key=lambda finding: LEVELS.index(finding.level))}
    lines = [sheet.paint("bold", "What to write instead (`graphsafe explain CODE` says why):")]
    for code in sorted(first):
        lines += sheet.wrapped(_first_paragraph(first[code].fix), f"  {code}  ", "         ")
    return lines


def _start(findings: Iterable[Finding], sheet: Sheet) -> list[str]:
    """Return one finding for each function and code: the most severe first and, of equally severe ones, those that are
    reached from more roots."""
    ranked = sorted(findings, key=lambda finding: (-LEVELS.index(finding.level), -finding.further_roots))
    lines = [sheet.paint("bold", "Start here, with the lines that most roots reach:")]
    for finding, *_ in [*_by_function(ranked)][:_FIRST]:
        at = finding.location
        text = f"{finding.code} {finding.level}, reached from {count(finding.further_roots + 1, 'root')}"
        lines += _pointed(printable(f"{at.path}:{at.line}:{at.column}"), text, sheet)
    return lines


def _by_function(findings: Iterable[Finding]) -> Iterable[Sequence[Finding]]:
    return grouped(findings, lambda one: (one.location.path, one.location.function, one.code)).values()


def _further_lines(group: Sequence[Finding]) -> str:
    numbers = list(dict.fromkeys(str(finding.location.line) for finding in group))[1:]
    most = _MOST_LINES if group[0].level == "note" else len(numbers)
    return f", and line{'s' * (len(numbers) > 1)} {listed(numbers, most=most)}" if numbers else ""


def _line(group: Sequence[Finding], sheet: Sheet) -> list[str]:
    finding, at = group[0], group[0].location
    place = printable(f"{at.path}:{at.line}:{at.column}:")
    status = f" ({finding.status})" if finding.status == "not-executed" else ""
    text = f"{finding.code} {finding.level}{status}: {finding.message}{_further_lines(group)}"
    line, *rest = sheet.wrapped(text, f"{place} ", "    ")
    return [line.replace(place, sheet.paint("cyan", place), 1), *rest]


def _by_code(findings: Iterable[Finding]) -> list[str]:
    counts = Counter((finding.code, finding.rule) for finding in findings)
    width = len(str(max(counts.values())))
    return [f"{number:>{width}}  {code}  {rule}" for (code, rule), number in sorted(counts.items())]


def _limits(limits: Sequence[Limit], sheet: Sheet) -> list[str]:
    lines = [sheet.paint("bold", "Not known:")]
    for limit in limits[:MOST_LIMITS]:
        lines += sheet.wrapped(f"{limit.what}: {limit.why} [{limit.kind}]", "  ", "    ")
    more = len(limits) - MOST_LIMITS
    return [*lines, f"  and {more} more, in the JSON form"] if more > 0 else lines


def _summary(report: Report, shown: Sequence[Finding], sheet: Sheet) -> list[str]:
    text = totals(report) or "no findings"
    known = sum(map(is_in_baseline, report.findings))
    suppressed = len(report.findings) - len(shown) - known
    hidden = [f"{suppressed} suppressed"] * bool(suppressed) + [f"{known} in the baseline"] * bool(known)
    text += f"; {', '.join(hidden)}" if hidden else ""
    text += "" if report.reach is None else _reach(report.reach)
    if report.verdict is None:
        return sheet.wrapped(text)
    from graphsafe.report.capture_text import verdict_lines

    return verdict_lines(report.called or "capture", report.verdict, "; " + text, "", sheet)


def _reach(reach: Reach) -> str:
    hidden = f", {count(reach.hidden, 'possible finding')} hidden (--confidence possible)" if reach.hidden else ""
    return f"; {count(reach.roots, 'root')} read{hidden}"


def _first_paragraph(text: str) -> str:
    return text.strip().split("\n\n")[0]
