"""The page of a comparison: the changes in words, and both timelines, one above the other and at the same scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphsafe.report.changes import Section, changes, outcome_text, paired
from graphsafe.report.html.timeline import scales_of, timeline_html
from graphsafe.report.html.words import STYLE, escaped_text, page, words
from graphsafe.report.model import Report
from graphsafe.report.timeline.lanes import Picture, pictures


def render_changes(before: Sequence[Report], after: Sequence[Report], names: tuple[str, str]) -> str:
    """Return the page. `names` are the names of the files of the two reports."""
    sections = changes(before, after)
    title = f"graphsafe diff {names[0]} {names[1]}"
    worse = " class='worse'" if any(change.worse for section in sections for change in section.changes) else ""
    parts = [f"<h1>{escaped_text(title)}</h1>", f"<p><strong{worse}>{outcome_text(sections)}</strong></p>"]
    parts += [_section(section) for section in sections]
    parts += _timelines(before, after, names)
    return page(title, STYLE, f"<main>\n{''.join(parts)}\n</main>")


def _section(section: Section) -> str:
    items = (
        f'<li class="worse">{words(change.text)}</li>' if change.worse else f"<li>{words(change.text)}</li>"
        for change in section.changes
    )
    return f"<h2>{escaped_text(section.title)}</h2><ul>{''.join(items)}</ul>"


def _timelines(before: Sequence[Report], after: Sequence[Report], names: tuple[str, str]) -> list[str]:
    drawn = [_pair(old, new, names) for old, new in _pictures(before, after) if old.lanes or new.lanes]
    if drawn:
        return ["<h2>The step in time</h2>", *drawn]
    if any(report.command == "capture" for report in after):
        text = "Neither report has a timeline. `graphsafe capture TARGET -o report.json -o trace.json` saves one."
        return [f"<h2>The step in time</h2><p>{words(text)}</p>"]
    return []


def _pictures(before: Sequence[Report], after: Sequence[Report]) -> Iterator[tuple[Picture, Picture]]:
    """Yield pairs of timelines of the same target, device and bucket. Two single reports may have different targets."""
    for old, new in paired(before, after)[0]:
        olds = {picture.place: picture for picture in (pictures(old) if old is not None else ())}
        for picture in pictures(new):
            if picture.place in olds:
                yield olds[picture.place], picture


def _pair(old: Picture, new: Picture, names: tuple[str, str]) -> str:
    same = [picture for picture in (old, new) if picture.timeline.is_measured == new.timeline.is_measured]
    drawn = "".join(
        timeline_html(picture, name, scales_of(same if picture in same else [picture]))
        or f"<p>{escaped_text(name)}: {escaped_text(picture.timeline.told() or 'no timeline')}</p>"
        for picture, name in zip((old, new), names, strict=True)
    )
    return f"<h3>{escaped_text(new.title)}</h3>{drawn}"
