"""Words findings about captures: pure functions from probes to text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphsafe.capture.shared.places import shown
from graphsafe.report.kernel_names import readable
from graphsafe.report.model import CallSite
from graphsafe.report.probes.horizon import Departure
from graphsafe.report.probes.twin import Difference
from graphsafe.report.text import count

OWN_GRAPHS = "it replays CUDA graphs of its own, which PyTorch refuses during a capture"
WITHOUT_GRAPHS = "; to capture the whole step, build it without graphs of its own"
WITHOUT_COMPILED = (
    '; to capture the whole step, compile it without CUDA graphs: `mode="max-autotune-no-cudagraphs"` or the default'
)


class Words(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "a value"


def what_was_frozen(one: Difference) -> str:
    """Return a sentence about two captures and the value that each of them froze, to follow other sentences."""
    op = f"{readable(one.op)}{at_place(one.frames)}"
    if one.what == "count":
        return f" Here one capture has {one.before}, and a later one {one.after}; they part at {op}."
    if one.what == "operation":
        before, after = readable(one.before), readable(one.after)
        return f" Here one capture has {before} where a later one has {after}{at_place(one.frames)}."
    return f" Here one capture froze {one.before} into {op}, and a later one {one.after}."


def what_departed(departure: Departure) -> str:
    """Return how a later step differs from the captured one, as a sentence that follows others."""
    op, under = f"{departure.op}{at_place(departure.frames)}", departure.under
    later = f"{count(departure.step, 'step')} later" if under == "further steps" else f"with {under}"
    return f" Here {op} has {departure.before} at capture and {departure.after} {later}."


def repair_of_generator(works: bool) -> str:
    tried = "tried here: the next draw works" if works else "tried here, without success"
    return (
        "; a process left like this draws again after `torch.cuda.default_generators[i].graphsafe_set_state(fresh)`, "
        f"`fresh` being a new Generator with the old seed and offset ({tried})"
    )


def place_of(frames: Sequence[CallSite]) -> dict[str, Any]:
    return {"path": shown(frames[-1].path), "line": frames[-1].line} if frames else {}


def at_place(frames: Sequence[CallSite]) -> str:
    return f" ({shown(frames[-1].path)}:{frames[-1].line})" if frames else ""
