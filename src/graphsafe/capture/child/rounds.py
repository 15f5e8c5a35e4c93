"""Many rounds of a program: its refresh, then a step or a replay.

A refresh may do something else only in the tenth round (new weights, another page of a cache, a new scale), and may
decide so by a count that the step's Python keeps, which replays do not continue. So replays are compared with eager
steps in many more rounds than new inputs alone need. The eager rounds and the replays run in two children, which do
nothing before that the other does not do, too: nothing is put back but what steps change on the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from graphsafe.capture.child.expected import Expected, Stepped
from graphsafe.capture.child.session import PAIR, Session, load_values
from graphsafe.capture.child.state import copies_of, reach_of

ROUNDS = "rounds.pt"
"The file in which the eager rounds are handed over."
MOST_ROUNDS = 64


def load_rounds(folder: Path) -> list[Stepped]:
    found: list[Stepped] = load_values(folder / ROUNDS)
    return found


def inputs_of_rounds(session: Session, reference: Expected) -> Iterator[int]:
    """Yield the number of each round's inputs, after the state that steps change on the device is put back, so that
    positions do not run out of their buffers. Host state, and what else the refresh changes, stays."""
    tensors = reach_of(session.subject).tensors
    changed = sorted({path for step in reference.steps for path in step.values} & tensors.keys())
    kept = copies_of(session.device, [tensors[path] for path in changed])
    for number in range(PAIR + 1, PAIR + 1 + MOST_ROUNDS):
        for path, values in zip(changed, kept, strict=True):
            if tensors[path].shape == values.shape:  # else the refresh has given it another size
                session.device.store(tensors[path], values)
        yield number
