"""Which files are looked into for roots, going by their words, and which are only found to be legal."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsafe.config import load_config
from graphsafe.rulebook.book import load_rulebook
from graphsafe.scan.roots.candidate_files import RootPatterns, root_patterns


@pytest.fixture(scope="module")
def known() -> RootPatterns:
    return root_patterns(load_config(Path("/")), load_rulebook())


@pytest.mark.parametrize(
    "text",
    [
        "class Layer(nn.Module):\n    def forward(self, x):\n        return x\n",
        "class Layer[T: int](nn.Module):\n    def forward(self, x):\n        return x\n",
        "class Layer \\\n        (nn.Module):\n    def forward(self, x):\n        return x\n",
        "class Größe(nn.Module):\n    def forward(self, x):\n        return x\n",
        "class Plain:\n    def forward(self, x):\n        return x\n",
        "class Layer(Base):\n    other = 1  # its forward is inherited\n",
        "def execute_model(self, x):\n    return x\n",
        "async  def  execute_model(self, x):\n    return x\n",
        "def \\\n        execute_model(self, x):\n    return x\n",
        "# graphsafe: hot\ndef step(x):\n    return x\n",
        "with torch.cuda.graph(g):\n    y = x + 1\n",
        "graphs[n].replay()\n",
        "supports_cudagraph = True\n",
        "@torch.compile(mode='max-autotune')\ndef step(x):\n    return x\n",
    ],
)
def test_a_file_that_may_hold_a_root_is_looked_into(known: RootPatterns, text: str) -> None:
    assert known.may_be_in(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "from vllm.forward_context import set_forward_context\n",
        "class Plain:\n    def run(self, x):\n        return x\n",
        "builder.build(x)\nself.execute_model(x)\n",
        "def rebuild(x):\n    return x\n",
        "def build_all(x):\n    return x\n",
    ],
)
def test_a_file_that_only_speaks_of_one_is_not(known: RootPatterns, text: str) -> None:
    assert not known.may_be_in(text.encode())
