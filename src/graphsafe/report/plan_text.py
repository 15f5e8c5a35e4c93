"""Describes a plan in words: its coverage and gain, its pieces in order, its modules, and the gain of each fix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from graphsafe.report.model import Fix, Plan, Segment
from graphsafe.report.text import Sheet, count, printable

_STYLES = {"captured": "green", "mixed": "yellow", "eager": "red"}
_MOST_MODULES = 24
_MOST_PIECES = 24
_MOST_FIXES = 8


def plan_lines(plan: Plan, sheet: Sheet) -> list[str]:
    lines = sheet.wrapped(headline(plan), "plan: ", "    ")
    for text in piece_texts(plan)[:_MOST_PIECES]:
        lines += sheet.wrapped(text, "  ", "      ")
    lines += _more(len(plan.segments) - _MOST_PIECES, "piece")
    rows = tree(plan)
    if len(rows) > 1:
        lines.append("  modules")
        names = max(len(name) for name, *_ in rows[:_MOST_MODULES])
        for name, state, captured, operations in rows[:_MOST_MODULES]:
            shown = sheet.paint(_STYLES[state], state) + " " * (8 - len(state))
            label = f"{printable(name):<{min(names, sheet.width - 40)}}"
            lines.append(f"    {label}  {shown}  {captured} of {count(operations, 'operation')}")
        lines += _more(len(rows) - _MOST_MODULES, "module")
    for text in fix_texts(plan)[:_MOST_FIXES]:
        lines += sheet.wrapped(text, "  ", "      ")
    lines += _more(len(fix_texts(plan)) - _MOST_FIXES, "line")
    return lines


def _more(left: int, noun: str) -> list[str]:
    return [f"  ... and {count(left, noun)} more"] if left > 0 else []


def headline(plan: Plan) -> str:
    """Return one sentence with the plan's status (and why, if it is not verified), its coverage, and its times."""
    graphs = sum(segment.kind == "graph" for segment in plan.segments)
    breaks = len(plan.segments) - graphs
    if plan.coverage is None:
        return f"none: {plan.reason}"
    share = f"{percent(plan.coverage)} of the operations in {count(graphs, 'graph')}, {count(breaks, 'eager break')}"
    if not plan.verified:
        return f"not verified: {plan.reason} ({share})"
    parts = [f"verified, {share}" if breaks else f"{plan.reason}"]
    eager, took = plan.eager_ms, plan.planned_ms
    for name, ms in (("eager", eager), ("planned", took), ("without breaks about", plan.ideal_ms)):
        if ms is not None:
            parts.append(f"{name} {ms:.3g} ms")
    if eager is not None and took is not None and took >= eager:
        parts.append("the plan gains nothing")
    if breaks and plan.reason:
        parts.append(plan.reason)
    if plan.pool_bytes:
        parts.append(f"pool {plan.pool_bytes / 2**20:.1f} MiB")
    return ", ".join(parts)


def piece_texts(plan: Plan) -> list[str]:
    """Return the pieces in order. Pieces with equal descriptions, such as those of equal layers, are described once."""
    texts = [_piece(segment) for segment in plan.segments]
    return [text if times == 1 else f"{text} ({times} times)" for text, times in Counter(texts).items()]


def _piece(segment: Segment) -> str:
    size = [count(segment.operations, "operation")] if segment.operations is not None else []
    size += [count(segment.kernels, "node")] if segment.kernels is not None else []
    size += [f"{segment.ms:.3g} ms"] if segment.ms is not None else []
    what = f"{segment.kind:<5}  {', '.join(size)}"
    place = segment.location
    if place is None:
        return f"{what}{' in ' + segment.module if segment.module else ''}"
    lines = f"{place.line}" if place.line == place.end_line else f"{place.line} to {place.end_line}"
    return f"{what}  {place.path}:{lines} in {place.function}: {segment.code} {segment.reason}"


def tree(plan: Plan) -> list[tuple[str, str, int, int]]:
    """Return a row for each module: its indented name, its state, its captured operations and all its operations.

    If all operations of a module have the same state, its submodules have no rows.
    """
    rows: list[tuple[str, str, int, int]] = []
    uniform: list[str] = []
    for module in sorted(plan.modules, key=lambda one: _order(one.module)):
        name = module.module
        if any(name.startswith(f"{outer}." if outer else "") for outer in uniform):
            continue
        if module.state != "mixed":
            uniform.append(name)
        depth = name.count(".") + 1 if name else 0
        label = f"{'  ' * depth}{name.rpartition('.')[2] or 'the step'}"
        rows.append((label, module.state, module.captured, module.operations))
    return rows


def _order(name: str) -> list[tuple[int, int, str]]:
    parts = name.split(".") if name else []
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def fix_texts(plan: Plan) -> list[str]:
    """Return a text with the shortest list of lines whose repair gives the largest gain, followed by the gain of each
    single line."""
    before, took = plan.coverage or 0.0, plan.planned_ms
    together = [fix.together for fix in plan.fixes]
    most = max(together, default=before)
    if most <= before:
        return []
    needed = plan.fixes[: together.index(most) + 1]
    several = len(needed) > 1
    reported = []
    if several:
        gain = f"coverage {percent(before)} to {percent(most)}"
        reported.append(f"fix all {len(needed)} lines: {gain}: {_places(needed)}")
    for fix in needed:
        if fix.coverage > before:
            times = "" if None in (took, fix.planned_ms) else f", {took:.3g} to {fix.planned_ms:.3g} ms"
            gain = f"coverage {percent(before)} to {percent(fix.coverage)}{times}"
            reported.append(f"fix {_places([fix])} ({fix.code}){' alone' * several}: {gain}")
    useless = [fix for fix in needed if fix.coverage <= before]
    if useless:
        gains = "none of these gains anything" if len(useless) > 1 else "this line gains nothing"
        reported.append(f"alone, {gains}: {_places(useless)}")
    return reported


def _places(fixes: Sequence[Fix]) -> str:
    """Return the lines, each file's name once, in order: `model.py:12, 40, layers.py:7`."""
    lines: dict[str, dict[int, None]] = {}
    for fix in sorted(fixes, key=lambda fix: (fix.location.path, fix.location.line)):
        lines.setdefault(fix.location.path, {})[fix.location.line] = None
    return ", ".join(f"{path.rpartition('/')[2]}:{', '.join(map(str, numbers))}" for path, numbers in lines.items())


def percent(share: float) -> str:
    return f"{int(share * 100)} %"
