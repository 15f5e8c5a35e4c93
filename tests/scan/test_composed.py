"""Objects as they are composed: what a factory, or whoever constructs a class, says of what its objects hold."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import load_config
from graphsafe.scan.api import scan_paths

TRAINER = """\
import torch
from torch import nn


class HandAdam:
    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.t = 0

    def apply(self):
        self.t += 1
        for p in self.parameters:
            p.data.add_(p.grad, alpha=-0.1 / (1 - 0.9 ** self.t))


class Clip:
    def __init__(self, parameters):
        self.parameters = list(parameters)

    def apply(self):
        for p in self.parameters:
            if p.grad.norm() > 1.0:
                p.grad.mul_(0.5)


class Fit:
    def __init__(self, model, opt):
        self.model = model
        self.opt = opt

    def iterate(self, x):
        self.model(x).sum().backward()
        self.opt.apply()
"""


def found(root: Path, **files: str) -> list[tuple[str, str, int]]:
    """Code, file and line of each error and warning."""
    (root / "pyproject.toml").touch()
    for name, text in files.items():
        (root / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
    report = scan_paths([root], load_config(root))
    return [(f.code, Path(f.location.path).name, f.location.line) for f in report.findings if f.level != "note"]


TARGET = """\
from torch import nn
import torch

from trainer import {opt}, Fit


def stepping(fit):
    def step(x):
        fit.iterate(x)

    return step


def build_fit(device):
    model = nn.Linear(4, 4).to(device)
    return {step}
"""


@pytest.mark.parametrize(
    "step",
    [
        "Fit(model, {opt}(model.parameters())).iterate, (torch.randn(2, 4, device=device),)",
        "graphsafe.Step(Fit(model, {opt}(model.parameters())).iterate, (torch.randn(2, 4, device=device),))",
        "stepping(Fit(model, {opt}(model.parameters()))), (torch.randn(2, 4, device=device),)",
    ],
)
def test_a_factory_says_what_objects_its_step_is_made_of(tmp_path: Path, step: str) -> None:
    text = "import graphsafe\n" + TARGET.format(step=step.format(opt="Clip"), opt="Clip")
    assert found(tmp_path, trainer=TRAINER, target=text) == [("GS102", "trainer.py", 22)]


def test_each_object_has_its_own_attributes(tmp_path: Path) -> None:
    """Of two objects of one class only the one that a step holds counts."""
    text = """\
        import torch


        class Reader:
            def read(self, x):
                return x.item()


        class Keeper:
            def read(self, x):
                return x * 2


        class Step:
            def __init__(self, how):
                self.how = how

            def run(self, x):
                return self.how.read(x)


        def build(device):
            unused = Step(Reader())
            return Step(Keeper()).run, (torch.ones(1, device=device),)
    """
    assert found(tmp_path, one=text) == []
    assert found(tmp_path, one=text.replace("Step(Keeper())", "Step(Reader())")) == [("GS101", "one.py", 6)]


def test_arguments_are_where_the_factory_puts_them(tmp_path: Path) -> None:
    text = """\
        import torch


        class Table:
            def look(self, x, rows):
                return x[rows]


        def build(device):
            return Table().look, (torch.ones(4, device=device), torch.arange(2{where}))
    """
    assert found(tmp_path, one=text.format(where="")) == [("GS302", "one.py", 6)]
    assert found(tmp_path, one=text.format(where=", device=device")) == []


def test_a_script_imports_from_its_own_folder(tmp_path: Path) -> None:
    """Also where a folder above is a package: `tests/__init__.py` beside `tests/steps/target.py`."""
    for folder in ("tests", "tests/steps"):
        (tmp_path / folder).mkdir()
    (tmp_path / "tests" / "__init__.py").touch()
    target = TARGET.format(
        opt="Clip", step="Fit(model, Clip(model.parameters())).iterate, (torch.randn(2, 4, device=device),)"
    )
    (tmp_path / "tests" / "steps" / "trainer.py").write_text(TRAINER)
    assert found(tmp_path, **{"tests/steps/target": target}) == [("GS102", "trainer.py", 22)]


def test_state_of_an_object_that_a_step_calls(tmp_path: Path) -> None:
    step = "Fit(model, HandAdam(model.parameters())).iterate, (torch.randn(2, 4, device=device),)"
    told = found(tmp_path, trainer=TRAINER, target=TARGET.format(opt="HandAdam", step=step))
    assert told == [("GS702", "trainer.py", 11)]


READER = """\
class Reader:
    def read(self, x):
        return x.item()


class Step:
    def __init__(self, how=None):
        self.how = how

    def run(self, x):
        return self.how.read(x)
