"""Tensors that are handed to a helper which captures them, and graphs whose tensors stand in namespaces and tables."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

HELPER = """\
import torch


def record(layer, inputs, line):
    def once():
        return layer(*inputs)

    once()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=line):
        result = once()
    return graph, result


class Tape:
    def __init__(self, layer, source, line):
        layer(source)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=line):
            self.result = layer(source)

    def replay(self):
        self.graph.replay()
        return self.result.clone()
"""

FUNCTION = """\
import torch

from helper import record


def relax(layer, start, rounds, line):
    field = start.clone()
    wall = torch.zeros_like(start)
    graph, result = record(layer, (field, wall), line)
    for _ in range(rounds):
        graph.replay()
        {line}  # mark
    return field.clone()
"""

METHOD = """\
from helper import Tape


class Meter:
    def __init__(self, layer, frame, line):
        self.frame = frame.clone()
        self.tape = Tape(layer, self.frame, line)

    def read(self, frame):
        {line}  # mark
        return self.tape.replay()
"""


def marked(tmp_path: Path, files: dict[str, str]) -> list[str]:
    """Scan files, and return the codes of the findings on marked lines."""
    for name, text in files.items():
        (tmp_path / name).write_text(textwrap.dedent(text), encoding="utf-8")
    found = scan_paths([tmp_path], Config(root=tmp_path)).findings
    lines = {name: (tmp_path / name).read_text(encoding="utf-8").splitlines() for name in files}
    return [
        one.code
        for one in found
        if one.level != "note" and "# mark" in lines[Path(one.location.path).name][one.location.line - 1]
    ]


@pytest.mark.parametrize(
    ("caller", "line", "expected"),
    [
        (FUNCTION, "field = result * 0.5", ["GS707"]),
        (FUNCTION, "field, wall = result, wall", ["GS707"]),
        (FUNCTION, "field.copy_(result)", []),
        (FUNCTION, "change = (result - field).abs()", []),
        (METHOD, "self.frame = frame", ["GS707"]),
        (METHOD, "self.frame.copy_(frame)", []),
    ],
)
def test_what_a_helper_captured_is_refilled_and_not_bound_anew(
    tmp_path: Path, caller: str, line: str, expected: list[str]
) -> None:
    assert marked(tmp_path, {"helper.py": HELPER, "caller.py": caller.format(line=line)}) == expected


SLOTS = """\
from types import SimpleNamespace

import torch


class Scorer:
    def __init__(self, net, size, line):
        self.net, self.line = net, line
        self.inputs = SimpleNamespace(text=torch.zeros(size, device="cuda"), gate=torch.ones(size, device="cuda"))
        self.scores = {{}}

    def capture(self, sizes):
        self.graphs = {{}}
        for size in sizes:
            self.net(self.inputs.text, self.inputs.gate)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self.line):
                self.scores[size] = self.net(self.inputs.text, self.inputs.gate)
            self.graphs[size] = graph

    def feed(self, text, gate):
        self.inputs.text.copy_(text)
        {feed}

    def score(self, size, text, gate):
        self.feed(text, gate)
        self.graphs[size].replay()
        return self.scores[size][: len(text)]{copy}


def rank(scorer: Scorer, batches):
    kept = []
    for text, gate in batches:
        marks = scorer.score(8, text, gate)
        kept.append(marks)  # mark
    return kept
"""


def test_inputs_in_a_namespace_are_refilled(tmp_path: Path) -> None:
    bound = {"a.py": SLOTS.format(feed="self.inputs.gate = gate  # mark", copy=".clone()")}
    filled = {"a.py": SLOTS.format(feed="self.inputs.gate.copy_(gate)  # mark", copy=".clone()")}
    assert marked(tmp_path, bound) == ["GS707"]
    assert marked(tmp_path, filled) == []


def test_outputs_of_a_table_are_not_kept_without_a_copy(tmp_path: Path) -> None:
    assert marked(tmp_path, {"a.py": SLOTS.format(feed="self.inputs.gate.copy_(gate)", copy="")}) == ["GS706"]


TABLE = """\
import torch


