"""Where a wait in another function may be the missing join of a side stream, and where it is for another stream."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

FAULTY = """
import torch
from torch import nn


class Faulty(nn.Module):
    def __init__(self{given}):
        super().__init__()
        self.side = {made}
        {after}

    def forward(self, x: torch.Tensor):
        with torch.cuda.stream(self.side):
            y = x * 2
        return y

"""
JOINS = """
class {name}:
    def __init__(self{given}):
        super().__init__()
        self.{attribute} = {made}

    def work(self, x: torch.Tensor):
        self.{attribute}.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.{attribute}):
            y = x * 2
        torch.cuda.current_stream().wait_stream(self.{attribute})
        return y

"""
BLOCK, WAIT = "with torch.cuda.stream(self.side)", "torch.cuda.current_stream().wait_stream(self.side"
ALIASED = "s = self.side\n        with torch.cuda.stream(s)"
STREAM = "torch.cuda.Stream()"
OWN = {"given": "", "made": STREAM}
OTHER = JOINS.format(name="Other(nn.Module)", attribute="side", **OWN)


def confidences(folder: Path, source: str) -> list[str]:
    (folder / "step.py").write_text(source, encoding="utf-8")
    findings = scan_paths([folder], Config(root=folder), confidence="possible").findings
    return [f.confidence for f in findings if f.code == "GS603"]


@pytest.mark.parametrize(
    "source",
    [
        FAULTY.format(after="", **OWN) + OTHER,
        OTHER + FAULTY.format(after="", **OWN),
        # The attribute of the same object whose name begins alike.
        FAULTY.format(after="self.side_2 = torch.cuda.Stream()", **OWN)
        + JOINS.format(name="Joins(Faulty)", attribute="side_2", **OWN),
        # A local name for the object's stream.
        FAULTY.format(after="", **OWN).replace(BLOCK, ALIASED) + OTHER,
    ],
)
def test_a_wait_of_another_class_is_for_another_stream(tmp_path: Path, source: str) -> None:
    assert confidences(tmp_path, source) == ["likely"]


JOIN = """
    def join(self):
        torch.cuda.current_stream().wait_stream(self.side)

"""
MODEL = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Faulty()

    def forward(self, x: torch.Tensor):
        y = self.layer(x)
        torch.cuda.current_stream().wait_stream(self.layer.side)
        return y

"""


@pytest.mark.parametrize(
    "source",
    [
        FAULTY.format(after="", **OWN) + "\nclass Joins(Faulty):" + JOIN,
        "\nclass Joins:" + JOIN + FAULTY.format(after="", **OWN).replace("(nn.Module)", "(Joins, nn.Module)"),
        # Two classes of which a third one is made.
        FAULTY.format(after="", **OWN) + "\nclass Joins:" + JOIN + "\nclass Both(Faulty, Joins):\n    pass\n",
        FAULTY.format(after="", **OWN) + MODEL,
        FAULTY.format(after="", **OWN) + "\nclass Joins(Faulty):" + JOIN.replace(WAIT, f"s = self.side; {WAIT[:-9]}s"),
        FAULTY.format(after="", **OWN).replace(BLOCK, ALIASED) + "\nclass Joins(Faulty):" + JOIN,
        # A stream that both classes have.
        FAULTY.format(after="Other(self.side)", **OWN)
        + JOINS.format(name="Other", attribute="side", given=", side", made="side"),
        FAULTY.format(after="", given=", side=None", made=f"side or {STREAM}") + OTHER,
    ],
)
def test_a_wait_that_may_be_for_the_same_stream(tmp_path: Path, source: str) -> None:
    assert "likely" not in confidences(tmp_path, source)


LOCAL = """
import torch


def capture(step, x, device{given}):
    stream = torch.cuda.Stream(device)
    {made}
    graph = torch.cuda.CUDAGraph()
    step(x)
    with torch.cuda.graph(graph, stream=stream):
        side.wait_stream(stream)
        with torch.cuda.stream(side):
            y = step(x)
    return graph, y


def copied(x):
    {other}
    with torch.cuda.stream(side):
        y = x.clone()
    torch.cuda.current_stream().wait_stream(side)
    return y
"""
MADE = "side = torch.cuda.Stream()"


@pytest.mark.parametrize(
    "made, other, before, confidence",
    [
        (MADE, MADE, "", "likely"),
        ("", "", MADE, "possible"),
        ("global side\n    " + MADE, "", "side = None", "possible"),
    ],
)
def test_local_names(tmp_path: Path, made: str, other: str, before: str, confidence: str) -> None:
    source = LOCAL.format(given="", made=made, other=other).replace("import torch\n", f"import torch\n\n{before}\n")
    assert confidences(tmp_path, textwrap.dedent(source)) == [confidence]


FACTORY = """
def {name}(device):
    side = torch.cuda.Stream(device)

    def step(x):
        {before}
        with torch.cuda.stream(side):
            y = x * 2
        return y

    {after}
    return step, (torch.randn(2, 4, device=device),)

"""
WAITING = "torch.cuda.current_stream().wait_stream(side)"
FORKED = "side.wait_stream(torch.cuda.current_stream())"


@pytest.mark.parametrize(
    "after, confidence",
    [
        ("pass", "likely"),
        (f"def join(x):\n        {WAITING}\n        return x", "possible"),
        ("REGISTRY.add(side)", "possible"),
    ],
    ids="own nested passed-on".split(),
)
def test_two_factories_with_streams_of_one_name(tmp_path: Path, after: str, confidence: str) -> None:
    """The second factory waits for a local stream of the same name, which is no wait for the stream of the first."""
    first = FACTORY.format(name="build", before=FORKED, after=after)
    second = FACTORY.format(name="joins", before=FORKED, after="pass").replace(
        "return y", f"{WAITING}\n        return y"
    )
    assert confidences(tmp_path, "import torch\n" + first + second) == [confidence]
