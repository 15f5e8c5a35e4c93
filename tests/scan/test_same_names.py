"""Two classes of a file whose attributes and methods have the same names. Each means its own."""

from __future__ import annotations

import textwrap

import pytest

from .conftest import Scan

RUNNER = """\
class Runner{base}:
    def __init__(self, device, stream):
        self.model = nn.Linear(4, 4).to(device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr={rate}, capturable=True)
        self.decay = torch.optim.lr_scheduler.ExponentialLR(self.opt, 0.9)
        self.x = torch.zeros(4, 4, device=device)
        self.scale = torch.ones(4, device=device)
        self.stream = stream
        self.model(self.x * self.scale).sum().backward()
        self.capture()

    def capture(self):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.y = self.model(self.x * self.scale)
            self.y.sum().backward()
            self.opt.step()

    {method}

    def step(self, x, {more}):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()
"""
OTHER = """\


class Other{base}:
    def __init__(self, device, model):
        self.opt = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.1, device=device), capturable=True)
        self.decay = torch.optim.lr_scheduler.ExponentialLR(self.opt, 0.9)
        self.scale = torch.ones(4, device=device)

    def step(self, scale):
        self.scale.copy_(scale)

    def capture(self):
        return self.scale

    def {method}(self):
        return self.scale.cpu()
"""


def runner(method: str = "", base: str = "", rate: str = "0.1", more: str = "n=0") -> str:
    return RUNNER.format(method=textwrap.indent(method, " " * 4).strip(), base=base, rate=rate, more=more)


SCHEDULE = "def anneal(self):\n    self.decay.step()\n"
OFFLOAD = "def offload(self):\n    self.model.cpu()\n"
RETRY = "def again(self):\n    try:\n        self.capture()\n    except Exception:\n        self.graph = None\n"
FAULTS = {
    SCHEDULE: ("GS702", "self.decay.step()"),
    OFFLOAD: ("GS711", "self.model.cpu()"),
    RETRY: ("GS605", "except Exception:"),
}


@pytest.mark.parametrize("method", FAULTS)
def test_methods_of_another_class_hide_no_fault(scan: Scan, method: str) -> None:
    source = runner(method)
    found = scan(source)
    assert FAULTS[method] in found
    assert set(found) <= set(scan(source + OTHER.format(base="", method="offload")))
    assert set(found) <= set(scan(OTHER.format(base="", method="offload") + "\n\n" + source))


def test_the_schedule_of_another_class(scan: Scan) -> None:
    other = OTHER.format(base="", method="offload").replace("lr=torch.tensor(0.1, device=device)", "lr=0.1")
    tensor = runner(SCHEDULE, rate="torch.tensor(0.1, device=device)")
    assert not any(code == "GS702" for code, _ in scan(tensor + other))


def test_a_subclass_overrides_the_method(scan: Scan) -> None:
    assert not any(
        code == "GS711" for code, _ in scan(runner(OFFLOAD) + OTHER.format(base="(Runner)", method="offload"))
    )


@pytest.mark.parametrize(
    ("base", "more", "found"),
    [("", "scale", True), ("(Runner)", "scale", False), ("", "n", False)],
)
def test_an_input_into_which_only_another_class_writes(scan: Scan, base: str, more: str, found: bool) -> None:
    codes = [code for code, _ in scan(runner(more=more) + OTHER.format(base=base, method="offload"))]
    assert ("GS708" in codes) is found


MASKED = """\
class Masked:
    def _mask(self, n, device):
        return {made}

    def capture(self, model, x, stream, n, device):
        mask = self._mask(n, device)
        model(x, mask)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = model(x, mask)


class Other:
    def _mask(self, n, device):
        return {other}
"""
NEW, KEPT = "torch.ones(n, n, device=device).tril()", "self.masks[n]"


@pytest.mark.parametrize(("made", "other"), [(NEW, KEPT), (KEPT, NEW)])
def test_a_method_of_another_class_makes_no_tensor(scan: Scan, made: str, other: str) -> None:
    codes = [code for code, _ in scan(MASKED.format(made=made, other=other))]
    assert ("GS711" in codes) is (made == NEW)


STAGED = """\
class Staged:
    def __init__(self, model, stream):
        self.staging = torch.zeros(4, pin_memory=True)
        self.x = torch.zeros(4, device="cuda")
        model(self.x)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = model(self.x)

    def step(self):
        self.x.copy_(self.staging, non_blocking=True)
        self.graph.replay()
        return self.y.clone()
{between}
    def fill(self, n):
        self.staging[0] = n
"""
CLASS = """

class Other:
    def __init__(self):
        self.staging = torch.zeros(4).pin_memory()
"""


@pytest.mark.parametrize(("between", "found"), [("", True), (CLASS, False)])
def test_the_host_fills_the_memory_of_another_class(scan: Scan, between: str, found: bool) -> None:
    assert ("GS714" in [code for code, _ in scan(STAGED.format(between=between))]) is found


KEEPS = """\
def run(device, stream, batches):
    {name} = {cls}(device, stream)
    kept = []
    for x in batches:
        kept.append({name}.step(x))
    return kept


def count(device, stream):
    runner = Runner(device, stream)
    return runner.step(torch.zeros(4, 4, device=device)).sum()
"""


@pytest.mark.parametrize(
    ("name", "cls", "found"), [("runner", "Runner", True), ("runner", "Other", False), ("other", "Other", False)]
)
def test_an_output_of_the_object_whose_method_gives_one(scan: Scan, name: str, cls: str, found: bool) -> None:
    source = runner().replace("self.y.clone()", "self.y") + OTHER.format(base="", method="offload")
    codes = [code for code, _ in scan(source + "\n\n" + KEEPS.format(name=name, cls=cls))]
    assert ("GS706" in codes) is found


CAPTURED = """\
class Captured:
    def __init__(self, model):
        self.model = model
        self.graphs = {}

    def capture(self, x, scale: float):
        self.model(x)
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()
        with torch.cuda.graph(graph, stream=stream):
            y = self.model(x) * scale
        return graph, y

    def run(self, x, scale: float):
        if x.shape[0] not in self.graphs:
            self.graphs[x.shape[0]] = self.capture(x, scale)
        graph, y = self.graphs[x.shape[0]]
        graph.replay()
        return y.clone()

    def rounds(self, batches):
        for x in batches:
            graph, _ = self.capture(x, 1.0)
            graph.replay()
"""
RECORDED = """\
class Recorded:
    def capture(self, x, scale: float):
        return scale, x

    def frames(self, batches):
        for x in batches:
            graph, _ = self.capture(x, 2.0)
            graph.replay()
"""


@pytest.mark.parametrize("source", [f"{RECORDED}\n\n{CAPTURED}", f"{CAPTURED}\n\n{RECORDED}"], ids=["before", "after"])
def test_a_method_of_another_class_captures_nothing(scan: Scan, source: str) -> None:
    found = scan(source)
    assert "GS713" in [code for code, _ in found]
    assert [line for code, line in found if code == "GS617"] == ["graph, _ = self.capture(x, 1.0)"]
