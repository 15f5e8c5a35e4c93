"""The chain and the region of a finding belong to the calls with which the line does what the finding says."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.report.model import Finding
from graphsafe.scan.api import scan_paths

HEAD = "import torch\nfrom torch import nn\n\n"
SAMPLES = """\
    def noise(n, device):
        return torch.rand(n, device=device)

    def near(x):
        return x + noise(4, x.device)

    def far(x):
        return x + twice(x)

    def twice(x):
        return noise(4, torch.device("cpu")).to(x.device) * 2
"""
ONE_MODULE = """
    class Net(nn.Module):
        def forward(self, x: torch.Tensor):
            return near(x.cuda()) + far(x)
"""
AROUND = """
    class Net(nn.Module):
        def forward(self, x: torch.Tensor):
            return near(x.cuda())

    def main(loader):
        net = Net().cuda()
        graph = torch.cuda.CUDAGraph()
        x = torch.zeros(4, device="cuda")
        net(x)
        with torch.cuda.graph(graph):
            y = net(x)
        for batch in loader:
            x.copy_(far(batch.cuda()))
            graph.replay()
"""


def findings(tmp_path: Path, source: str, jobs: int) -> list[Finding]:
    path = tmp_path / "step.py"
    path.write_text(HEAD + textwrap.dedent(source), encoding="utf-8")
    (tmp_path / "other.py").write_text(HEAD + "class Other(nn.Module):\n    def forward(self, x):\n        return x\n")
    found = scan_paths([tmp_path], Config(root=tmp_path), jobs=jobs).findings
    return [one for one in found if one.code in ("GS304", "GS504")]


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_chain_leads_to_the_call_that_draws_on_the_host(tmp_path: Path, jobs: int) -> None:
    draw, copy = findings(tmp_path, SAMPLES + ONE_MODULE, jobs)
    assert (draw.code, draw.region) == ("GS504", "captured")
    assert [site.function for site in draw.call_chain] == ["Net.forward", "far", "twice"]
    assert [site.function for site in copy.call_chain] == ["Net.forward", "far"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_call_around_the_graph_does_not_put_the_line_into_the_graph(tmp_path: Path, jobs: int) -> None:
    (copy,) = findings(tmp_path, SAMPLES + AROUND, jobs)
    assert (copy.code, copy.region, copy.level) == ("GS304", "step", "warning")
