"""Programs around graphs: other files compose their objects, and other functions change what a graph has read."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

from .conftest import Scan

CAPTURE = """
class Runner:
    def __init__(self, net, device):
        self.x = torch.zeros(4, 8, device=device)
        self.slots = torch.zeros(4, dtype=torch.int64, device=device)
        self.net = net

    def capture(self):
        {before}
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            {captured}

    def run(self, x, slots):
        n = x.shape[0]
        self.x.zero_()
        self.x[:n].copy_(x)
        self.slots[:n].copy_(slots)
        self.graph.replay()
        return self.y[:n].clone()
"""


def _told(folder: Path, files: dict[str, str]) -> set[tuple[str, str]]:
    """Return the code and the line's text of each finding about state in files that are scanned together."""
    for name, text in files.items():
        (folder / name).write_text("import torch\nfrom torch import nn\n" + textwrap.dedent(text), encoding="utf-8")
    found = scan_paths([folder], Config(root=folder)).findings
    lines = {name: (folder / name).read_text(encoding="utf-8").splitlines() for name in files}
    return {
        (one.code, lines[Path(one.location.path).name][one.location.line - 1].strip())
        for one in found
        if one.location is not None and one.code.startswith("GS7") and one.level != "note"
    }


# names in captures


@pytest.mark.parametrize(
    ("before", "captured"),
    [
        ("x, slots = self.x[:2], self.slots[:2]", "self.y = self.net(x, slots)"),
        ("given = (self.x[:2], self.slots[:2])", "self.y = self.net(*given)"),
        ("step = lambda: self.net(self.x, self.slots)", "self.y = step()"),
    ],
)
def test_a_local_name_for_inputs_of_a_capture(scan: Scan, before: str, captured: str) -> None:
    found = scan(CAPTURE.format(before=before, captured=captured))
    assert ("GS708", "self.slots[:n].copy_(slots)") in found


def test_a_name_that_stands_for_several_views_says_nothing(scan: Scan) -> None:
    before = "slots = self.slots[:2]; slots = torch.zeros_like(slots)"
    found = scan(CAPTURE.format(before=before, captured="self.y = self.net(self.x, slots)"))
    assert not [line for code, line in found if code == "GS708"]


OUTER = """
hidden = torch.zeros(1, 8, device="cuda")
floor = 0.5
turns = 0
graph = torch.cuda.CUDAGraph()

def listen(x):
    hidden.copy_(hidden * floor + x)
    return hidden.sum()

def install(x):
    global scores
    listen(x)
    with torch.cuda.graph(graph):
        scores = listen(x)

def change(level):
    global hidden, floor, turns
    {change}
"""


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("hidden = torch.zeros(1, 8, device='cuda')", "GS707"),
        ("floor = 0.5 * level", "GS702"),
        ("hidden.zero_()", None),
        ("turns = turns + 1", None),  # no captured code reads it
    ],
)
def test_a_global_that_captured_code_reads(scan: Scan, change: str, code: str | None) -> None:
    found = scan(OUTER.format(change=change))
    assert found == ([] if code is None else [(code, change)])


CLOSURE = """
def make_step(model, device):
    state = {{"h": torch.zeros(4, 8, device=device), "scale": 1.0}}

    def step():
        state["h"].copy_(model(state["h"]) * state["scale"])

    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def change(value):
        {change}

    return graph.replay, change
"""


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("state['h'] = torch.zeros(4, 8, device=device)", "GS707"),
        ("state['scale'] = value", "GS702"),
        ("state['h'].zero_()", None),
        ("state['name'] = value", None),  # no captured code reads it
        ("state = dict(state); state['scale'] = value", None),  # another dict
    ],
)
def test_a_dict_that_closures_share(scan: Scan, change: str, code: str | None) -> None:
    found = [one for one in scan(CLOSURE.format(change=change)) if one[0].startswith("GS7")]
    assert found == ([] if code is None else [(code, change)])


# objects of other files

LAYERS = """
class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.lin = nn.Linear(dim, dim)
        self.register_buffer("a", torch.zeros(dim, 4))
        self.scaling = 1.0

    def forward(self, x):
        return self.lin(x) + self.scaling * (x @ self.a).sum()
"""
RECORDED = """
class Recorded:
    def __init__(self, fn, buffer):
        self.buffer = buffer
        self.graph = torch.cuda.CUDAGraph()
        fn(buffer)
        with torch.cuda.graph(self.graph):
            self.out = fn(buffer)

    def __call__(self, x):
        self.buffer.copy_(x)
        self.graph.replay()
        return self.out
"""
WORKER = """
from layers import Layer
from recorded import Recorded

class Worker:
    def __init__(self, device):
        self.layer = Layer(8).to(device)
        self.step = Recorded(self.layer, torch.zeros(4, 8, device=device))

    def run(self, x, alpha):
        {change}
        return self.step(x).clone()

def main(alphas):
    worker = Worker(torch.device("cuda"))
    for alpha in alphas:
        print(worker.run(torch.randn(4, 8, device="cuda"), alpha))

if __name__ == "__main__":
    main([0.1 * k for k in range(100)])
"""


