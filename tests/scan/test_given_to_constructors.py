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
