"""Captured lines that bind the result to the name of the tensor from which they compute it."""

from __future__ import annotations

import textwrap

import pytest

from .conftest import Scan

RIG = """\
class Rig:
    def __init__(self, amp, stream, history):
        self.amp, self.stream = amp, stream
        self.block = torch.zeros(8, device="cuda")
        {made}
        self.graph = torch.cuda.CUDAGraph()

    def record(self):
        self.amp(self.block, self.history)
        with torch.cuda.graph(self.graph, stream=self.stream):
{body}
        {after}

    def play(self, samples):
        self.block.copy_(samples)
        self.graph.replay()
        return self.wet.clone()
"""
MADE = "self.history = torch.zeros(8, device='cuda')"
STEP = "self.wet, tail = self.amp(self.block, self.history)\n"
BACK = "self.history = tail.clone()"


@pytest.mark.parametrize(
    ("made", "body", "after", "found"),
    [
        (MADE, STEP + BACK, "pass", [BACK]),
        (MADE, "self.history = self.amp(self.block, self.history)", "pass", None),
        (MADE, "self.wet, self.history = self.amp(self.block, self.history)", "pass", None),
        (MADE, "self.history = 0.9 * self.history + self.block", "pass", None),
        (MADE, STEP + "self.history.copy_(tail)", "pass", []),
        (MADE, STEP + "self.history = self.history.view(2, 4)", "pass", []),
        (MADE, "self.history = torch.add(self.history, self.block, out=self.history)", "pass", []),
        (MADE, "self.wet = self.amp(self.block)\nself.history = self.wet * 2", "pass", []),
        (MADE, "self.history = self.amp(self.block)\nself.history = self.history * 2", "pass", []),
        (f"{MADE}; self.static = self.history", STEP + BACK, "pass", []),
        (MADE, STEP + BACK, "self.history = torch.zeros(8, device='cuda')", []),
        ("self.history = 0", "self.history = self.history + 1", "pass", []),
        ("self.history = history", STEP + BACK, "pass", []),  # perhaps no tensor
    ],
)
def test_an_attribute_is_bound_to_the_result_that_is_computed_from_it(
    scan: Scan, made: str, body: str, after: str, found: list[str] | None
) -> None:
    source = RIG.format(made=made, body=textwrap.indent(body, " " * 12), after=after)
    assert [line for code, line in scan(source) if code == "GS703"] == ([body] if found is None else found)


DRAFT = """\
class Draft:
    def __init__(self, model, stream):
        self.token = torch.zeros(4, dtype=torch.int64, device="cuda")
        self.place = torch.zeros(4, dtype=torch.int64, device="cuda")
        model(self.token, self.place)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.guess = model(self.token, self.place)

    def go_on(self):
        self.place.add_(1)

    def propose(self, token, place, count):
        self.token.copy_(token)
        self.place.copy_(place)
        for _ in range(count):
            self.graph.replay()
            self.token.copy_(self.guess)
            {step}  # step
        return {result}
"""


@pytest.mark.parametrize(
    ("step", "result", "found"),
    [
        ("place = place + 1", "self.guess.clone()", True),
        ("place += 1", "self.guess.clone()", True),
        ("place = place + 1; self.place.copy_(place)", "self.guess.clone()", False),
        ("place = place + 1; self.place[:2].copy_(place)", "self.guess.clone()", False),
        ("place = place + 1; self.go_on()", "self.guess.clone()", False),
        ("place = place + 1", "self.guess.clone(), place", False),  # the caller may copy it
        ("place = self.guess + 1", "self.guess.clone()", False),
        ("token = token + 1", "self.guess.clone()", False),
    ],
)
def test_a_loop_that_copies_only_the_first_value_into_an_input(scan: Scan, step: str, result: str, found: bool) -> None:
    source = DRAFT.format(step=step, result=result)
    assert [one for one in scan(source) if one[0] == "GS708"] == [("GS708", f"{step}  # step")] * found
