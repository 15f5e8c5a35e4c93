"""The line that wrote a piece of state is found by its path, and no line is named rather than a wrong one."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch

from graphsafe.capture.child.lines.executed import Executed, lines_traced
from graphsafe.capture.child.probes.state import ChangesSeen, changed_paths
from graphsafe.capture.child.state import reachable_state
from graphsafe.capture.child.targets import Subject

GROUP = {"step": 0, "other": 0}
N = 0


class Machine:
    def __init__(self) -> None:
        self.cfg = {"n": 0, "m": 0}
        self.groups = [{"step": 0}, {"step": 0}]
        self.state: dict[Any, dict[str, int]] = {0: {"step": 0, "seen": 0}}
        self.counts = [0, 0]
        self.ids = itertools.count()
        self.left, self.right = 1, 2
        self.plain = self.dynamic = self.named = 0
        self.queue = [1, 2, 3]
        self.seen, self.met = set[int](), set[int]()
        self.tensor: Any = torch.ones(2)

    def run(self) -> None:
        global N
        N += 1  # N
        GROUP["other"] = 1  # GROUP['other']
        GROUP["step"] += 1  # GROUP['step']
        self.cfg["n"] = self.cfg["n"] + 1  # cfg['n']
        self.cfg["m"] = 3  # cfg['m']
        for group in self.groups:
            group["steps"] = 1
            group["step"] += 1  # one of two lines that store under this key
        self.state[0]["seen"] += 1  # state[0]['seen']
        self.counts[0] += 1  # counts[0]
        for index in (1,):
            self.counts[index] += 1  # counts[1]
        next(self.ids)  # ids
        self.left, self.right = self.right, self.left  # left right
        self.plain += 1  # plain
        setattr(self, "dynamic", 1)  # dynamic  # noqa: B010
        self.__dict__["named"] = 4  # named
        self.queue.pop()  # queue queue[2]
        self.seen.add(1)  # seen
        self.summed = self.tensor.add(1)  # summed
        if 2 in self.met or self.met.add(2):  # met
            return


@pytest.fixture(scope="module")
def ran() -> Executed:
    found, machine = Executed(), Machine()
    with lines_traced(found):
        machine.run()
    return found


LINES = Path(__file__).read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("path", ["N", "GROUP['other']", "GROUP['step']", "cfg['n']", "cfg['m']", "state[0]['seen']",
                                  "counts[0]", "counts[1]", "ids", "left", "right", "plain", "dynamic", "named",
                                  "queue[2]", "seen", "summed", "met"])  # fmt: skip
def test_the_line_that_wrote_it(path: str, ran: Executed) -> None:
    frames = ran.writer_of(path)
    assert frames, path
    comment = LINES[frames[-1].line - 1].partition("  # ")[2]
    assert path in comment.split()


def test_an_element_behind_another_name_is_found_by_its_key(ran: Executed) -> None:
    [line] = [
        number for number, text in enumerate(LINES, 1) if text.endswith("# one of two lines that store under this key")
    ]
    found = ran.writer_of("groups[0]['steps']")
    assert found and found[-1].line == line - 1


@pytest.mark.parametrize("path", ["missing", "cfg['k']", "groups[0]['step']", "other.unseen[3]", "tensor"])
def test_no_line_rather_than_a_wrong_one(path: str, ran: Executed) -> None:
    """Two lines store under 'step': which one it was is not known."""
    assert ran.writer_of(path) == ()


class Layers:
    def __init__(self) -> None:
        self.counts = [0, 0]
        self.rates = {"a": [1.0]}
        self.weight, self.bias = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
        self.layers = [torch.ones(2) for _ in range(20)]

    def run(self) -> None:
        self.counts[0] += 1  # counts[0]
        for place in (1,):
            self.counts[place] += 1  # counts[1]
        self.rates = {"a": [self.rates["a"][0] / 2]}  # rates['a'][0]
        for weight in (self.weight,):
            weight.data = weight.detach() * 2  # weight
        self.bias = torch.nn.Parameter(self.bias.detach() * 2)  # bias
        self.layers.append(self.layers.pop(0) * 2)
        for at, layer in enumerate(self.layers):
            self.layers[at] = self.doubled(layer)  # layers[0] layers[7] layers[19]

    def doubled(self, layer: torch.Tensor) -> torch.Tensor:
        return layer * 2


@pytest.mark.parametrize("path", ["counts[0]", "counts[1]", "rates['a'][0]", "weight", "bias", "layers[7]"])
def test_the_line_that_changed_it_is_found_by_reading_the_state_after_each_line(path: str) -> None:
    layers = Layers()
    subject = Subject(layers.run, (), {})
    before = reachable_state(subject)
    before.tensors = before.views()
    layers.run()
    seen = ChangesSeen(reachable_state(subject), changed_paths(before, reachable_state(subject)))
    ran = Executed()
    with lines_traced(ran, seen.trace):
        layers.run()
    found = seen.line_of(path)
    assert found and path in LINES[found[-1].line - 1].partition("  # ")[2].split()
    assert seen.is_given_memory(path) == (path == "weight")
    assert found[-1].line in ran.lines[__file__]


def test_a_step_of_too_many_lines_has_no_lines_rather_than_early_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphsafe.capture.child.probes.state._MOST_LOOKS", 5)
    layers = Layers()
    reach = reachable_state(Subject(layers.run, (), {}))
    seen = ChangesSeen(reach, ["counts[0]"])
    with lines_traced(Executed(), seen.trace):
        layers.run()
    assert seen.line_of("counts[0]") == ()
