"""A trace for Perfetto (https://ui.perfetto.dev) and chrome://tracing, as JSON in Chrome's trace event format."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from graphsafe.report.model import Report
from graphsafe.report.timeline.lanes import Picture, pictures

_ORDER_ALONE = "order only: times are not measured, one operation is drawn as one microsecond"


def render_trace(reports: Sequence[Report]) -> str:
    """Return a process for each target, device and bucket, and a thread for each lane."""
    drawn = [picture for report in reports for picture in pictures(report)]
    events = [event for process, picture in enumerate(drawn, 1) for event in _process(process, picture)]
    about = {
        "graphsafe": sorted({report.tool.version for report in reports}),
        "without a timeline": [
            f"{picture.title}: {picture.timeline.told() or picture.timeline.status}"
            for picture in drawn
            if not picture.lanes
        ],
    }
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms", "otherData": about}, allow_nan=False) + "\n"


def _process(process: int, picture: Picture) -> Iterator[dict[str, Any]]:
    if not picture.lanes:
        return
    known = "" if picture.timeline.is_measured else f" ({_ORDER_ALONE})"
    yield _about("process_name", process, 0, name=f"{picture.title}{known}")
    yield _about("process_sort_index", process, 0, sort_index=process)
    for thread, lane in enumerate(picture.lanes, 1):
        in_order = picture.timeline.is_measured and not lane.in_time
        yield _about("thread_name", process, thread, name=f"{lane.name} ({_ORDER_ALONE})" if in_order else lane.name)
        yield _about("thread_sort_index", process, thread, sort_index=thread)
        for bar in lane.bars:
            yield {
                "ph": "X",
                "cat": bar.kind,
                "name": bar.text,
                "pid": process,
                "tid": thread,
                "ts": bar.begin,
                "dur": bar.length,
                "args": {key: value for key, value in bar.data.items() if value is not None},
            }


def _about(what: str, process: int, thread: int, **arguments: Any) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": arguments}
