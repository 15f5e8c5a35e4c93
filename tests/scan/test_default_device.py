"""Tensors without `device=`: on the host, unless the project makes another device the default."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

from .projects import write_project

MODEL = """\
import torch
from torch import nn

def angles(size):
    return torch.ones(size, 8).cumsum(0)

class Decoder(nn.Module):
    def set_up(self, size):
        self.mask = torch.tril(torch.ones(size, size, dtype=torch.bool))
        self.angles = angles(size)

    def forward(self, x: torch.Tensor, position: torch.Tensor):
        steps = torch.arange(4)
        x = x * self.mask[position]
        return x * self.angles[position] + x[steps]
"""


def reads(tmp_path: Path, start: str, where: str = "start.py") -> list[str]:
    """The texts of what is found in the model; START is a file beside it."""
    (tmp_path / where).parent.mkdir(exist_ok=True)
    root = write_project(tmp_path, {"model.py": MODEL, where: textwrap.dedent(start)})
    report = scan_paths([root], Config(root=root))
    return [
        f.message.split("`")[1] for f in report.findings if f.location.path.endswith("model.py") and f.level != "note"
    ]


ON_THE_HOST = ["self.mask[position]", "self.angles[position]", "x[steps]"]


@pytest.mark.parametrize(
    "start",
    [
        "",
        "import torch\ntorch.set_default_device('cpu')\n",
        "import torch\nfrom model import Decoder\nwith torch.device('meta'):\n    model = Decoder()\n",
    ],
    ids="nothing cpu meta".split(),
)
def test_they_are_on_the_host(tmp_path: Path, start: str) -> None:
    assert reads(tmp_path, start) == ON_THE_HOST


@pytest.mark.parametrize(
    "around",
    ["torch.device(device)", "device", "torch.device('cuda'), torch.inference_mode()"],
    ids="made held two".split(),
)
def test_what_a_model_keeps_where_a_device_is_entered(tmp_path: Path, around: str) -> None:
    start = f"""\
        import torch
        from model import Decoder

        def load(device):
            with {around}:
                model = Decoder()
                model.set_up(64)
            return model
        """
    assert reads(tmp_path, start) == ["x[steps]"]


def test_what_a_model_keeps_that_an_engine_builds(tmp_path: Path) -> None:
    model = "from vllm.model_executor.layers.linear import LinearBase\n" + MODEL
    root = write_project(tmp_path, {"decoder.py": model})
    report = scan_paths([root], Config(root=root))
    assert [f.message.split("`")[1] for f in report.findings if f.level != "note"] == ["x[steps]"]


def test_everything_where_a_default_is_set(tmp_path: Path) -> None:
    assert reads(tmp_path, "import torch\nimport model\ntorch.set_default_device('cuda')\n") == []


def test_a_script_beside_the_model_that_does_not_use_it(tmp_path: Path) -> None:
    assert reads(tmp_path, "import torch\ntorch.set_default_device('cuda')\n") == ON_THE_HOST


@pytest.mark.parametrize("where", ["tests/model.py", "test_model.py"])
def test_a_test_that_sets_a_default_says_nothing(tmp_path: Path, where: str) -> None:
    start = "import torch\nimport model\n\ndef test_decoder():\n    torch.set_default_device('cuda')\n"
    assert reads(tmp_path, start, where=where) == ON_THE_HOST


def test_values_that_are_moved_where_they_are_made(tmp_path: Path) -> None:
    """Under any default device, `torch.tensor([…]).cuda()` copies from the host. A tensor that is only made may be
    filled on the device."""
    root = write_project(
        tmp_path,
        {
            "runner.py": textwrap.dedent("""\
                import torch
                from torch import nn

                torch.set_default_device("cuda")

                class Runner(nn.Module):
                    def forward(self, x: torch.Tensor, requests: list):
                        lengths = torch.tensor([one.length for one in requests], dtype=torch.int64).cuda()
                        starts = torch.tensor([one.start for one in requests]).to(x.device, non_blocking=True)
                        return x + lengths + starts + torch.zeros(4).cuda() + torch.arange(4).to(x.device)
                """),
        },
    )
    report = scan_paths([root], Config(root=root))
    found = [(f.code, f.location.line) for f in report.findings if f.level != "note"]
    assert found == [("GS301", 8), ("GS301", 9)]