"""
MAIN = """\
import torch

from reader import Reader, Step


def main():
    step = Step({how})
    x = torch.ones(1, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream("cuda:0")):
        step.run(x)
"""


@pytest.mark.parametrize("how", ["Reader()", "how=Reader()", "Reader() if torch.cuda.is_available() else None"])
def test_constructions_in_cold_code_say_what_fields_hold(tmp_path: Path, how: str) -> None:
    assert ("GS101", "reader.py", 3) in found(tmp_path, reader=READER, main=MAIN.format(how=how))


HEAD = """\
import torch
from torch import nn


class Plain:
    def pick(self, logits):
        return logits


class Nucleus:
    def __init__(self, p):
        self.p = p

    def pick(self, logits):
        return logits[: int((logits.cumsum(-1) < self.p).sum())]


class Head(nn.Module):
    def __init__(self, picker):
        super().__init__()
        self.picker = picker

    def forward(self, h):
        return self.picker.pick(h)

    {more}
"""
FROM_CONFIG = """@classmethod
    def from_config(cls, config):
        picker = Nucleus(0.9) if config.free else None
        return cls(picker)
"""
EXAMPLE = """\
from head import Head, {picker}


def show():
    picker = {picker}({given})
    return Head(picker)
"""


@pytest.mark.parametrize(
    ("more", "picker", "found_there"),
    [("pass", "Nucleus", True), ("pass", "Plain", False), (FROM_CONFIG, "Plain", True)],
)
def test_who_constructs_a_module_says_what_it_holds(tmp_path: Path, more: str, picker: str, found_there: bool) -> None:
    example = EXAMPLE.format(picker=picker, given="0.9" if picker == "Nucleus" else "")
    told = found(tmp_path, head=HEAD.format(more=more), example=example)
    assert (("GS101", "head.py", 15) in told) is found_there


def test_what_no_construction_puts_into_a_field_is_not_guessed(tmp_path: Path) -> None:
    assert ("GS101", "reader.py", 3) not in found(tmp_path, reader=READER, main=MAIN.format(how="None"))


def test_a_default_of_false_does_not_keep_users_from_a_capture(tmp_path: Path) -> None:
    text = """\
        import torch


        def decode(model, x):
            return model(x).argmax(-1).item()


        def main(model, x, compile: bool = False):
            step = decode
            if compile:
                step = torch.compile(decode, mode="reduce-overhead")
            return step(model, x)
    """
    assert found(tmp_path, one=text) == [("GS101", "one.py", 5)]


CHOSEN = """\
class Runner:
    def __init__(self, host, kind="plain"):
        self.host, self.kind = host, kind

    def step(self, x):
        if self.host:
            return x.cpu()
        if self.kind == "plain":
            x = x.exp()
        return x.max().item()
{more}

def build(device):
    runner = Runner({given})
{then}
    return runner.step, (torch.zeros(4, device=device),)
"""


@pytest.mark.parametrize(
    ("given", "then", "more", "codes"),
    [
        ("False", "", "", ["GS101"]),
        ("True", "", "", ["GS103"]),
        ("host=0", "", "", ["GS101"]),
        ("device.index", "", "", ["GS103", "GS101"]),
        # Another line may give the attribute another value.
        ("False", "    runner.host = True", "", ["GS103", "GS101"]),
        ("False", "    setattr(runner, 'host', True)", "", ["GS103", "GS101"]),
        ("False", "", "    def on(self):\n        self.host = True", ["GS103", "GS101"]),
    ],
)
def test_a_factory_decides_which_branch_its_step_takes(
    tmp_path: Path, given: str, then: str, more: str, codes: list[str]
) -> None:
    text = "import torch\n\n\n" + CHOSEN.format(given=given, then=then, more=more)
    assert [code for code, _, _ in found(tmp_path, step=text)] == codes


DECODER = """\
import torch
from torch import nn


class Cache:
    def __init__(self, device):
        self.scale = torch.ones(1, device=device)

    def write(self, x):
        {write}


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = None

    def forward(self, x):
        self.cache.write(x)
        return x * self.cache.scale


def start(device):
    decoder = Decoder().to(device).eval()
    decoder.cache = Cache(device)
    return decoder
"""


@pytest.mark.parametrize(
    ("write", "codes"),
    [
        ("self.scale = torch.maximum(self.scale, x.amax())", ["GS703"]),
        ("torch.maximum(self.scale, x.amax(), out=self.scale)", []),
    ],
)
def test_an_object_that_is_assigned_from_outside(tmp_path: Path, write: str, codes: list[str]) -> None:
    assert [code for code, _, _ in found(tmp_path, decoder=DECODER.format(write=write))] == codes