def test_an_imported_class_captures_the_object_that_it_is_given(tmp_path: Path) -> None:
    files = {"layers.py": LAYERS, "recorded.py": RECORDED}
    worker = WORKER.format(change="self.layer.scaling = alpha / 2; self.layer.a = torch.ones(8, 4, device='cuda')")
    assert {code for code, _ in _told(tmp_path, {**files, "worker.py": worker})} == {"GS702", "GS703"}


def test_writing_into_the_memory_of_such_an_object_is_quiet(tmp_path: Path) -> None:
    files = {
        "layers.py": LAYERS,
        "recorded.py": RECORDED,
        "worker.py": WORKER.format(change="self.layer.a.fill_(alpha)"),
    }
    assert _told(tmp_path, files) == set()


ADAPTERS = """
from layers import Layer

class Runner:
    def __init__(self, net, device):
        self.net = net
        self.x = torch.zeros(4, 8, device=device)
        net(self.x)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = net(self.x)

    def infer(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()

class Manager:
    def __init__(self, net):
        self.net = net

    def activate(self, alpha):
        for name, layer in self.net.named_modules():
            if isinstance(layer, {kind}):
                layer.scaling = alpha

def main(alphas):
    net = nn.Sequential(Layer(8), Layer(8)).to("cuda")
    manager, runner = Manager(net), Runner(net, torch.device("cuda"))
    for alpha in alphas:
        manager.activate(alpha)
        print(runner.infer(torch.randn(4, 8, device="cuda")))
"""


@pytest.mark.parametrize(("kind", "found"), [("Layer", {("GS702", "layer.scaling = alpha")}), ("nn.Linear", set())])
def test_isinstance_shows_the_class_of_an_unknown_object(
    tmp_path: Path, kind: str, found: set[tuple[str, str]]
) -> None:
    assert _told(tmp_path, {"layers.py": LAYERS, "adapters.py": ADAPTERS.format(kind=kind)}) == found


COMPOSED = """
class Fields:
    def __init__(self, n, device):
        self.p = torch.zeros(n, n, device=device)
        self.rhs = torch.zeros(n, n, device=device)

class Sweep:
    def __init__(self, fields):
        self.fields = fields

    def body(self):
        self.fields.p.add_(self.fields.p - self.fields.rhs)

    def record(self):
        self.body()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.body()

class Driver:
    def __init__(self, n, device):
        self.fields = Fields(n, device)
        self.sweep = Sweep(self.fields)
        self.sweep.record()

    def advance(self, source):
        {change}
        self.sweep.graph.replay()
"""


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("self.fields.rhs = torch.outer(source, source)", {("GS703", "self.fields.rhs = torch.outer(source, source)")}),
        ("self.fields.rhs.copy_(torch.outer(source, source))", set()),
    ],
)
def test_two_objects_share_a_third_one(tmp_path: Path, change: str, found: set[tuple[str, str]]) -> None:
    assert _told(tmp_path, {"flow.py": COMPOSED.format(change=change)}) == found


