"""Generators of random numbers: which of them a graph knows, and where they are seeded."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

from .conftest import Scan

NOISE = """\
class {name}(nn.Module):
    def __init__(self, seed):
        super().__init__()
        self.gen = torch.Generator("cuda").manual_seed(seed)

    def forward(self, x: torch.Tensor):
        return x + torch.randn(x.shape, device=x.device, generator=self.gen)  # {name}

"""
CAPTURE = """\
class Runner:
    def __init__(self, noise{declared}, x, stream):
        self.gen = noise.gen
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state({registered}.gen)
        with torch.cuda.graph(graph, stream=stream):
            y = noise(x)
"""


def drawing(scan: Scan, declared: str, registered: str) -> list[str]:
    text = NOISE.format(name="Plain") + NOISE.format(name="Registered")
    found = scan(text + CAPTURE.format(declared=declared, registered=registered))
    return [line.rpartition("# ")[2] for code, line in found if code == "GS502"]


def test_another_class_has_another_generator(scan: Scan) -> None:
    assert drawing(scan, ": Registered", "noise") == ["Plain"]
    assert drawing(scan, ": nn.Module", "noise") == []
    assert drawing(scan, "", "noise") == []
    assert drawing(scan, "", "noise.inner") == []


@pytest.mark.parametrize("made", ["torch.Generator('cuda').manual_seed(seed)", "torch.Generator(device='cuda')"])
def test_seeding_returns_the_generator(scan: Scan, made: str) -> None:
    text = f"""\
class Noise(nn.Module):
    def __init__(self, seed):
        super().__init__()
        self.gen = {made}

    def forward(self, x: torch.Tensor):
        self.gen.manual_seed(3)
        return x
"""
    assert scan(text) == [("GS503", "self.gen.manual_seed(3)")]


CHOICE = """\
import {imports}

class Policy(Base):
    def forward(self, batch):
        drawn = {draw}
        drawn[~batch.mask] = 0
        return drawn.argmax(-1)
"""


@pytest.mark.parametrize(
    ("imports", "draw", "found"),
    [
        ("numpy as np", "np.random.rand(*batch.mask.shape)", False),
        ("numpy as np, torch", "np.random.rand(*batch.mask.shape)", True),
        ("random", "[random.random()]", True),
    ],
)
def test_a_step_on_arrays(tmp_path: Path, imports: str, draw: str, found: bool) -> None:
    """In a file without torch, numbers that a root draws with NumPy may stay on the host."""
    (tmp_path / "base.py").write_text("from torch import nn\n\nclass Base(nn.Module):\n    pass\n", encoding="utf-8")
    text = "from base import Base\n" + CHOICE.format(imports=imports, draw=draw)
    (tmp_path / "policy.py").write_text(text, encoding="utf-8")
    findings = scan_paths([tmp_path], Config(root=tmp_path)).findings
    assert any(one.code == "GS504" and one.level != "note" for one in findings) is found


@pytest.mark.parametrize(("device", "found"), [("", True), (", device=x.device", False)])
def test_a_draw_on_the_device_of_a_tensor(scan: Scan, device: str, found: bool) -> None:
    """A script that runs the step on the host does not show that captures draw on the host."""
    lines = scan(
        f"""
        class Learner:
            def __init__(self, device):
                self.w = torch.zeros(4, device=device)

            def step(self, x):
                return self.w + x * torch.rand(4{device})

        def main():
            learner = Learner("cpu")
            for _ in range(50):
                learner.step(torch.rand(4))

        main()
        """
    )
    assert any(code == "GS504" for code, _ in lines) is found
