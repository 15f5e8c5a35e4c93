"""Objects that callers hand to a constructor, which captures."""

from __future__ import annotations

import pytest

from .conftest import Scan

TRAINER = """\
class Trainer:
    def __init__(self, model, opt{declared}, x, stream):
        self.x = x
        model(x).sum().backward()
        opt.step()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            model(self.x).sum().backward()
            opt.step()  # captured

    def step(self, x):
        self.x.copy_(x)
        self.graph.replay()

def main(device):
    model = nn.Linear(8, 8).to(device)
    opt = torch.optim.{made}
    trainer = Trainer(model, {given}, x=torch.zeros(2, 8, device=device), stream=torch.cuda.Stream(device))
    for _ in range(100):
        trainer.step(torch.ones(2, 8, device=device))
"""


@pytest.mark.parametrize(
    ("declared", "made", "given", "found"),
    [
        ("", "Adam(model.parameters())", "opt", True),
        (": torch.optim.Optimizer", "Adam(model.parameters())", "opt=opt", True),
        ("", "Adam(model.parameters(), capturable=True)", "opt", False),
        ("", "SGD(model.parameters(), lr=0.1)", "opt", False),
    ],
)
def test_an_optimizer_for_a_capture(scan: Scan, declared: str, made: str, given: str, found: bool) -> None:
    text = TRAINER.format(declared=declared, made=made, given=given)
    assert [found for found in scan(text) if found[0] == "GS802"] == [("GS802", "opt.step()  # captured")] * found


SERVER = """\
class Quantised(nn.Linear):
    def __init__(self, width):
        super().__init__(width, width)
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x):
        return super().forward(x) * self.scale

class Server:
    def __init__(self, net, device, stream):
        self.net = net
        self.x = torch.zeros(2, 8, device=device)
        self.capture(stream)

    def capture(self, stream):
        self.net(self.x)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = self.net(self.x)

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()

class Observer:
    def __init__(self, net):
        self.parts = [part for part in net if isinstance(part, Quantised)]

    def watch(self, peak):
        for part in self.parts:
            {change}

def main(batches, device):
    net = nn.Sequential({parts}).to(device)
    server = Server(net, device, torch.cuda.Stream(device))
    observer = Observer(net)
    for x in batches:
        observer.watch(2.0)
        server(x)
"""


@pytest.mark.parametrize(
    ("parts", "change", "found"),
    [
        ("Quantised(8), nn.ReLU()", "part.scale = torch.full_like(part.scale, peak)", True),
        ("Quantised(8), nn.ReLU()", "part.scale.fill_(peak)", False),
    ],
)
def test_modules_in_a_sequential_for_a_capture(scan: Scan, parts: str, change: str, found: bool) -> None:
    text = SERVER.format(parts=parts, change=change)
    assert [one for one in scan(text) if one[0] == "GS703"] == [("GS703", change)] * found