POOL = """
class Pool:
    def __init__(self, rows, device):
        self.k = torch.zeros(rows, 8, device=device)

    def flush(self):
        {flush}
"""
SERVE = """
from pool import Pool

class Engine:
    def __init__(self, net, pool, device):
        self.net, self.pool = net, pool
        self.x = torch.zeros(4, 8, device=device)
        self.attend()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.attend()

    def attend(self):
        self.pool.k[:4].copy_(self.net(self.x))
        return self.pool.k.sum(0)

    def decode(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()
"""
MAIN = """
from dataclasses import dataclass

from pool import Pool
from serve import Engine

@dataclass
class Request:
    name: str

def main():
    pool = Pool(64, "cuda")
    engine = Engine(nn.Linear(8, 8).cuda(), pool, "cuda")
    done = []
    for wave in range(100):
        while len(done) < 40 * wave:
            done.append((Request(str(wave)), engine.decode(torch.randn(4, 8, device="cuda"))))
        pool.flush()

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("flush", "found"),
    [
        ("self.k = torch.zeros_like(self.k)", {("GS703", "self.k = torch.zeros_like(self.k)")}),
        ("self.k.zero_()", set()),
    ],
)
def test_a_script_changes_an_object_between_waves(tmp_path: Path, flush: str, found: set[tuple[str, str]]) -> None:
    files = {"pool.py": POOL.format(flush=flush), "serve.py": SERVE, "main.py": MAIN}
    assert _told(tmp_path, files) == found


VOICES = """
class Voice:
    def __init__(self, net, pitch=1.0):
        self.net, self.pitch = net, pitch
        self.x = torch.zeros(4, 8, device="cuda")

    def record(self):
        self.net(self.x)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.net(self.x * self.pitch)

    def say(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()

class Farm:
    def __init__(self, net):
        self.net, self.voices = net, {{}}

    def voice(self, name, pitch):
        if name not in self.voices{condition}:
            self.voices[name] = Voice(self.net, pitch)
            self.voices[name].record()
        chosen = self.voices[name]
        chosen.pitch = pitch
        return chosen

    def stream(self, script):
        for name, pitch, x in script:
            yield self.voice(name, pitch).say(x)
"""


@pytest.mark.parametrize(
    ("condition", "found"),
    [("", {("GS702", "chosen.pitch = pitch")}), (" or self.voices[name].pitch != pitch", set())],
)
def test_a_change_after_a_conditional_capture(tmp_path: Path, condition: str, found: set[tuple[str, str]]) -> None:
    assert _told(tmp_path, {"voices.py": VOICES.format(condition=condition)}) == found


# weights and memory

ENGINE = """
class Engine:
    def __init__(self, net, device):
        self.net, self.device = net, device
        self.memory = torch.zeros(4, 8, device=device)
        self.graph = torch.cuda.CUDAGraph()
        net(self.memory)
        with torch.cuda.graph(self.graph):
            self.y = self.net(self.memory)

    def decode(self):
        self.graph.replay()
        return self.y.clone()

    def update(self, state):
        {update}
"""


@pytest.mark.parametrize(
    ("update", "codes"),
    [
        ("self.memory = self.memory.to('cpu')", {"GS707"}),
        ("own = dict(self.net.named_parameters())\n        own['w'].data = state['w'].to(self.device)", {"GS711"}),
        ("own = dict(self.net.named_parameters())\n        own['w'].data.copy_(state['w'])", set()),
        ("self.memory = self.memory.to(self.device)", set()),  # it may be there already
    ],
)
def test_memory_that_goes_and_comes_back(scan: Scan, update: str, codes: set[str]) -> None:
    found = scan(ENGINE.format(update=update))
    assert {code for code, _ in found if code.startswith("GS7")} == codes


RELOAD = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x):
        return self.lin(x)

    def load_weights(self, weights):
        params = dict(self.named_parameters())
        for name, w in weights:
            params[name].data{change}

class Runner:
    def __init__(self, model):
        self.model = model
        self.x = torch.zeros(4, 8, device="cuda")
        model(self.x)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.model(self.x)

    def run(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()

def serve(requests):
    model = Model().cuda()
    runner = Runner(model)
    for weights, x in requests:
        if weights is not None:
            model.load_weights(weights)
        print(runner.run(x))
"""


@pytest.mark.parametrize(
    ("change", "found"),
    [(" = w.to('cuda')", [("GS703", "params[name].data = w.to('cuda')")]), (".copy_(w)", [])],
)
def test_a_model_that_loads_its_own_weights(scan: Scan, change: str, found: list[tuple[str, str]]) -> None:
    assert [one for one in scan(RELOAD.format(change=change)) if one[0].startswith("GS7")] == found


# outputs

OUTPUTS = """
class Feed:
    def __init__(self, net, device):
        self.x = torch.zeros(4, 8, device=device)
        self.host = torch.zeros(4, 8).pin_memory()
        self.results = []
        net(self.x)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.both = net(self.x)

    def step(self, x, batch):
        self.x.copy_(x)
        self.graph.replay()
        count, picks = self.both
        self.host.copy_(picks, non_blocking=True)
        {kept}

    def collect(self):
        torch.cuda.synchronize()
        self.results.append(self.host{copied})
"""


@pytest.mark.parametrize(
    ("kept", "copied", "lines"),
    [
        ("pass", "", {"self.results.append(self.host)"}),
        ("pass", ".clone()", set()),
        (
            "for request in batch: request.scores.append(picks)",
            ".clone()",
            {"for request in batch: request.scores.append(picks)"},
        ),
        ("for request in batch: request.scores.append(picks.clone())", ".clone()", set()),
    ],
)
def test_outputs_that_are_kept(scan: Scan, kept: str, copied: str, lines: set[str]) -> None:
    found = scan(OUTPUTS.format(kept=kept, copied=copied))
    assert {line for code, line in found if code == "GS706"} == lines


CHANGE = """
class Speculator:
    def __init__(self, net, device):
        self.x = torch.zeros(4, 8, device=device)
        self.last = None
        net(self.x)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = net(self.x)

    def step(self, x):
        self.x.copy_(x)
        self.graph.replay()
        change = None if self.last is None else (self.y - self.last).abs().max()
        self.last = {kept}
        return change
"""


@pytest.mark.parametrize(("kept", "is_told"), [("self.y", True), ("self.y.clone()", False)])
def test_an_output_that_is_kept_for_the_next_call(scan: Scan, kept: str, is_told: bool) -> None:
    found = [one for one in scan(CHANGE.format(kept=kept)) if one[0].startswith("GS7")]
    assert found == [("GS706", f"self.last = {kept}")] * is_told


# training

TRAIN = """
def train(model, loader, optimizer):
    total = torch.zeros((), device="cuda")
    for step, batch in enumerate(loader):
        total = total + model(batch)
        if step % 4 == 3:
            {branch}
"""


@pytest.mark.parametrize(
    ("branch", "is_told"), [("total.backward(); print(total.item())", True), ("print(total.item())", False)]
)
def test_a_branch_with_a_backward_pass_is_a_step(scan: Scan, branch: str, is_told: bool) -> None:
    assert bool(scan(TRAIN.format(branch=branch))) is is_told


def test_a_seed_before_a_method_that_replays(scan: Scan) -> None:
    source = ENGINE.format(update="for _ in range(state):\n            torch.manual_seed(7)\n            self.decode()")
    assert ("GS503", "torch.manual_seed(7)") in scan(source)


EPOCHS = """
class Recommender:
    def fit(self, epochs, loader):
        for epoch in range(epochs):
            self.training_epoch(loader)
            {after}

    def training_epoch(self, loader):
        for batch in loader:
            loss = self.model(batch)
            loss.backward()
            self.optimizer.step()
        self.refresh()

    def refresh(self):
        return self.model.weight.sum().item()
"""


@pytest.mark.parametrize("after", ["pass", "self.opt['scheduler'].step()"])
def test_code_that_runs_once_an_epoch(scan: Scan, after: str) -> None:
    assert scan(EPOCHS.format(after=after)) == []


MERGED = """
class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("base", torch.randn(8, 8))
        self.register_buffer("a", torch.zeros(2, 8))
        self.register_buffer("b", torch.zeros(8, 2))
        self.merged = None

    def merge(self):
        self.merged = self.base + self.b @ self.a

    def forward(self, x):
        return x @ self.merged.T

class Server:
    def __init__(self, device):
        self.head = Head().to(device)
        self.head.merge()
        self.x = torch.zeros(4, 8, device=device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.head(self.x)

    def use(self, adapter):
        {change}

    def infer(self, x, adapter):
        self.use(adapter)
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()
"""


@pytest.mark.parametrize(
    ("change", "is_told"),
    [
        ("self.head.a.copy_(adapter)", True),
        ("self.head.load_state_dict(adapter)", True),
        ("for p in self.head.parameters(): p.data.copy_(adapter)", True),
        ("self.head.a.copy_(adapter); self.head.merge()", False),
        ("self.head.unrelated = adapter", False),
    ],
)
def test_weights_from_which_the_graphs_weight_was_merged(scan: Scan, change: str, is_told: bool) -> None:
    found = scan(MERGED.format(change=change))
    assert any(code == "GS712" for code, _ in found) is is_told


TRAINER = """
class System:
    def step(self, batch, mode):
        loss, scores = self.model.forward(batch.cuda())
        if mode == "train":
            {training}
        return loss.item()
"""


@pytest.mark.parametrize(
    ("training", "level"), [("loss.backward(); self.optimizer.step()", "warning"), ("self.total += 1", "error")]
)
def test_the_step_of_a_trainer_is_around_the_model(tmp_path: Path, training: str, level: str) -> None:
    (tmp_path / "system.py").write_text("import torch\n" + TRAINER.format(training=training), encoding="utf-8")
    found = scan_paths([tmp_path], Config(root=tmp_path)).findings
    assert {one.level for one in found if one.code == "GS101"} == {level}


def test_a_comparison_with_a_list_reads_no_element(scan: Scan) -> None:
    found = scan(
        """
        class Decoder(nn.Module):
            def forward(self, x):
                scores = []
                for k in range(3):
                    scores = torch.softmax(x, -1) if scores == [] else torch.cat([scores, x])
                return scores
        """
    )
    assert [code for code, _ in found if code == "GS102"] == []


def test_only_code_around_a_graph_reads_its_output(scan: Scan) -> None:
    found = scan(
        """
        class Sim:
            def __init__(self, stream):
                self.v = torch.zeros(8, 3, device="cuda")
                self.advance()
                self.graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graph, stream=stream):
                    self.advance()

            def advance(self):
                self.v.mul_(0.9)
                self.energy = self.v.square().sum()

            def run(self, steps):
                for k in range(steps):
                    self.graph.replay()
                    if self.energy.item() > 100:
                        self.v.mul_(0.5)
        """
    )
    assert [one for one in found if one[0] == "GS703"] == []