class Decoder:
    def __init__(self, net, size, line):
        self.net, self.line = net, line
        self.shared = dict(
            tokens=torch.zeros(size, dtype=torch.long, device="cuda"),
            places=torch.zeros(size, dtype=torch.long, device="cuda"),
            marks=torch.zeros(size, 64, device="cuda"),
        )

    def record(self, size):
        s = self.shared
        self.net(s["tokens"][:size], s["places"][:size])
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.line):
            s["marks"][:size] = self.net(s["tokens"][:size], s["places"][:size])

    def decode(self, tokens, places):
        mine = self.shared
        mine["tokens"][: len(tokens)].copy_(tokens)
        {places}
        self.graph.replay()
        return mine["marks"][: len(tokens)]{copy}


class Loop:
    def __init__(self, decoder: Decoder):
        self.decoder = decoder
        self.trace = []

    def advance(self, tokens, places):
        marks = self.decoder.decode(tokens, places)
        self.trace.append(marks)  # mark
        return marks.argmax(-1)
"""
FILLED = 'mine["places"][: len(places)].copy_(places)'


@pytest.mark.parametrize(
    ("places", "copy", "expected"),
    [
        (FILLED, ".clone()", []),
        ('mine["places"] = places  # mark', ".clone()", ["GS707"]),
        (FILLED, "", ["GS706"]),
    ],
)
def test_methods_may_name_a_part_of_their_object_differently(
    tmp_path: Path, places: str, copy: str, expected: list[str]
) -> None:
    assert marked(tmp_path, {"decoder.py": TABLE.format(places=places, copy=copy)}) == expected


SPREAD = """\
import torch


class Recorded:
    def __init__(self, fn, *inputs):
        fn(*inputs)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=torch.cuda.Stream()):
            self.result = fn(*inputs)

    def replay(self):
        self.graph.replay()
        return self.result.clone()


class Solver:
    def __init__(self, operator, right):
        self.guess = torch.zeros_like(right)
        self.rest = right.clone()
        self.once = Recorded(operator, self.guess, self.rest)

    def solve(self, rounds: int):
        for _ in range(rounds):
            change = self.once.replay()
            self.guess.add_(change)
            {line}  # mark
        return self.guess.clone()
"""


def test_a_helper_may_take_its_inputs_one_by_one(tmp_path: Path) -> None:
    assert marked(tmp_path, {"a.py": SPREAD.format(line="self.rest = self.rest - change")}) == ["GS707"]
    assert marked(tmp_path, {"a.py": SPREAD.format(line="self.rest.sub_(change)")}) == []


PREPARED = """\
import torch


def bands(wave):
    spectrum = torch.fft.rfft(wave)
    return spectrum.abs()


class Listener:
    def __init__(self, net, size):
        self.net = net
        self.wave = torch.zeros(size, device="cuda")

    def warm_and_record(self, line):
        loud = {made}  # mark
        self.net(loud)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=line):
            self.word = self.net({read})

    def hear(self, wave):
        self.wave.copy_(wave)
        self.graph.replay()
        return self.word.clone()
"""


def test_a_function_computes_an_input_once_before_the_capture(tmp_path: Path) -> None:
    assert marked(tmp_path, {"a.py": PREPARED.format(made="bands(self.wave)", read="loud")}) == ["GS705"]
    assert marked(tmp_path, {"a.py": PREPARED.format(made="bands(self.wave)", read="bands(self.wave)")}) == []


RESULTS = """\
import torch


def graphed(step, stream):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        outputs = step()
    return graph, {returned}


class Rollout:
    def __init__(self):
        self.values = []

    def add(self, value):
        self.values.append({kept})  # mark


class Collector:
    def __init__(self, policy, stream):
        self.policy = policy
        self.rollout = Rollout()
        self.x = torch.zeros(4, 8, device="cuda")
        self.graph, self.value = graphed(self.act, stream)

    def act(self):
        return self.policy(self.x)

    def collect(self, batches):
        for x in batches:
            self.x.copy_(x)
            self.graph.replay()
            self.rollout.add({given})
"""


@pytest.mark.parametrize(
    ("returned", "kept", "given", "found"),
    [
        ("outputs", "value", "self.value", True),
        ("outputs", "value.clone()", "self.value", False),
        ("outputs", "value", "self.value.clone()", False),
        ("step", "value", "self.value", False),
    ],
)
def test_a_helper_returns_the_outputs(tmp_path: Path, returned: str, kept: str, given: str, found: bool) -> None:
    text = RESULTS.format(returned=returned, kept=kept, given=given)
    assert marked(tmp_path, {"a.py": text}) == (["GS706"] if found else [])
