"""Draws a timeline as an SVG picture with a legend. The reader can widen the picture."""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphsafe.report.html.words import escaped_text
from graphsafe.report.probes.timeline import ms_text
from graphsafe.report.text import count
from graphsafe.report.timeline.lanes import LEGEND, Bar, Lane, Picture

_WIDTH = 1000.0
"The width of the picture in units of its own. The page stretches the picture."
_HEIGHT = 18
_ZOOMS = (("fit", "z1"), ("4 times", "z4"), ("16 times", "z16"), ("64 times", "z64"))


def timeline_html(picture: Picture, title: str = "Timeline", scales: tuple[float, float] | None = None) -> str:
    """Return a picture of the lanes, or "" if there are none.

    `scales` are two lengths that correspond to the whole width: the first for lanes in time, the second for lanes in
    operations. By default, the width ends with the last bar.
    """
    if not picture.lanes:
        return ""
    in_time, in_order = scales or scales_of([picture])
    drawn = "".join(_lane(lane, in_time if lane.in_time else in_order) for lane in picture.lanes)
    options = "".join(f'<option class="{name}">{text}</option>' for text, name in _ZOOMS)
    kinds = {bar.kind for lane in picture.lanes for bar in lane.bars}
    legend = "".join(
        f'<span class="named"><span class="key {kind}"></span>{LEGEND[kind]}</span> '
        for kind in LEGEND
        if kind in kinds
    )
    return (
        f'<details class="timeline" open><summary>{escaped_text(f"{title}: {picture.timeline.told()}")}</summary>'
        f'<form class="filters"><label>width <select>{options}</select></label></form>'
        f'<div class="wide"><div class="lanes">{drawn}</div></div>'
        f'<p class="legend">{legend}</p>{_scale(picture, in_time, in_order)}</details>'
    )


def scales_of(pictures: Sequence[Picture]) -> tuple[float, float]:
    """Return the smallest scales in which all of these pictures fit."""
    in_time = [max(picture.length(True), picture.timeline.step_us or 0.0) for picture in pictures]
    return max(in_time, default=0.0), max((picture.length(False) for picture in pictures), default=0.0)


def _lane(lane: Lane, length: float) -> str:
    bars = "".join(_bar(bar, length) for bar in lane.bars)
    picture = f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT}" preserveAspectRatio="none">{bars}</svg>'
    return f'<p class="lane">{escaped_text(lane.name)}</p>{picture}'


def _bar(bar: Bar, of: float) -> str:
    x, width = _share(bar.begin, of), max(_share(bar.length, of), 0.2)
    label = f"<title>{escaped_text(bar.text)}</title>"
    return f'<rect class="{bar.kind}" x="{x:.3f}" y="1" width="{width:.3f}" height="{_HEIGHT - 2}">{label}</rect>'


def _share(part: float, of: float) -> float:
    """Return the width in the picture that stands for the share `part / of`. An edited report may contain any number,
    so the result is limited to the picture's width."""
    share = part / of * _WIDTH if of > 0 else 0.0
    return min(max(share, 0.0), _WIDTH) if math.isfinite(share) else 0.0


def _scale(picture: Picture, in_time: float, in_order: float) -> str:
    parts = [f"Times are not measured. The width shows {count(int(in_order), 'operation')} in order."]
    if picture.timeline.is_measured:
        parts = [f"The width is {ms_text(in_time)}. The step was profiled, which makes it a little longer."]
        if any(not lane.in_time for lane in picture.lanes):
            parts.append("The plan has no times; the width of a piece is its number of operations.")
    if picture.timeline.left_out:
        parts.append(f"{count(picture.timeline.left_out, 'further operation')} left out.")
    return f'<p class="about">{escaped_text(" ".join(parts))}</p>'
