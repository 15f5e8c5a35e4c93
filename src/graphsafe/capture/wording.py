"""The words of findings about captures: pure functions from what probes saw to text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from graphsafe.capture.lines.places import shown

OWN_GRAPHS = "it replays CUDA graphs of its own, which PyTorch refuses during a capture"
WITHOUT_GRAPHS = "; to capture the whole step, build it without graphs of its own"
WITHOUT_COMPILED = (
    '; to capture the whole step, compile it without CUDA graphs: `mode="max-autotune-no-cudagraphs"` or the default'
)


class Words(defaultdict[str, str]):
    def __missing__(self, key: str) -> str:
        return "a value"


def what_was_frozen(difference: Mapping[str, Any]) -> str:
    """What a capture froze and a later one froze otherwise, as a sentence that follows others."""
    op, before, after = difference["op"], difference["before"], difference["after"]
    return f" Here one capture froze {before} into {op}{at_place(difference['frames'])}, and a later one {after}."


def repair_of_generator(works: bool) -> str:
    tried = "tried here: the next draw works" if works else "tried here, without success"
    return (
        "; a process left like this draws again after `torch.cuda.default_generators[i].graphsafe_set_state(fresh)`, "
        f"`fresh` being a new Generator with the old seed and offset ({tried})"
    )


def place_of(frames: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"path": shown(frames[-1]["path"]), "line": frames[-1]["line"]} if frames else {}


def at_place(frames: Sequence[Mapping[str, Any]]) -> str:
    return f" ({shown(frames[-1]['path'])}:{frames[-1]['line']})" if frames else ""
